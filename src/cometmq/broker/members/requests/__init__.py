"""The request handlers of group members."""
