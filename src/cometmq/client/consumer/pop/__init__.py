"""The simple consumer, which acknowledges message by message, and pop for the others."""
