"""The blocking `EncodedProducer`: made by tools/sync_facade.py from cometmq.client.producer.encoded_producer; do not edit."""

import concurrent.futures
from collections.abc import Callable, Sequence

from cometmq.client.api.transactions import HalfMessage
from cometmq.client.producer.check_answers import HalfJudge
from cometmq.client.producer.encoded_producer import (
    AsyncEncodedProducer,
)
from cometmq.client.producer.encoded_send import EncodedBatch, EncodedMessage
from cometmq.client.producer.transactions import TransactionState
from cometmq.client.results import SendResult
from cometmq.client.settings import ProducerSettings
from cometmq.client.sync.client import BlockingGroupClient
from cometmq.model.errors import CometError
from cometmq.model.queue import MessageQueue


class EncodedProducer(BlockingGroupClient[AsyncEncodedProducer]):
    """A producer of encoded messages, which also ends half messages of its group.

    Sends in flight may fail when it is closed.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: Its producer group.
        settings: Namespace, times, retries and sizes.
        joins: Whether to join the group; if False, brokers check half messages with other members. Always with `judge`.
        mark: With `judge`: name of a property; only half messages with this property are checked with `judge`.
        judge: Returns the outcome of a half message when a broker checks it; called in a thread.

    Raises:
        SettingsError: A nameserver address is invalid.
        RequestError: The name of the group is invalid.
    """

    def __init__(
        self,
        nameservers: str | None = None,
        *,
        group: str,
        settings: ProducerSettings | None = None,
        joins: bool = True,
        mark: str = "",
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
        """Return the queues that messages of this topic may be sent to, with the names that brokers use.

        Raises:
            TopicNotFound: There is no route, and brokers create no topics.
            ClientClosed, NetError: The producer is not running, or no nameserver answers.
            BrokerRefused, CodecError: The first nameserver that answers refuses, or its route is invalid.
        """
        result: list[MessageQueue] = self._portal.call(self._client.queues, topic)
        return result

    def send_each(
        self,
        messages: Sequence[EncodedMessage | EncodedBatch],
        *,
        queue: MessageQueue | None = None,
    ) -> list[SendResult | CometError]:
        """Send messages and batches concurrently; return a list of results or errors in order (asyncio: a future).

        Args:
            messages: Messages and batches, each sent as one request.
            queue: Queue for all of them, with a single attempt each; None: round robin, with retries.

        Raises:
            ClientClosed: The producer is not running.
        """
        result: list[SendResult | CometError] = self._portal.call(
            self._client.send_each, messages, queue=queue
        )
        return result

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
        result: concurrent.futures.Future[list[SendResult | CometError]] = self._portal.start(
            self._client.send_each, messages, queue=queue
        )
        return result

    def end(
        self,
        half_messages: Sequence[HalfMessage],
        state: TransactionState,
        *,
        late: bool = False,
    ) -> list[CometError | None]:
        """Commit or roll back half messages concurrently and return None or the error for each, in their order.

        Args:
            half_messages: Half messages of this producer's group.
            state: COMMIT or ROLLBACK.
            late: Whether to send it like the answer to a check, so that brokers accept it for old half messages.

        Raises:
            ClientClosed: The producer is not running.
        """
        result: list[CometError | None] = self._portal.call(
            self._client.end, half_messages, state, late=late
        )
        return result

    def committed(self, half_messages: Sequence[HalfMessage]) -> list[bool]:
        """Return for each half message whether the broker's index has its committed message, which consumers see.

        Raises ClientClosed if the producer is not running, and CometError if a broker cannot be queried.
        """
        result: list[bool] = self._portal.call(self._client.committed, half_messages)
        return result
