"""The consumer that is asked for messages, and the pulls that all consumers make."""
