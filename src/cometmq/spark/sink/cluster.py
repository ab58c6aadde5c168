"""What the sink needs of a cluster, and no more.

A send is raw: it takes an encoded batch, and no object is made for a message.

Next: cometmq.spark.sink.client_cluster
"""

from collections.abc import Sequence
from typing import Protocol

from cometmq.client.results import SendResult
from cometmq.model.queue import MessageQueue


class SinkCluster(Protocol):
    """A cluster as the sink sees it."""

    def new_message_id(self) -> str:
        """An id that no other message has."""

    def writable_queues(self, topic: str) -> Sequence[MessageQueue]:
        """The queues of a topic that take messages, on brokers that can be reached."""

    def send_batch(self, topic: str, queue: MessageQueue | None, body: bytes) -> "Sending":
        """Start to send an encoded batch (`codec.batch`) to a queue, or to any of the topic."""


class Sending(Protocol):
    """A batch on its way."""

    def result(self) -> SendResult:
        """Wait for the broker's word.

        Raises:
            CometError: refused, or no word in time.
        """
