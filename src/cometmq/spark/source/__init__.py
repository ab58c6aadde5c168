"""Source: plans which messages of the topics a read covers, and reads them."""
