"""The blocking `Producer`: made by tools/sync_facade.py from cometmq.client.producer.producer; do not edit."""

import concurrent.futures
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cometmq.client.producer.producer import AsyncProducer
from cometmq.client.producer.queue_selector import Selector
from cometmq.client.producer.sends_in_flight import WINDOW
from cometmq.client.producer.transactions import (
    TransactionListener,
    TransactionResult,
)
from cometmq.client.results import SendResult
from cometmq.client.settings import ProducerSettings
from cometmq.client.sync.client import BlockingGroupClient
from cometmq.client.sync.transaction import Transaction
from cometmq.model.message import Message, StoredMessage
from cometmq.model.queue import MessageQueue


class Producer(BlockingGroupClient[AsyncProducer]):
    """A producer: sends messages singly, in batches, as requests and in transactions.

    When it is closed, sends in flight may fail; it still tries to send incomplete batches and traces.

    Args:
        nameservers: "host:port;host:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: Its producer group; relevant mainly for transactions.
        settings: Namespace, times, retries, sizes and optional features.
        transaction_listener: Does the work of `send_in_transaction` and answers checks that the producer cannot.

    Raises:
        SettingsError: A nameserver address, or the credentials or TLS settings (also of the environment), are unusable.
        RequestError: The name of the group is invalid.
    """

    def __init__(
        self,
        nameservers: str | None = None,
        *,
        group: str = "PYTHON_PRODUCER",
        settings: ProducerSettings | None = None,
        transaction_listener: TransactionListener | None = None,
    ) -> None:
        super().__init__(
            AsyncProducer(
                nameservers,
                group=group,
                settings=settings,
                transaction_listener=transaction_listener,
            )
        )

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send a message and return its result when a broker acknowledges it; asyncio: return a future at once.

        The errors of an asyncio call are raised when its future is awaited; an error of `selector` is raised unchanged.

        Args:
            message: Message to send.
            queue: Queue of the topic to send to, in a single attempt; None: round robin, with retries.
            selector: Without `queue`: chooses the queue, for example `by_hash(key)`; also a single attempt.
            timeout_ms: Timeout for all attempts together, ms; None: as in the settings.

        Raises:
            MessageError: The message cannot be sent; nothing was sent.
            ClientClosed: The producer is not running, or was closed during the send (the message may be stored).
            SendFailed: No attempt was acknowledged (the message may be stored), or the topic has no writable queue.
            BrokerRefused: The broker refused the only attempt, or the nameserver the query for the route.
            TopicNotFound, BrokerNotFound, NetError: No route was found, or no broker could be reached.
            CodecError: The broker's answer is malformed (the message may be stored), or the route is.
        """
        return self._portal.call(
            self._client.send, message, queue=queue, selector=selector, timeout_ms=timeout_ms
        )

    def send_async(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> concurrent.futures.Future[SendResult]:
        """Start `send` and return a concurrent future of its result or error, without waiting.

        Raises:
            ClientClosed: Called from an async listener, or in the child of a fork.
        """
        return self._portal.start(
            self._client.send, message, queue=queue, selector=selector, timeout_ms=timeout_ms
        )

    def send_many(
        self,
        messages: Iterable[Message],
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
        window: int = WINDOW,
    ) -> list[SendResult]:
        """Send messages with many in flight at once and return the results in their order.

        If the order within a queue matters, wait for each send before the next one or use `send_batch`: a Java broker
        processes the requests of a connection in parallel.

        Args:
            messages: Any number of messages.
            queue: Queue of the topic to send to, in a single attempt; None: round robin, with retries.
            selector: Without `queue`: chooses the queue of each message, in a single attempt.
            timeout_ms: Timeout of each send, ms; None: as in the settings.
            window: Maximum number of sends in flight, at least 1.

        Raises:
            SendFailed: Some sends failed; raised after all have ended, with their number and the first reason.
            ClientClosed, MessageError: A message cannot be sent; raised after the sends before it have ended.
            SettingsError: `window` is less than 1.
        """
        return self._portal.call(
            self._client.send_many,
            messages,
            queue=queue,
            selector=selector,
            timeout_ms=timeout_ms,
            window=window,
        )

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send messages of one topic in one request, stored consecutively in one queue; asyncio: return a future.

        Args:
            messages: Messages that, encoded with their properties, have together at most `body_size_max` bytes.
            queue: Queue of the topic to send to, in a single attempt; None: round robin, with retries.
            timeout_ms: Timeout for all attempts together, ms; None: as in the settings.

        Raises:
            MessageError: The messages cannot be sent together, for example as they have several topics or a delay, or
                `queue` belongs to another topic.
            ClientClosed, SendFailed, BrokerRefused, TopicNotFound, BrokerNotFound, NetError, CodecError: As in `send`.
        """
        return self._portal.call(
            self._client.send_batch, messages, queue=queue, timeout_ms=timeout_ms
        )

    def send_batch_async(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> concurrent.futures.Future[SendResult]:
        """Start `send_batch` and return a concurrent future of its result or error, without waiting.

        Raises:
            ClientClosed: Called from an async listener, or in the child of a fork.
        """
        return self._portal.start(
            self._client.send_batch, messages, queue=queue, timeout_ms=timeout_ms
        )

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
    ) -> None:
        """Send a message once without acknowledgement: fast, but the message may be lost unnoticed.

        Raises an error if it could not be written to a connection: ClientClosed, MessageError, SendFailed (no writable
        queue), TopicNotFound, BrokerNotFound, NetError, or BrokerRefused or CodecError (mostly of the route).
        """
        self._portal.call(self._client.send_oneway, message, queue=queue, selector=selector)

    def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> StoredMessage:
        """Send a message and return the first reply of a consumer to it.

        Args:
            message: The request.
            queue: Queue of the topic to send to, in a single attempt; None: round robin, with retries.
            selector: Without `queue`: chooses the queue, in a single attempt.
            timeout_ms: Timeout for the send and the reply together, ms; None: as in the settings.

        Raises:
            RequestTimeout: No reply arrived in time.
            CodecError: The reply is malformed, or as in `send`.
            ClientClosed, MessageError, SendFailed, BrokerRefused, TopicNotFound, BrokerNotFound, NetError: As in `send`.
        """
        return self._portal.call(
            self._client.request, message, queue=queue, selector=selector, timeout_ms=timeout_ms
        )

    def reply(
        self,
        request: StoredMessage,
        body: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Reply to a request of any RocketMQ client, in a single attempt; asyncio: return a future of the result.

        Args:
            request: The request, as a listener received it.
            body: Body of the reply.
            properties: User properties of the reply.
            timeout_ms: Timeout of the send, ms; None: as in the settings.

        Raises:
            MessageError: The message does not request a reply, or the reply cannot be sent.
            BrokerRefused: The client that sent the request is not connected to the broker, or as in `send`.
            ClientClosed, SendFailed, TopicNotFound, BrokerNotFound, NetError, CodecError: As in `send`.
        """
        return self._portal.call(
            self._client.reply, request, body, properties=properties, timeout_ms=timeout_ms
        )

    def reply_async(
        self,
        request: StoredMessage,
        body: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
    ) -> concurrent.futures.Future[SendResult]:
        """Start `reply` and return a concurrent future of its result or error, without waiting.

        Raises:
            ClientClosed: Called from an async listener, or in the child of a fork.
        """
        return self._portal.start(
            self._client.reply, request, body, properties=properties, timeout_ms=timeout_ms
        )

    def transaction(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> Transaction:
        """Make a transaction for `with`: sends a half message, runs your block, then commits or rolls back.

        Args:
            message: Message that consumers receive after the commit.
            queue: Queue of the topic to send to, in a single attempt; None: round robin, with retries.
            selector: Without `queue`: chooses the queue, in a single attempt.
            timeout_ms: Timeout of the half message with all attempts, ms; None: as in the settings.

        Raises:
            ClientClosed, MessageError: The producer is not running, or `queue` belongs to another topic.
            CometError: Entering the block raises the errors of `send`; leaving it without an exception, those of `commit`.
        """
        return Transaction(
            self._portal,
            self._portal.do(
                self._client.transaction,
                message,
                queue=queue,
                selector=selector,
                timeout_ms=timeout_ms,
            ),
        )

    def send_in_transaction(
        self, message: Message, argument: Any = None, *, timeout_ms: int | None = None
    ) -> TransactionResult:
        """Send a half message, run the listener's `execute`, and commit or roll back as it returns.

        After UNKNOWN or an exception nothing is reported; then, or if the report gets lost, the broker checks later.

        Args:
            message: Message that consumers receive after the commit.
            argument: Passed to `execute`.
            timeout_ms: Timeout of the half message with all attempts, ms; None: as in the settings.

        Raises:
            MessageError: There is no listener, or the message cannot be sent.
            SendFailed, TopicNotFound, BrokerNotFound, NetError: The half message was not acknowledged, or not flushed
                or replicated in time; the listener was not called.
            CodecError: An answer to the half message, to its end, or of the nameserver is malformed.
            BrokerRefused: The half message, its end (for example if the broker has lost it) or the route was refused.
            ClientClosed: The producer is not running, or was closed meanwhile.
        """
        return self._portal.call(
            self._client.send_in_transaction, message, argument, timeout_ms=timeout_ms
        )

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that messages of this topic may be sent to.

        For a topic that does not exist yet these are the queues that its first send is expected to create.

        Raises:
            TopicNotFound: There is no route of the topic, and none of the default topic to derive it from.
            ClientClosed, NetError: The producer is not running, or no nameserver answers.
            BrokerRefused, CodecError: The first nameserver that answers refuses, or its route is invalid.
        """
        return self._portal.call(self._client.queues, topic)
