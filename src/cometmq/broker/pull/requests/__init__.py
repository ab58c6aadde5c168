"""Request handlers of pulls, checks of filters, and the quotas of cold readers."""
