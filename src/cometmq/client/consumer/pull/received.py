"""Conversion of stored records to the messages that users get, decompressed, and with the original topic of retries."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, cast

from cometmq.codec.compression import decompress, plain_flag
from cometmq.codec.host import decode_host
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.properties import decode_properties
from cometmq.codec.record import Record, decode_record
from cometmq.kernel import plain_messages, plain_properties
from cometmq.kernel.messages import record_parts
from cometmq.model import properties as keys_of
from cometmq.model.errors import BombError, CodecError
from cometmq.model.flags import COMPRESSED
from cometmq.model.message import StoredMessage, make_stored_message
from cometmq.model.names import is_retry_topic
from cometmq.model.namespace import NO_NAMESPACE, Namespace
from cometmq.model.queue import MessageQueue

# Limits on decompressed bodies, bytes: per iteration of the event loop, and per answer.
GROWTH_AT_ONCE = 1 << 20
GROWTH_MAX = 64 << 20
# Size of an answer that is decoded in one step; a record has at least 91 bytes.
_PART_SIZE = 256 << 10


_AT_ONCE = ("queue", "queue_offset", "body")  # Attributes that are set from the start.
# Slots of the attributes, bypassing immutability and decoding on access.
_record_of = attrgetter("_record")
_PLACES: dict[str, Any] = {name: vars(StoredMessage)[name] for name in StoredMessage.__slots__}


class PulledMessage(StoredMessage):
    """A message of which only body, queue and offset are decoded, until another attribute is accessed.

    A consumer may pull many thousands of messages a second, of which a listener accesses few attributes. The properties are
    decoded on first access, also for the id if they contain it, and all other attributes together, which makes the
    message an ordinary `StoredMessage`.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return _read(self) == other

    def __hash__(self) -> int:
        return hash(_read(self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _read(self).__reduce_ex__(protocol)


def _properties(message: StoredMessage) -> Mapping[str, str]:
    record = _record_of(
        message
    )  # Read first: a thread that clears it has set the properties before.
    try:
        return cast("Mapping[str, str]", _PLACES["properties"].__get__(message))
    except AttributeError:
        _, block = record_parts(record)
        properties = plain_properties(block)
        assert properties is not None, "looked at when it came"
        _PLACES["properties"].__set__(message, properties)
        return properties


def _message_id(message: StoredMessage) -> str:
    return _properties(message).get(keys_of.UNIQ_KEY) or _read(message).message_id


def _read(message: StoredMessage) -> StoredMessage:
    """Decode all attributes of a lazy message, which becomes a `StoredMessage` in place; safe in parallel threads."""
    record = _record_of(message)
    if record is not None:
        (
            store_size, _, body_crc, _, flag, _, offset, _, born_ms, born_host, stored_ms, store_host, times,
            prepared_offset, _,
        ) = record_parts(record)[0]  # fmt: skip
        properties, offset_id = _properties(message), encode_message_id(store_host, offset)
        values = {
            "message_id": properties.get(keys_of.UNIQ_KEY, offset_id), "offset_message_id": offset_id,
            "born_ms": born_ms, "born_host": decode_host(born_host),
            "stored_ms": stored_ms, "store_host": decode_host(store_host),
            "flag": flag, "sys_flag": 0, "reconsume_times": times, "commitlog_offset": offset,
            "store_size": store_size, "body_crc": body_crc, "prepared_offset": prepared_offset,
        }  # fmt: skip
        for name, value in values.items():
            _PLACES[name].__set__(message, value)
        object.__setattr__(message, "_record", None)
    object.__setattr__(message, "__class__", StoredMessage)
    return message


def _attribute(name: str) -> property:
    if name == "properties":
        return property(_properties)
    if name == "message_id":
        return property(_message_id)
    return property(lambda message: getattr(_read(message), name))


for _name in StoredMessage.__slots__:
    if _name not in _AT_ONCE:
        setattr(PulledMessage, _name, _attribute(_name))


class PulledMessages(NamedTuple):
    """The messages of one answer to a pull, in order; `rest`: offset of the first one left for the next, or None."""

    messages: list[StoredMessage]
    rest: int | None


class UnpackedRoom:
    """A limit on the total size in bytes of bodies that are decompressed in one step."""

    def __init__(self, size: int) -> None:
        self._left = size

    def unpack(
        self, record: Record, queue: MessageQueue, *, body_size_max: int, namespace: Namespace
    ) -> StoredMessage | None:
        """Convert a record to a message; return None if it is compressed and its plain body exceeds the remaining room.

        Only compressed bodies use room or can be too long. Raises CodecError for that, or malformed body or properties.
        """
        if not record.sys_flag & COMPRESSED:
            return unpack(record, queue, body_size_max=body_size_max, namespace=namespace)
        limit = min(body_size_max, self._left)
        try:
            message = unpack(record, queue, body_size_max=limit, namespace=namespace)
        except BombError:
            if limit < body_size_max:
                return None
            raise
        self._left -= len(message.body)
        return message


@dataclass(frozen=True, slots=True)
class RecordUnpacker:
    """Converts the records of an answer to messages; simple records, which are the majority, are converted together.

    Attributes:
        queue: Queue of the records.
        body_size_max: Maximum length of a body after decompression, bytes.
        max_count: Number of messages that were requested.
        namespace: Namespace to remove from the topic.
        on_unreadable: Called in any thread with a record whose body or properties cannot be decoded, and the error;
            the record is then left out. None: the error is raised.
    """

    queue: MessageQueue
    body_size_max: int
    max_count: int
    namespace: Namespace = NO_NAMESPACE
    on_unreadable: Callable[[Record, CodecError], None] | None = None

    async def read(self, body: bytes) -> PulledMessages:
        """Convert the records of an answer to messages, at most as many as requested; raise CodecError if malformed.

        Large bodies are decompressed in a thread. Messages after 64 MiB of them (or `body_size_max`, if larger) are left
        for the next pull: a few hundred bytes may decompress to gigabytes.
        """
        messages: list[StoredMessage] = []
        position = self._go_on(body, 0, messages, UnpackedRoom(GROWTH_AT_ONCE))
        if position < len(body) and len(messages) < self.max_count:
            room = UnpackedRoom(max(GROWTH_MAX, self.body_size_max))
            position = await asyncio.to_thread(self._go_on, body, position, messages, room)
        if len(messages) > self.max_count:
            rest = messages[self.max_count].queue_offset
            del messages[self.max_count :]
            return PulledMessages(messages, rest)
        if position < len(body):
            return PulledMessages(messages, decode_record(body, position).queue_offset)
        return PulledMessages(messages, None)

    def _go_on(
        self, body: bytes, position: int, messages: list[StoredMessage], room: UnpackedRoom
    ) -> int:
        """Append messages until body or room is exhausted or `max_count` is reached; return the next position."""
        queue, max_count = self.queue, self.max_count
        # In a retry topic each message may come from a different topic.
        are_plain = self.namespace is NO_NAMESPACE and not is_retry_topic(queue.topic)
        topic, end = queue.topic.encode(), len(body)
        while True:
            if are_plain and end - position <= _PART_SIZE:
                position = plain_messages(body, position, queue, topic, PulledMessage, messages)
            elif (
                are_plain
            ):  # In parts, because there may be many more records than were requested.
                part = body[position : position + _PART_SIZE]
                position += plain_messages(part, 0, queue, topic, PulledMessage, messages)
            if position == end or len(messages) >= max_count:
                return position
            record = decode_record(body, position)
            try:
                message = room.unpack(
                    record,
                    queue,
                    body_size_max=self.body_size_max,
                    namespace=self.namespace,
                )
            except CodecError as error:
                if self.on_unreadable is None:
                    raise
                self.on_unreadable(record, error)
            else:
                if message is None:
                    return position
                messages.append(message)
            position += record.store_size


def unpack(
    record: Record,
    queue: MessageQueue,
    *,
    body_size_max: int,
    namespace: Namespace = NO_NAMESPACE,
) -> StoredMessage:
    """Convert a record to a message; raise CodecError if the body or the properties are malformed.

    A message in a retry topic gets the original topic that it names, as in RocketMQ's clients. `body_size_max` limits a
    compressed body after decompression, in bytes (else CodecError); `namespace` is removed from the topic.
    """
    properties = decode_properties(record.property_block)
    first_topic = properties.get(keys_of.RETRY_TOPIC)
    if first_topic and is_retry_topic(queue.topic):
        queue = MessageQueue(first_topic, queue.broker_name, queue.queue_id)
    if namespace is not NO_NAMESPACE:
        queue = namespace.unwrap_queue(queue)
    offset_message_id = encode_message_id(record.store_host, record.physical_offset)
    body, sys_flag = record.body, record.sys_flag
    if sys_flag:
        body = decompress(body, sys_flag, limit=body_size_max)
        sys_flag = plain_flag(sys_flag)
    return make_stored_message(
        queue,
        record.queue_offset,
        properties.get(keys_of.UNIQ_KEY) or offset_message_id,
        offset_message_id,
        body,
        properties,
        record.born_timestamp,
        decode_host(record.born_host),
        record.store_timestamp,
        decode_host(record.store_host),
        record.flag,
        sys_flag,
        record.reconsume_times,
        record.physical_offset,
        record.store_size,
        record.body_crc,
        record.prepared_offset,
    )
