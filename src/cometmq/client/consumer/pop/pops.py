"""Pop requests, their answers, and the receipt handles of popped messages.

A receipt handle is the property POP_CK of a message; the broker needs it to acknowledge the message. Follows
MQClientAPIImpl.processPopResponse of RocketMQ 5.3.3.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cometmq.client.api.consuming import ConsumeApi, PoppedRecords
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.pull.received import GROWTH_AT_ONCE, GROWTH_MAX, UnpackedRoom
from cometmq.codec.bodies.batch_ack import BatchAck
from cometmq.codec.headers.pop import (
    AckRequest,
    ChangeInvisibleTimeRequest,
    NotificationRequest,
    PopRequest,
    PopResponse,
)
from cometmq.codec.receipt import Receipt, decode_starts, kind_of, parse_receipt, real_topic
from cometmq.codec.record import Record
from cometmq.model.errors import ClientError, CodecError, RequestError
from cometmq.model.message import StoredMessage, message_name
from cometmq.model.namespace import NO_NAMESPACE, Namespace
from cometmq.model.properties import FIRST_POP_TIME, POP_CK
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import Subscription
from cometmq.model.text import plural

_log = logging.getLogger(__name__)

ANY_QUEUE = -1


class Popper:
    """Pops and acknowledges messages for one consumer group.

    Attributes:
        body_size_max: Maximum length of a body after decompression, bytes.
        namespace: Namespace to remove from topics.
    """

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        *,
        body_size_max: int,
        namespace: Namespace = NO_NAMESPACE,
    ) -> None:
        self._instance = instance
        self._api = ConsumeApi(instance)
        self._group = group
        self.body_size_max = body_size_max
        self.namespace = namespace

    async def pause(self, broker_name: str, seconds: float, error: Exception) -> None:
        """Wait before the next pop, after an error; maybe only until the broker group has another master."""
        await self._instance.masters.pause(broker_name, seconds, error)

    async def pop(
        self,
        broker_name: str,
        wanted: Subscription,
        *,
        max_count: int,
        invisible_ms: int,
        wait_ms: int,
        init_mode: int,
        queue_id: int = ANY_QUEUE,
    ) -> list[StoredMessage]:
        """Pop messages from a master; return the readable ones that match the tags, which may be none.

        Messages after 64 MiB of decompressed bodies (or `body_size_max`, if larger) are left out. Raises BrokerRefused,
        BrokerNotFound, NetError, CodecError or ClientClosed if there is no valid answer.

        Args:
            broker_name: Name of the broker.
            wanted: Topic and filter.
            max_count: Maximum number of messages, up to 32.
            invisible_ms: How long the messages are hidden from the group, ms.
            wait_ms: How long the broker may hold a pop that finds no message, ms.
            init_mode: Start of a new group, `codec.headers.pop.FROM_MIN` or FROM_MAX.
            queue_id: Queue to pop; by default any queue.
        """
        header = PopRequest(
            consumer_group=self._group,
            topic=wanted.topic,
            queue_id=queue_id,
            max_msg_nums=max_count,
            invisible_time=invisible_ms,
            poll_time=wait_ms,
            born_time=self._instance.clock.now_ms(),
            init_mode=init_mode,
            exp_type=wanted.kind,
            exp=wanted.expression,
            broker_name=broker_name,
        )
        popped = await self._api.pop(self._instance.address(broker_name), header)
        return [] if popped is None else await self._messages(broker_name, wanted, popped)

    async def notified(self, broker_name: str, topic: str, wait_ms: int) -> bool:
        """Ask a broker whether it has messages of a topic for the group; the broker may wait up to `wait_ms` ms for some.

        A pop after True may still find none. Raises the errors of `pop`.
        """
        header = NotificationRequest(
            self._group, topic, ANY_QUEUE, wait_ms, self._instance.clock.now_ms()
        )
        return await self._api.notified(self._instance.address(broker_name), header)

    async def ack(self, messages: Sequence[StoredMessage]) -> None:
        """Acknowledge one or more popped messages, all from one broker.

        Raises the errors of `pop` if the broker did not confirm, and ClientError for a message that was not popped.
        """
        receipts = [receipt_of(message) for message in messages]
        name = receipts[0].broker_name
        if len(messages) > 1:
            topics = (self.namespace.wrap(message.topic) for message in messages)
            acks = batch_acks(self._group, zip(topics, receipts, strict=True))
            await self._api.ack_many(self._instance.address(name), name, acks)
        else:
            (message,), (receipt,) = messages, receipts
            topic = self._real_topic(message, receipt)
            header = AckRequest(
                self._group, topic, receipt.queue_id, str(receipt), receipt.queue_offset, name
            )
            await self._api.ack(self._instance.address(name), header)

    async def change_invisibility(
        self, message: StoredMessage, invisible_ms: int
    ) -> StoredMessage:
        """Hide a popped message for `invisible_ms` ms from now, and return the message with its new receipt handle.

        Raises the errors of `pop` if the broker did not confirm, and ClientError if the message was not popped.
        """
        receipt = receipt_of(message)
        topic = self._real_topic(message, receipt)
        header = ChangeInvisibleTimeRequest(
            self._group, topic, receipt.queue_id, str(receipt), receipt.queue_offset,
            invisible_ms, receipt.broker_name,
        )  # fmt: skip
        address = self._instance.address(receipt.broker_name)
        told = await self._api.change_invisibility(address, header)
        changed = receipt._replace(
            start_offset=receipt.queue_offset,
            pop_time_ms=told.pop_time,
            invisible_ms=told.invisible_time,
            revive_queue=told.revive_qid,
        )
        return replace(message, properties={**message.properties, POP_CK: str(changed)})

    def _real_topic(self, message: StoredMessage, receipt: Receipt) -> str:
        return real_topic(self.namespace.wrap(message.topic), self._group, receipt.kind)

    # --- messages and receipt handles

    async def _messages(
        self, broker_name: str, wanted: Subscription, given: PoppedRecords
    ) -> list[StoredMessage]:
        told, records = given
        starts = decode_starts(told.start_offset_info or "")
        popped = _Popped(self, broker_name, wanted, told, starts)
        messages, left = popped.unpack(records, UnpackedRoom(GROWTH_AT_ONCE))
        if left:
            room = UnpackedRoom(max(GROWTH_MAX, self.body_size_max))
            more, left = await asyncio.to_thread(popped.unpack, left, room)
            messages += more
        if left:
            _log.warning(
                "An answer of broker %s for topic %s decompresses to more than %d bytes; redelivered when the "
                "invisible time is over: %d %s",
                broker_name, wanted.topic, GROWTH_MAX, len(left), plural(len(left), "message"),
            )  # fmt: skip
        return messages


@dataclass(frozen=True, slots=True)
class _Popped:
    """The data that all messages of one pop answer share."""

    popper: Popper
    broker_name: str
    wanted: Subscription
    told: PopResponse
    starts: dict[tuple[str, int], int]

    def unpack(
        self, records: Sequence[Record], room: UnpackedRoom
    ) -> tuple[list[StoredMessage], Sequence[Record]]:
        """Return the readable messages that match the tags, and the records from the first that exceeds `room` on."""
        messages: list[StoredMessage] = []
        for at, record in enumerate(records):
            queue = MessageQueue(self.wanted.topic, self.broker_name, record.queue_id)
            try:
                message = room.unpack(
                    record,
                    queue,
                    body_size_max=self.popper.body_size_max,
                    namespace=self.popper.namespace,
                )
            except CodecError as error:
                _log.warning(
                    "The message at offset %d of %s cannot be decoded: %s",
                    record.queue_offset,
                    queue,
                    error,
                )
                continue
            if message is None:
                return messages, records[at:]
            if self.wanted.matches_tag(message.tag):
                messages.append(replace(message, properties=self._properties(record, message)))
        return messages, ()

    def _properties(self, record: Record, message: StoredMessage) -> dict[str, str]:
        # A handle that no broker would accept is replaced, because the message would be redelivered forever.
        handle = str(popped_receipt(self.told, self.starts, record, self.broker_name))
        return {FIRST_POP_TIME: str(self.told.pop_time), **message.properties, POP_CK: handle}


def _is_handle_of(broker_name: str, text: str) -> bool:
    try:
        return parse_receipt(text).broker_name == broker_name
    except RequestError:
        return False


def receipt_of(message: StoredMessage) -> Receipt:
    """Return the receipt handle of a message; raise ClientError if it has no valid one, mostly as it was not popped."""
    text = message.properties.get(POP_CK)
    if text is None:
        raise ClientError(
            f"{message_name(message)} was not received from a simple consumer; acknowledge it with the client that "
            "received it"
        )
    try:
        return parse_receipt(text)
    except RequestError as error:
        raise ClientError(str(error)) from None


def popped_receipt(
    told: PopResponse, starts: dict[tuple[str, int], int], record: Record, broker_name: str
) -> Receipt:
    """Return the receipt of a record in a pop answer, to whose fields `starts` (`decode_starts`) belongs.

    A broker that delivers a message under another topic has written its handle into the record; that one is returned.
    """
    handle = record.properties().get(POP_CK)
    if handle is not None and _is_handle_of(broker_name, handle):
        return parse_receipt(handle)
    kind = kind_of(record.topic)
    # Brokers before 5.0 report no start offsets: each message is its own check point.
    start = starts.get((kind, record.queue_id), record.queue_offset)
    return Receipt(
        start, told.pop_time, told.invisible_time, told.revive_qid, kind, broker_name,
        record.queue_id, record.queue_offset,
    )  # fmt: skip


def batch_acks(group: str, popped: Iterable[tuple[str, Receipt]]) -> list[BatchAck]:
    """Return the acknowledgement of messages of one broker, given as (requested topic, receipt), by check point."""
    offsets: dict[tuple[str, Receipt], list[int]] = {}
    for topic, receipt in popped:
        key = topic, receipt._replace(queue_offset=-1)
        offsets.setdefault(key, []).append(receipt.queue_offset)
    return [
        BatchAck(
            group, topic, of.kind, of.start_offset, of.queue_id, of.revive_queue,
            of.pop_time_ms, of.invisible_ms, tuple(acknowledged),
        )
        for (topic, of), acknowledged in offsets.items()
    ]  # fmt: skip
