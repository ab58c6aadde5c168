"""The interface of a cluster that the sink needs.

A send is raw: it takes encoded rows, and no `Message` is made for them.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Protocol

from cometmq.client import SendResult
from cometmq.model.errors import CometError
from cometmq.model.queue import MessageQueue
from cometmq.spark.sink.batches import Request
from cometmq.spark.sink.half_messages import TransactionResolver
from cometmq.spark.sink.identity import FreshIds

# One for a batch, one for each row that travels alone: how it was stored, or why it was not.
Outcomes = list[SendResult | CometError]


class SinkCluster(Protocol):
    """A cluster as the sink sees it."""

    @property
    def ids(self) -> FreshIds:
        """Makes ids that no other message has."""

    @property
    def resolver(self) -> TransactionResolver:
        """Commits half messages and rolls them back."""

    def used(self) -> AbstractContextManager[None]:
        """A context for as long as a task writes: nobody closes the cluster meanwhile."""

    def writable_queues(self, topic: str) -> Sequence[MessageQueue]:
        """The queues of a topic that take messages, on brokers that can be reached."""

    def start(self, request: Request) -> Future[Outcomes]:
        """Start to send, to the request's queue or to any of its topic; the future has the outcomes."""
