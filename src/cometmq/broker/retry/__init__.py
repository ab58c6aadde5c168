"""Messages that a consumer sends back: they are stored again, for a retry or as dead letters, or refused or dropped."""
