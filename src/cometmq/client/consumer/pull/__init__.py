"""The pull consumer, and the pulls that all consumers make."""
