"""Pulls: from the admission of a request to the messages that it gets."""
