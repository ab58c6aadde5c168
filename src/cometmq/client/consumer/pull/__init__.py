"""The pull consumer, the queue reader, and the pull requests that push consumers use, too."""
