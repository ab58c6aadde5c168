"""A real nameserver and broker in one process, for tests, laptops and demos."""

from cometmq.embedded.pair import AsyncEmbedded
from cometmq.embedded.thread import Embedded

__all__ = ["AsyncEmbedded", "Embedded"]
