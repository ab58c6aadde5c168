r"""The encoded producer: sends encoded messages, many per call, and ends half messages.

    with EncodedProducer("127.0.0.1:9876", group="imports") as producer:
        block = f"UNIQ_KEY\x01{producer.next_id()}\x02"
        outcomes = producer.send_each([EncodedMessage("orders", b"...", block)])

For connectors that make messages from columns, without a `Message` for each. `AsyncEncodedProducer` is for asyncio.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from cometmq.client.api.asking import all_of, side_by_side
from cometmq.client.api.messages import MessageApi
from cometmq.client.api.transactions import HalfMessage, TransactionApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.identity import make_unique_ids
from cometmq.client.lifecycle import AsyncGroupClient
from cometmq.client.producer.encoded_send import EncodedBatch, EncodedMessage, SendEncoder
from cometmq.client.producer.producer_member import ProducerMember
from cometmq.client.producer.queue_selector import only
from cometmq.client.producer.sender import EncodedSender
from cometmq.client.producer.transactions import ProducerTransactions, TransactionState
from cometmq.client.results import SendResult
from cometmq.client.settings import ProducerSettings
from cometmq.codec.record import decode_records
from cometmq.model import properties as keys_of
from cometmq.model.codes import RequestCode
from cometmq.model.errors import CometError
from cometmq.model.flags import TRANSACTION_COMMIT, TRANSACTION_MASK
from cometmq.model.message import StoredMessage
from cometmq.model.queue import MessageQueue

_FOUND_MAX = 8  # Messages with the same id: one, unless the user set the id.


class CheckedHalfMessage(NamedTuple):
    """A half message that a broker checks.

    Attributes:
        broker_name: Name of the broker that stores the half message; empty if the broker does not say.
        properties: Properties of the message.
        age_ms: Difference between this machine's time and the producer's when it made the message, ms.
    """

    broker_name: str
    properties: Mapping[str, str]
    age_ms: int


HalfJudge = Callable[[CheckedHalfMessage], TransactionState]


class AsyncEncodedProducer(AsyncGroupClient):
    """A producer of encoded messages, which also ends half messages of its group.

    Sends in flight may fail when it is closed.

    Args:
        nameservers: "host:port;host:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: Its producer group.
        settings: Namespace, times, retries, limits on sends in flight; messages are never compressed, combined or traced.
        joins: Whether to join the group (with `judge`: always); if False, brokers send checks only to other members.
        mark: Name of a property; `judge` is called only for half messages with this property, by default for all.
        judge: Returns the outcome of a half message when a broker checks it; called in a thread.
        instance: Connections of another client to use instead of own ones to `nameservers`; their owner closes them.

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
        instance: ClientInstance | None = None,
    ) -> None:
        self._settings = settings or ProducerSettings()
        super().__init__(nameservers, self._settings, instance, group)
        group = self._group
        self._ids = make_unique_ids(
            self._instance.ip, self._instance.clock, self._instance.chance
        )
        self._encoder = SendEncoder(group, self._settings, self._instance.clock, self._ids)
        self._transactions = TransactionApi(self._instance, group)
        self._messages = MessageApi(self._instance)
        self._member = ProducerMember(group) if joins or judge is not None else None
        self._answers: ProducerTransactions | None = None
        if judge is not None and self._member is not None:
            self._answers = ProducerTransactions(
                group,
                self._instance,
                self._encoder,
                partial(self._judged, judge),
                namespace=self._namespace,
                body_size_max=None,
                mark=mark,
            )
            check_code = RequestCode.CHECK_TRANSACTION_STATE
            self._member.takers[check_code] = self._answers.take_check
        self._sender: EncodedSender | None = None

    @property
    def next_id(self) -> Callable[[], str]:
        """A function that returns a new unique message id; may be called from any thread."""
        return self._ids.next_id

    # --- life cycle

    async def _open(self) -> None:
        if self._member is not None:
            self._at_close(partial(self._instance.leave, self._member))
        if self._answers is not None:
            self._at_close(self._answers.close)
        self._sender = EncodedSender(self._instance, self._settings)
        self._at_close(self._sender.close)
        if self._member is not None:
            await self._instance.join(self._member, everywhere=self._answers is not None)

    def _running(self) -> EncodedSender:
        self._check_running()
        assert self._sender is not None, "made at start"
        return self._sender

    # --- sending

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that messages of this topic may be sent to, with the namespace in their topic.

        Raises:
            TopicNotFound: There is no route of the topic, and none of the default topic to derive it from.
            ClientClosed, NetError: The producer is not running, or no nameserver answers.
            BrokerRefused, CodecError: The first nameserver that answers refuses, or its route is invalid.
        """
        return list(await self._running().queues(self._namespace.wrap(topic)))

    def send_each(
        self,
        messages: Sequence[EncodedMessage | EncodedBatch],
        *,
        queue: MessageQueue | None = None,
    ) -> asyncio.Future[list[SendResult | CometError]]:
        """Send messages and batches concurrently; return a list of results or errors in order (asyncio: a future).

        Args:
            messages: Messages and batches, each sent as one request, unchecked.
            queue: Queue of their topic for all, with a single attempt each; None: round robin, with retries.

        Raises:
            ClientClosed: The producer is not running (asyncio: raised by the future).
            MessageError: `queue` belongs to another topic than a message; nothing was sent.
        """
        return asyncio.ensure_future(self._send_each(messages, queue))

    async def _send_each(
        self, messages: Sequence[EncodedMessage | EncodedBatch], queue: MessageQueue | None
    ) -> list[SendResult | CometError]:
        sender, space = self._running(), self._namespace
        # All before the first send, so that an error leaves none whose result is lost.
        pack = self._encoder.pack_encoded
        sends = [(pack(each), only(queue, each.topic, space)) for each in messages]
        sent = [sender.start(encoded, pick, None) for encoded, pick in sends]
        outcomes: list[SendResult | CometError] = []
        for outcome in await asyncio.gather(*sent, return_exceptions=True):
            if not isinstance(outcome, SendResult | CometError):
                raise outcome
            outcomes.append(outcome)
        return outcomes

    # --- half messages

    def _judged(self, judge: HalfJudge, message: StoredMessage) -> TransactionState:
        age_ms = self._instance.clock.now_ms() - message.born_ms
        name = message.queue.broker_name
        return judge(CheckedHalfMessage(name, message.properties, age_ms))

    async def end(
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
        self._running()

        async def end(half: HalfMessage) -> None:
            half = half._replace(topic=self._namespace.wrap(half.topic))
            await self._transactions.end(await self._address(half), half, state, is_late=late)

        return await side_by_side(end, half_messages)

    async def committed(self, half_messages: Sequence[HalfMessage]) -> list[bool]:
        """Return for each half message whether its broker's index has the committed message, which consumers see.

        False also if the index lags behind or is disabled. Raises ClientClosed if not running, CometError if a query fails.
        """
        self._running()

        async def is_committed(half: HalfMessage) -> bool:
            half = half._replace(topic=self._namespace.wrap(half.topic))
            found = await self._messages.find(
                await self._address(half),
                half.topic,
                half.message_id,
                max_count=_FOUND_MAX,
                is_id=True,
            )
            return found is not None and _has_committed(found.records, half.message_id)

        return all_of(await side_by_side(is_committed, half_messages))

    async def _address(self, half: HalfMessage) -> str:
        await self._instance.known(half.topic)
        return self._instance.address(half.broker_name)


def _has_committed(records: bytes, message_id: str) -> bool:
    return any(
        record.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT
        and record.properties().get(keys_of.UNIQ_KEY) == message_id
        for record in decode_records(records)
    )
