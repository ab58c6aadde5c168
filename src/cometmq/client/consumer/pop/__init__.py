"""The consumer that acknowledges message by message, and pops for the others."""
