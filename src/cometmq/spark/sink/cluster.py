"""The interface of a cluster that the sink needs.

A send is raw: it takes encoded rows, and no `Message` is made for them.

Next: cometmq.spark.sink.client_cluster
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from cometmq.client import SendResult
from cometmq.model.errors import CometError
from cometmq.model.queue import MessageQueue
from cometmq.spark.sink.batches import Request
from cometmq.spark.sink.halves import Endings
from cometmq.spark.sink.identity import FreshIds


class SinkCluster(Protocol):
    """A cluster as the sink sees it."""

    @property
    def ids(self) -> FreshIds:
        """Makes ids that no other message has."""

    @property
    def endings(self) -> Endings:
        """Ends transactions."""

    def used(self) -> AbstractContextManager[None]:
        """For as long as a task writes."""

    def writable_queues(self, topic: str) -> Sequence[MessageQueue]:
        """The queues of a topic that take messages, on brokers that can be reached."""

    def start(self, request: Request) -> "Sending":
        """Start to send, to the request's queue or to any of its topic."""


class Sending(Protocol):
    """A request on its way."""

    def outcomes(self) -> Sequence[SendResult | CometError]:
        """Wait for the broker's word: one for a batch, one for each row that travels alone."""
