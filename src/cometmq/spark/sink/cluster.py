"""Interface of the Spark sink to a cluster; it sends encoded rows, so no `Message` objects are created."""

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Protocol

from cometmq import SendResult
from cometmq.model.errors import CometError
from cometmq.model.queue import MessageQueue
from cometmq.spark.sink.batches import Request
from cometmq.spark.sink.half_messages import TransactionResolver
from cometmq.spark.sink.identity import FreshIds

# One outcome for a batch, or one for each single row: where it was stored, or the error.
Outcomes = list[SendResult | CometError]


class SinkCluster(Protocol):
    """Interface of the Spark sink to a cluster: message ids, writable queues, sends and transactions."""

    @property
    def ids(self) -> FreshIds:
        """Generator of unique message ids."""

    @property
    def resolver(self) -> TransactionResolver:
        """Client that commits half messages, rolls them back, and finds committed ones."""

    def used(self) -> AbstractContextManager[None]:
        """Return a context that keeps the pool from closing this client while a task writes."""

    def writable_queues(self, topic: str) -> Sequence[MessageQueue]:
        """Return the queues to which messages of a topic may be sent."""

    def start(self, request: Request) -> Future[Outcomes]:
        """Start sending a request to its queue, or to any of its topic if it selects none; the future has the outcomes."""
