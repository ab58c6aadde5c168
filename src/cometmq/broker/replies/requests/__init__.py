"""The request handlers of replies and relayed requests."""
