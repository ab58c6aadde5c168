"""The request handlers of replication, and a slave's requests to its master."""
