"""The request handlers of `broker.admin`."""
