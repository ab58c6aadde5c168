"""The handling of sends, from the checks of a request to the answer that its message is stored."""
