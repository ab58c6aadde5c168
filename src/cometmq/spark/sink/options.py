"""The options of a write.

Next: cometmq.spark.sink.settings
"""

from cometmq.spark.options import NAME_SERVER, Option, group, text, whole

DEFAULT_GROUP = "spark-rocketmq-sink"

SINK_OPTIONS = (
    NAME_SERVER,
    Option("topic", text, None, "Where all rows go. Goes before the column `topic`; one of the two is required."),
    Option("group", group, DEFAULT_GROUP, "The producer group that brokers see."),
    Option("batch.maxMessages", whole(1, 65536), "1024", "The most messages in one request."),
    Option("batch.maxBytes", whole(1024, 64 << 20), "1048576", "The most bytes in one request; a broker refuses more than its maxMessageSize (4 MiB)."),
    Option("maxInflight", whole(1, 1024), "8", "Requests of a task that may wait for their acknowledgement at once."),
    Option("retries", whole(), "3", "How often a request is tried again, on another broker where the row names no queue and there is one."),
    Option("sendTimeoutMs", whole(1), "10000", "How long one acknowledgement may take."),
)  # fmt: skip
