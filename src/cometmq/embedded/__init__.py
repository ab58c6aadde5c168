"""A nameserver and a broker in one process, real in everything: for tests, laptops and demos."""

from cometmq.embedded.pair import AsyncEmbedded
from cometmq.embedded.thread import Embedded

__all__ = ["AsyncEmbedded", "Embedded"]
