"""A real nameserver and broker in this process, for tests and demos: `Embedded` (own thread) and `AsyncEmbedded`."""

from cometmq.embedded.pair import AsyncEmbedded
from cometmq.embedded.thread import Embedded

__all__ = ["AsyncEmbedded", "Embedded"]
