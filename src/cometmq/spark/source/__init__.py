"""The source: which messages a read covers, and reading them."""
