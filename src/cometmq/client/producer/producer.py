"""The asyncio producer, which sends messages to topics.

    async with AsyncProducer("127.0.0.1:9876") as producer:
        result = await producer.send(Message("orders", b"...", tag="paid", keys="order-17"))

`send` immediately returns a future, mostly without making a task; the future also carries errors: await it, or gather
many. Simple sends of one iteration of the event loop may share writes. `cometmq.Producer` is the same for threads.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cometmq.client.argument_checks import CAUSED, explain
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.identity import make_unique_ids
from cometmq.client.lifecycle import AsyncGroupClient
from cometmq.client.producer.accumulator import Accumulator
from cometmq.client.producer.encoded_send import SendEncoder
from cometmq.client.producer.producer_member import ProducerMember
from cometmq.client.producer.queue_selector import Selector, at_broker, only, pick_of
from cometmq.client.producer.request_reply import OpenRequests, make_reply
from cometmq.client.producer.sender import EncodedSender
from cometmq.client.producer.sends_in_flight import WINDOW, send_all
from cometmq.client.producer.transactions import (
    AsyncTransaction,
    ProducerTransactions,
    TransactionListener,
    TransactionResult,
)
from cometmq.client.producer.turn_sends import TurnSends
from cometmq.client.results import SendResult
from cometmq.client.settings import ProducerSettings
from cometmq.client.tracing.interceptors import (
    Interceptor,
    Messages,
    make_interceptors,
    watched,
)
from cometmq.client.user_calls import call_user
from cometmq.model.codes import RequestCode
from cometmq.model.errors import CometError, MessageError
from cometmq.model.message import Message, StoredMessage
from cometmq.model.queue import MessageQueue


class AsyncProducer(AsyncGroupClient):
    """A producer: sends messages singly, in batches, as requests and in transactions.

    When it is closed, sends in flight may fail; it still tries to send incomplete batches and traces.

    Args:
        nameservers: "host:port;host:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: Its producer group; relevant mainly for transactions.
        settings: Namespace, times, retries, sizes and optional features.
        transaction_listener: Does the work of `send_in_transaction` and answers checks that the producer cannot.
        instance: Connections of another client to use instead of own ones to `nameservers`; their owner closes them.

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
        instance: ClientInstance | None = None,
    ) -> None:
        self._settings = settings or ProducerSettings()
        super().__init__(nameservers, self._settings, instance, group)
        group = self._group
        self._membership = ProducerMember(group)
        ids = make_unique_ids(self._instance.ip, self._instance.clock, self._instance.chance)
        self._encoder = SendEncoder(group, self._settings, self._instance.clock, ids)
        self._sender: EncodedSender | None = None
        self._interceptors: list[Interceptor] = []  # While it is open, called for each send.
        self._accumulator: Accumulator | None = None
        # None if each send passes through interceptors, batching or the fault table.
        self._sends: TurnSends | None = None
        self._requests = OpenRequests(self._instance)
        reply_code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        self._membership.takers[reply_code] = self._requests.take
        self._listener = transaction_listener
        self._transactions = ProducerTransactions(
            group,
            self._instance,
            self._encoder,
            None if transaction_listener is None else self._check,
            namespace=self._namespace,
            body_size_max=self._settings.body_size_max,
            interceptors=self._interceptors,
        )
        check_code = RequestCode.CHECK_TRANSACTION_STATE
        self._membership.takers[check_code] = self._transactions.take_check

    async def _check(self, message: StoredMessage) -> Any:
        assert self._listener is not None, "it is asked only if there is one"
        return await call_user(self._listener.check, message)

    # --- life cycle

    async def _open(self) -> None:
        self._at_close(lambda: self._instance.leave(self._membership))
        self._at_close(self._transactions.close)
        self._at_close(self._requests.close)
        sender = self._sender = EncodedSender(self._instance, self._settings)
        self._at_close(sender.close)
        self._at_close(self._interceptors.clear)
        self._interceptors += make_interceptors(self._instance, self._group, self._settings)
        for interceptor in self._interceptors:
            self._at_close(interceptor.close)
        if self._settings.auto_batch:
            self._accumulator = Accumulator(self._encoder, sender, self._settings)
            self._at_close(self._accumulator.close)
        elif not self._interceptors and sender.faults is None:
            self._sends = TurnSends(self._encoder, sender, self._check_running)
        self._at_close(self._take_no_more)
        # A broker with a half message of this group must be able to reach us, even if we have sent it nothing.
        await self._instance.join(self._membership, everywhere=self._listener is not None)

    def _take_no_more(self) -> None:
        if self._sends is not None:
            self._sends.send_now()
            self._sends = None

    def _running(self) -> EncodedSender:
        self._check_running()
        if self._sends is not None:
            self._sends.send_now()  # Earlier messages are sent first.
        assert self._sender is not None, "made at start"
        return self._sender

    # --- sending

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> asyncio.Future[SendResult]:
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
        sends = self._sends
        try:
            if sends is not None and queue is None and selector is None and timeout_ms is None:
                return sends.add(message)
            return self._begin(message, queue, selector, timeout_ms)
        except CometError as error:
            return _failed(error)
        except CAUSED as error:
            named = {"queue": queue, "selector": selector, "timeout_ms": timeout_ms}
            return _failed(explain(self.send, (message,), named, error))

    def _begin(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: Selector | None,
        timeout_ms: int | None,
    ) -> asyncio.Future[SendResult]:
        sends = self._sends
        is_simple = queue is None and selector is None and timeout_ms is None
        if sends is not None and is_simple and sends.cannot_fail(message):
            return sends.add(message)
        sender = self._running()
        pick = None
        if queue is not None or selector is not None:
            pick = pick_of(message, queue, selector, self._namespace)
        accumulator = self._accumulator
        if accumulator is None and not self._interceptors:
            return sender.start(self._encoder.pack(message), pick, timeout_ms)

        def start(those: Messages) -> asyncio.Future[SendResult]:
            if accumulator is not None and pick is None and accumulator.takes(those[0]):
                return accumulator.send(those[0], timeout_ms)
            return sender.start(self._encoder.pack(those[0]), pick, timeout_ms)

        return watched(self._interceptors, [message], start)

    async def send_many(
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

        def send(message: Message) -> asyncio.Future[SendResult]:
            return self._begin(message, queue, selector, timeout_ms)

        return await send_all(messages, send, window=window)

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> asyncio.Future[SendResult]:
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
        try:
            sender = self._running()

            def start(those: Messages) -> asyncio.Future[SendResult]:
                encoded = self._encoder.pack_batch(those)
                pick = only(queue, encoded.topic, self._namespace)
                return sender.start(encoded, pick, timeout_ms)

            return watched(self._interceptors, messages, start)
        except CometError as error:
            return _failed(error)

    async def send_oneway(
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
        sender, wrong = self._running(), None

        def start(those: Messages) -> asyncio.Future[SendResult]:
            return sender.loop.create_task(sender.oneway(self._encoder.pack(those[0]), pick))

        try:
            pick = pick_of(message, queue, selector, self._namespace)
            if self._interceptors:
                await watched(self._interceptors, [message], start)
            else:  # Avoids a task.
                await sender.oneway(self._encoder.pack(message), pick)
        except CAUSED as error:
            named = {"queue": queue, "selector": selector}
            wrong = explain(self.send_oneway, (message,), named, error)
        if wrong is not None:
            raise wrong

    # --- request and reply

    async def request(
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
        sender = self._running()
        timeout_ms = self._settings.send_timeout_ms if timeout_ms is None else timeout_ms
        pick = pick_of(message, queue, selector, self._namespace)
        opened = self._requests.begin(timeout_ms)

        def start(those: Messages) -> asyncio.Future[SendResult]:
            encoded = self._encoder.pack(those[0], opened.properties)
            return sender.start(encoded, pick, timeout_ms)

        return await opened.wait(
            lambda: watched(self._interceptors, [message], start), timeout_ms
        )

    def reply(
        self,
        request: StoredMessage,
        body: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
    ) -> asyncio.Future[SendResult]:
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
        try:
            sender = self._running()
            message, back = make_reply(request, body, properties or {})
            code = int(RequestCode.SEND_REPLY_MESSAGE_V2)
            pick = at_broker(request.queue.broker_name)

            def start(those: Messages) -> asyncio.Future[SendResult]:
                encoded = self._encoder.pack(those[0], back, code=code)
                return sender.start(encoded, pick, timeout_ms)

            return watched(self._interceptors, [message], start)
        except CometError as error:
            return _failed(error)

    # --- transactions

    def transaction(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> AsyncTransaction:
        """Make a transaction for `async with`: sends a half message, runs your block, then commits or rolls back.

        Args:
            message: Message that consumers receive after the commit.
            queue: Queue of the topic to send to, in a single attempt; None: round robin, with retries.
            selector: Without `queue`: chooses the queue, in a single attempt.
            timeout_ms: Timeout of the half message with all attempts, ms; None: as in the settings.

        Raises:
            ClientClosed, MessageError: The producer is not running, or `queue` belongs to another topic.
            CometError: Entering the block raises the errors of `send`; leaving it without an exception, those of `commit`.
        """
        sender, pick = self._running(), pick_of(message, queue, selector, self._namespace)
        begin = self._transactions.begin
        return AsyncTransaction(
            self._transactions, message, lambda: begin(sender, message, pick, timeout_ms)
        )

    async def send_in_transaction(
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
        if self._listener is None:
            raise MessageError(
                "this producer has no transaction_listener; pass one, or use transaction()"
            )
        work = self._listener.execute
        half = await self._transactions.begin(self._running(), message, None, timeout_ms)
        return TransactionResult(
            half, await self._transactions.execute(half, message, work, argument)
        )

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that messages of this topic may be sent to.

        For a topic that does not exist yet these are the queues that its first send is expected to create.

        Raises:
            TopicNotFound: There is no route of the topic, and none of the default topic to derive it from.
            ClientClosed, NetError: The producer is not running, or no nameserver answers.
            BrokerRefused, CodecError: The first nameserver that answers refuses, or its route is invalid.
        """
        return list(await self._running().queues(self._namespace.wrap(topic)))


def _failed(error: BaseException) -> asyncio.Future[SendResult]:
    result: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
    result.set_exception(error)
    return result
