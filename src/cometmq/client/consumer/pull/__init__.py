"""The pull consumer, and the pull requests that all consumers use."""
