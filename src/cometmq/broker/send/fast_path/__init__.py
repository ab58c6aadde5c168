"""Sends that need nothing special, many at a time; what is special goes the slow way."""
