"""The blocking `EncodedProducer`: made by tools/sync_facade.py from cometmq.client.producer.encoded_producer; do not edit."""

import concurrent.futures
from collections.abc import Callable, Sequence

from cometmq.client.api.transactions import HalfMessage
from cometmq.client.producer.encoded_producer import (
    AsyncEncodedProducer,
    HalfJudge,
)
from cometmq.client.producer.encoded_send import EncodedBatch, EncodedMessage
from cometmq.client.producer.transactions import TransactionState
from cometmq.client.results import SendResult
from cometmq.client.settings import ProducerSettings
from cometmq.client.sync.client import BlockingGroupClient
from cometmq.model import properties as keys_of
from cometmq.model.errors import CometError
from cometmq.model.queue import MessageQueue


class EncodedProducer(BlockingGroupClient[AsyncEncodedProducer]):
    """A producer of encoded messages, which also ends half messages of its group.

    Sends in flight may fail when it is closed.

    Args:
        nameservers: "host:port;host:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: Its producer group.
        settings: Namespace, times, retries, limits on sends in flight; messages are never compressed, combined or traced.
        joins: Whether to join the group (with `judge`: always); if False, brokers send checks only to other members.
        mark: Name of a property; `judge` is called only for half messages with this property, by default for all.
        judge: Returns the outcome of a half message when a broker checks it; called in a thread.

    Raises:
        SettingsError: A nameserver address, or the credentials or TLS settings (also of the environment), are unusable.
        RequestError: The name of the group is invalid.
    """

    def __init__(
        self,
        nameservers: str | None = None,
        *,
        group: str,
        settings: ProducerSettings | None = None,
        joins: bool = True,
        mark: str = keys_of.TRAN_MSG,
        judge: HalfJudge | None = None,
    ) -> None:
        super().__init__(
            AsyncEncodedProducer(
                nameservers, group=group, settings=settings, joins=joins, mark=mark, judge=judge
            )
        )

    @property
    def next_id(self) -> Callable[[], str]:
        """A function that returns a new unique message id; may be called from any thread."""
        return self._client.next_id

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that messages of this topic may be sent to, with the namespace in their topic.

        Raises:
            TopicNotFound: There is no route of the topic, and none of the default topic to derive it from.
            ClientClosed, NetError: The producer is not running, or no nameserver answers.
            BrokerRefused, CodecError: The first nameserver that answers refuses, or its route is invalid.
        """
        return self._portal.call(self._client.queues, topic)

    def send_each(
        self,
        messages: Sequence[EncodedMessage | EncodedBatch],
        *,
        queue: MessageQueue | None = None,
    ) -> list[SendResult | CometError]:
        """Send messages and batches concurrently; return a list of results or errors in order (asyncio: a future).

        Args:
            messages: Messages and batches, each sent as one request, unchecked.
            queue: Queue of their topic for all, with a single attempt each; None: round robin, with retries.

        Raises:
            ClientClosed: The producer is not running (asyncio: raised by the future).
            MessageError: `queue` belongs to another topic than a message; nothing was sent.
        """
        return self._portal.call(self._client.send_each, messages, queue=queue)

    def send_each_async(
        self,
        messages: Sequence[EncodedMessage | EncodedBatch],
        *,
        queue: MessageQueue | None = None,
    ) -> concurrent.futures.Future[list[SendResult | CometError]]:
        """Start `send_each` and return a concurrent future of its result or error, without waiting.

        Raises:
            ClientClosed: Called from an async listener, or in the child of a fork.
        """
        return self._portal.start(self._client.send_each, messages, queue=queue)

    def end(
        self,
        half_messages: Sequence[HalfMessage],
        state: TransactionState,
        *,
        late: bool = False,
    ) -> list[CometError | None]:
        """Commit or roll back half messages concurrently; return None (confirmed) or the error for each, in their order.

        Args:
            half_messages: Half messages of this producer's group.
            state: COMMIT or ROLLBACK.
            late: Whether to mark the requests as answers to checks, which brokers also accept for old half messages.

        Raises:
            ClientClosed: The producer is not running.
        """
        return self._portal.call(self._client.end, half_messages, state, late=late)

    def committed(self, half_messages: Sequence[HalfMessage]) -> list[bool]:
        """Return for each half message whether its broker's index has the committed message, which consumers see.

        False also if the index lags behind or is disabled. Raises ClientClosed if not running, CometError if a query fails.
        """
        return self._portal.call(self._client.committed, half_messages)
