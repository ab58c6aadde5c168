"""The producer: sends messages.

    async with AsyncProducer("127.0.0.1:9876") as producer:
        result = await producer.send(Message("orders", b"...", tag="paid", keys="order-17"))

`send` gives a future at once and makes no task: await it, or gather many of them; it has every error, too. Those of one turn
of the loop leave in one write for each broker. `cometmq.client.Producer` is the same for threads.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cometmq.client.argument_checks import CAUSED, explain
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.identity import make_unique_ids
from cometmq.client.lifecycle import AsyncGroupClient
from cometmq.client.producer.encoded_send import SendEncoder
from cometmq.client.producer.producer_member import ProducerMember
from cometmq.client.producer.queue_selector import Selector, at_broker, only, pick_of
from cometmq.client.producer.request_reply import OpenRequests, make_reply
from cometmq.client.producer.send_chain import SendChain, make_chain
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
from cometmq.client.tracing.interceptors import Interceptor, watched
from cometmq.model.codes import RequestCode
from cometmq.model.errors import CometError
from cometmq.model.message import Message, StoredMessage
from cometmq.model.queue import MessageQueue


class AsyncProducer(AsyncGroupClient):
    """A producer: sends messages, alone, in batches, as requests and in transactions.

    Sends that are under way when it is closed fail; batches that are being filled and traces are still sent.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: its producer group; matters for transactions only.
        settings: times, retries and sizes.
        transaction_listener: does the work of `send_in_transaction` and knows what became of
            transactions that another process of the group began.
        instance: share another client's connections; its owner closes it.

    Raises:
        SettingsError: a nameserver address cannot be read.
        RequestError: the group's name is illegal.
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
        self._chain: SendChain | None = None
        # Where nothing looks at each send on its way.
        self._sends: TurnSends | None = None
        self._requests = OpenRequests(self._instance)
        reply_code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        self._membership.takers[reply_code] = self._requests.take
        self._transactions = ProducerTransactions(
            group,
            self._instance,
            self._encoder,
            transaction_listener,
            namespace=self._namespace,
            body_size_max=self._settings.body_size_max,
            interceptors=self._interceptors,
        )
        check_code = RequestCode.CHECK_TRANSACTION_STATE
        self._membership.takers[check_code] = self._transactions.take_check

    # --- life

    async def _open(self) -> None:
        """Join the group; brokers are met at the first send, with a `transaction_listener` at once."""
        self._at_close(lambda: self._instance.leave(self._membership))
        self._at_close(self._transactions.close)
        self._at_close(self._requests.close)
        sender = self._sender = EncodedSender(self._instance, self._settings)
        self._at_close(sender.close)
        self._chain = make_chain(
            self._encoder, sender, self._instance, self._group, self._settings
        )
        if self._chain is not None:
            self._at_close(self._chain.close)
        elif sender.faults is None:
            self._sends = TurnSends(self._encoder, sender)
        self._at_close(self._take_no_more)
        # Whoever has a half of this group must find us, though we have sent it nothing.
        await self._instance.join(
            self._membership, everywhere=self._transactions.can_tell_of_others
        )

    def _take_no_more(self) -> None:
        if self._sends is not None:
            self._sends.send_now()
            self._sends = None

    def _running(self) -> EncodedSender:
        self._check_running()
        if self._sends is not None:
            self._sends.send_now()  # What came before goes before.
        assert self._sender is not None, "made at start"
        return self._sender

    def _interceptors(self) -> Sequence[Interceptor]:
        return () if self._chain is None else self._chain.interceptors

    # --- sending

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> asyncio.Future[SendResult]:
        """Send a message; its result comes when a broker has acknowledged it.

        Whatever goes wrong is raised where the result is asked for, and nowhere else.

        Args:
            message: what to send.
            queue: the very queue it must go to; then it is tried once only.
            selector: chooses the queue (`by_hash(key)`); tried once only, too.
            timeout_ms: for all attempts together; None: the settings'.

        Raises:
            ClientClosed, MessageError: nothing was sent.
            SendFailed: no attempt was acknowledged; it may be stored all the same.
            BrokerRefused: the broker does not take this message.
            TopicNotFound, NetError: there is nobody to send it to.
        """
        sends = self._sends
        if sends is not None and queue is None and selector is None and timeout_ms is None:
            return sends.add(message)
        try:
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
        """Begin a send; raises what stands before it is begun."""
        sends = self._sends
        is_simple = queue is None and selector is None and timeout_ms is None
        if sends is not None and is_simple and sends.cannot_fail(message):
            return sends.add(message)
        sender = self._running()
        pick = None
        if queue is not None or selector is not None:
            pick = pick_of(message, queue, selector, self._namespace)
        if self._chain is not None:
            return self._chain.send(message, pick, timeout_ms)
        return sender.start(self._encoder.pack(message), pick, timeout_ms)

    async def send_many(
        self,
        messages: Iterable[Message],
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
        window: int = WINDOW,
    ) -> list[SendResult]:
        """Send messages with many under way at once; results in their order.

        Where the order within a queue matters, await one send before the next or use `send_batch`:
        a Java broker works on the requests of a connection in parallel.

        Args:
            messages: any number.
            queue: as in `send`.
            selector: as in `send`.
            timeout_ms: of each send.
            window: how many may wait for their answers at once.

        Raises:
            SendFailed: after all have settled, when some failed; how many, and the first reason.
            ClientClosed, MessageError: at the first message that cannot be sent; those before it are.
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
        """Send messages of one topic in one request: they lie in one queue, one behind the other.

        Args:
            messages: together at most `body_size_max` bytes.
            queue: as in `send`.
            timeout_ms: as in `send`.

        Raises:
            MessageError: several topics, a delay, or too long.
            ClientClosed, SendFailed, BrokerRefused, TopicNotFound, NetError: as `send`.
        """
        try:
            sender = self._running()

            def start(those: Sequence[Message]) -> asyncio.Future[SendResult]:
                return sender.start(self._encoder.pack_batch(those), only(queue), timeout_ms)

            return watched(self._interceptors(), messages, start)
        except CometError as error:
            return _failed(error)

    def send_encoded(
        self,
        topic: str,
        queue: MessageQueue | None,
        batch_body: bytes,
        *,
        properties: str = "",
        timeout_ms: int | None = None,
    ) -> asyncio.Future[SendResult]:
        r"""Send a batch that is encoded already, for those who make many messages from columns.

        Args:
            topic: of all messages in it.
            queue: where to; None: the next one.
            batch_body: `codec.batch.encode_batch`.
            properties: the batch's own, name\x01value\x02; empty: an id and WAIT=true.
            timeout_ms: as in `send`.

        Raises:
            MessageError: empty or too long.
            ClientClosed, SendFailed, BrokerRefused, TopicNotFound, NetError: as `send`.
        """
        try:
            sender = self._running()
            encoded = self._encoder.pack_encoded(topic, batch_body, properties)
        except CometError as error:
            return _failed(error)
        return sender.start(encoded, only(queue), timeout_ms)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
    ) -> None:
        """Send a message and ask for no answer: fast, and nobody knows whether it arrived.

        Raises:
            ClientClosed, MessageError, TopicNotFound, NetError: it could not even be written.
        """
        sender, wrong = self._running(), None

        def start(those: Sequence[Message]) -> asyncio.Future[SendResult]:
            return sender.loop.create_task(sender.oneway(self._encoder.pack(those[0]), pick))

        try:
            pick = pick_of(message, queue, selector, self._namespace)
            if self._interceptors():
                await watched(self._interceptors(), [message], start)
            else:  # Without a task of its own.
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
        """Send a message and wait for the reply that a consumer of its topic gives to it.

        Args:
            message: the request.
            queue: as in `send`.
            selector: as in `send`.
            timeout_ms: for sending and the reply together; None: the settings'.

        Raises:
            RequestTimeout: nobody replied in time.
            ClientClosed, MessageError, SendFailed, BrokerRefused, TopicNotFound, NetError: as
                `send`.
        """
        sender = self._running()
        timeout_ms = self._settings.send_timeout_ms if timeout_ms is None else timeout_ms
        opened = self._requests.begin(timeout_ms)
        pick = pick_of(message, queue, selector, self._namespace)

        def start(those: Sequence[Message]) -> asyncio.Future[SendResult]:
            encoded = self._encoder.pack(those[0], opened.properties)
            return sender.start(encoded, pick, timeout_ms)

        return await opened.wait(
            lambda: watched(self._interceptors(), [message], start), timeout_ms
        )

    def reply(
        self,
        request: StoredMessage,
        body: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
    ) -> asyncio.Future[SendResult]:
        """Reply to a message that was sent with `request`, here or by any client of RocketMQ.

        Args:
            request: as a listener got it.
            body: of the reply.
            properties: of the reply, the user's own.
            timeout_ms: as in `send`.

        Raises:
            MessageError: the message asks for no reply.
            BrokerRefused: who asked is not there any more.
            ClientClosed, SendFailed, TopicNotFound, NetError: as `send`.
        """
        try:
            sender = self._running()
            message, back = make_reply(request, body, properties or {})
            code = int(RequestCode.SEND_REPLY_MESSAGE_V2)
            pick = at_broker(request.queue.broker_name)

            def start(those: Sequence[Message]) -> asyncio.Future[SendResult]:
                encoded = self._encoder.pack(those[0], back, code=code)
                return sender.start(encoded, pick, timeout_ms)

            return watched(self._interceptors(), [message], start)
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
        """Make a transaction for `async with`: half message, your work, commit or rollback.

        Args:
            message: what consumers get when it is committed.
            queue: as in `send`.
            selector: as in `send`.
            timeout_ms: of the half message, as in `send`.

        Raises:
            ClientClosed: at once.
            MessageError, SendFailed, BrokerRefused, TopicNotFound, NetError: when it begins.
        """
        sender, pick = self._running(), pick_of(message, queue, selector, self._namespace)
        begin = self._transactions.begin
        return AsyncTransaction(
            self._transactions, message, lambda: begin(sender, message, pick, timeout_ms)
        )

    async def send_in_transaction(
        self, message: Message, argument: Any = None, *, timeout_ms: int | None = None
    ) -> TransactionResult:
        """Send a half message, run the listener's `execute`, and end as it says.

        Args:
            message: what consumers get when it is committed.
            argument: handed to `execute`.
            timeout_ms: of the half message, as in `send`.

        Raises:
            MessageError, SendFailed, BrokerRefused, TopicNotFound, NetError: the half message
                is on no broker for sure; the listener was not called.
            ClientClosed: as `send`.
        """
        self._transactions.check_listener()
        half = await self._transactions.begin(self._running(), message, None, timeout_ms)
        return TransactionResult(
            half, await self._transactions.execute(half, message, argument)
        )

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that messages of this topic may go to.

        Of a topic that does not exist yet: those that its first send will make.

        Raises:
            TopicNotFound: there is no route, and brokers create no topics.
            ClientClosed, NetError, BrokerRefused: the nameservers cannot be asked.
        """
        return list(await self._running().queues(self._namespace.wrap(topic)))


def _failed(error: BaseException) -> asyncio.Future[SendResult]:
    """A future that already holds the error of a send that could not begin."""
    result: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
    result.set_exception(error)
    return result
