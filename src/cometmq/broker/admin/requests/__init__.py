"""The request handlers of administrators."""
