"""The handling of sends, from the checks of a request to its answer."""
