"""Source of the Spark format "rocketmq": plans which messages of topics a batch or stream reads, and pulls them."""
