"""Sends: from the admission of a frame to the answer that its message is stored."""
