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
    """A producer: sends messages, alone, in batches, as requests and in transactions.

    Sends that are under way when it is closed fail; batches that are being filled and traces are still sent.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: its producer group; matters for transactions only.
        settings: times, retries and sizes.
        transaction_listener: does the work of `send_in_transaction` and knows what became of
            transactions that another process of the group began.

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
        result: SendResult = self._portal.call(
            self._client.send, message, queue=queue, selector=selector, timeout_ms=timeout_ms
        )
        return result

    def send_async(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> concurrent.futures.Future[SendResult]:
        """`send` without waiting: the future gets its result or its error.

        Raises:
            ClientClosed: called from an async listener, or in a process forked since.
        """
        result: concurrent.futures.Future[SendResult] = self._portal.start(
            self._client.send, message, queue=queue, selector=selector, timeout_ms=timeout_ms
        )
        return result

    def send_many(
        self,
        messages: Iterable[Message],
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
        window: int = WINDOW,
    ) -> list[SendResult]:
        """Send messages with many under way at once; results in their order.

        Where the order within a queue matters, one send before the next or use `send_batch`:
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
        result: list[SendResult] = self._portal.call(
            self._client.send_many,
            messages,
            queue=queue,
            selector=selector,
            timeout_ms=timeout_ms,
            window=window,
        )
        return result

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send messages of one topic in one request: they lie in one queue, one behind the other.

        Args:
            messages: together at most `body_size_max` bytes.
            queue: as in `send`.
            timeout_ms: as in `send`.

        Raises:
            MessageError: several topics, a delay, or too long.
            ClientClosed, SendFailed, BrokerRefused, TopicNotFound, NetError: as `send`.
        """
        result: SendResult = self._portal.call(
            self._client.send_batch, messages, queue=queue, timeout_ms=timeout_ms
        )
        return result

    def send_batch_async(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> concurrent.futures.Future[SendResult]:
        """`send_batch` without waiting: the future gets its result or its error.

        Raises:
            ClientClosed: called from an async listener, or in a process forked since.
        """
        result: concurrent.futures.Future[SendResult] = self._portal.start(
            self._client.send_batch, messages, queue=queue, timeout_ms=timeout_ms
        )
        return result

    def send_encoded(
        self,
        topic: str,
        queue: MessageQueue | None,
        batch_body: bytes,
        *,
        properties: str = "",
        timeout_ms: int | None = None,
    ) -> SendResult:
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
        result: SendResult = self._portal.call(
            self._client.send_encoded,
            topic,
            queue,
            batch_body,
            properties=properties,
            timeout_ms=timeout_ms,
        )
        return result

    def send_encoded_async(
        self,
        topic: str,
        queue: MessageQueue | None,
        batch_body: bytes,
        *,
        properties: str = "",
        timeout_ms: int | None = None,
    ) -> concurrent.futures.Future[SendResult]:
        """`send_encoded` without waiting: the future gets its result or its error.

        Raises:
            ClientClosed: called from an async listener, or in a process forked since.
        """
        result: concurrent.futures.Future[SendResult] = self._portal.start(
            self._client.send_encoded,
            topic,
            queue,
            batch_body,
            properties=properties,
            timeout_ms=timeout_ms,
        )
        return result

    def send_oneway(
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
        self._portal.call(self._client.send_oneway, message, queue=queue, selector=selector)

    def request(
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
        result: StoredMessage = self._portal.call(
            self._client.request, message, queue=queue, selector=selector, timeout_ms=timeout_ms
        )
        return result

    def reply(
        self,
        request: StoredMessage,
        body: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
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
        result: SendResult = self._portal.call(
            self._client.reply, request, body, properties=properties, timeout_ms=timeout_ms
        )
        return result

    def reply_async(
        self,
        request: StoredMessage,
        body: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
    ) -> concurrent.futures.Future[SendResult]:
        """`reply` without waiting: the future gets its result or its error.

        Raises:
            ClientClosed: called from an async listener, or in a process forked since.
        """
        result: concurrent.futures.Future[SendResult] = self._portal.start(
            self._client.reply, request, body, properties=properties, timeout_ms=timeout_ms
        )
        return result

    def transaction(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> Transaction:
        """Make a transaction for `with`: half message, your work, commit or rollback.

        Args:
            message: what consumers get when it is committed.
            queue: as in `send`.
            selector: as in `send`.
            timeout_ms: of the half message, as in `send`.

        Raises:
            ClientClosed: at once.
            MessageError, SendFailed, BrokerRefused, TopicNotFound, NetError: when it begins.
        """
        return Transaction(
            self._portal,
            self._client.transaction(
                message, queue=queue, selector=selector, timeout_ms=timeout_ms
            ),
        )

    def send_in_transaction(
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
        result: TransactionResult = self._portal.call(
            self._client.send_in_transaction, message, argument, timeout_ms=timeout_ms
        )
        return result

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that messages of this topic may go to.

        Of a topic that does not exist yet: those that its first send will make.

        Raises:
            TopicNotFound: there is no route, and brokers create no topics.
            ClientClosed, NetError, BrokerRefused: the nameservers cannot be asked.
        """
        result: list[MessageQueue] = self._portal.call(self._client.queues, topic)
        return result
