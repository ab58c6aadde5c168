"""The handling of pulls, from the checks of a request to the messages in its answer."""
