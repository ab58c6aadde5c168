"""Messages for users: a `Message` to send, and a `StoredMessage` from a broker; with checks of user properties."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from cometmq.model import properties as keys_of
from cometmq.model.delay_levels import DELAY_LEVELS, delay_levels_ms
from cometmq.model.errors import MessageError
from cometmq.model.names import topic_fault
from cometmq.model.queue import MessageQueue
from cometmq.model.text import as_given, in_quotes

# Tuples of types, because a union takes ten times as long.
_BODY_TYPES = (bytes, bytearray, memoryview)
_KEYS_TYPES = (str, Collection)
_NONE = 0
_NO_KEYS: tuple[str, ...] = ()
_FLAG_MIN, _FLAG_MAX = -(1 << 31), (1 << 31) - 1
_LEVEL_MAX = len(delay_levels_ms(DELAY_LEVELS))
_put = object.__setattr__
# Legal topics of earlier messages, so that each is checked once; emptied at this number.
_legal: set[str] = set()
_LEGAL_MAX = 1024


@dataclass(frozen=True, slots=True, init=False)
class Message:
    r"""A message to send.

    Attributes:
        topic: Topic to send to.
        body: Payload as bytes; encode text yourself.
        tag: A single tag for subscriptions to filter by, or None.
        keys: Texts by which the message can be found, each without a space (U+0020), because RocketMQ separates stored
            keys by spaces. A single string is one key.
        properties: Additional names and values, non-empty text without \x01 and \x02; no reserved names.
        flag: A signed 32-bit number that RocketMQ carries without interpreting it.
        delay_level: 0 for no delay, or 1..18 for one of the broker's delay levels.
        deliver: When consumers may see it: after a `timedelta` or at a `datetime` (naive: local); needs a 5.x broker.
        wait_store_ok: Whether the broker answers only after a flush and replication, if it is configured to wait for them.

    Raises:
        MessageError: The topic is illegal, the body is not bytes, bytearray or memoryview, the tag, a key, a property
            or a number cannot be stored, another argument is invalid, or there are two delays; the error names which.
    """

    topic: str
    body: bytes
    tag: str | None = None
    keys: tuple[str, ...] | str = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    flag: int = 0
    delay_level: int = 0
    wait_store_ok: bool = True
    deliver: timedelta | datetime | None = None

    def __init__(
        self, topic: str, body: bytes, tag: str | None = None, keys: tuple[str, ...] | str = (),
        properties: Mapping[str, str] | None = None, flag: int = 0, delay_level: int = 0,
        wait_store_ok: bool = True,  # noqa: FBT001, FBT002  As the attribute.
        deliver: timedelta | datetime | None = None,
    ) -> None:  # fmt: skip
        own = {} if properties is None else properties
        if self.__class__ is Message:
            # Faster than the setters of a frozen dataclass, which take three times as long.
            made: Any = self
            _put(self, "__class__", _OpenMessage)
            made.topic = topic
            made.body = body
            made.tag = tag
            made.keys = keys
            made.properties = own
            made.flag = flag
            made.delay_level = delay_level
            made.wait_store_ok = wait_store_ok
            made.deliver = deliver
            made.__class__ = Message
        else:  # A subclass may have other slots.
            given = topic, body, tag, keys, own, flag, delay_level, wait_store_ok, deliver
            for name, value in zip(Message.__slots__, given, strict=True):
                _put(self, name, value)
        # Inline, because most messages pass with one comparison for each argument.
        if topic.__class__ is not str or topic not in _legal:
            _check_topic(topic)
        if body.__class__ is not bytes:
            _check_body(body)
        if own or own.__class__ is not dict:
            _check_properties(own)
        if tag is not None or keys is not _NO_KEYS:
            self._check_words()
        if flag is not _NONE or delay_level is not _NONE or wait_store_ok is not True:
            self._check_numbers()
        if deliver is not None:
            _check_delivery(deliver, delay_level)

    def _check_words(self) -> None:
        for text in (self._checked_tag(), *self._checked_keys()):
            if _has_separator(text):
                raise MessageError(
                    f"{in_quotes(text)} contains the character U+0001 or U+0002, which separates stored "
                    "properties; remove it"
                )

    def _checked_tag(self) -> str:
        tag: object = "" if self.tag is None else self.tag
        if not isinstance(tag, str):
            raise MessageError(f"tag must be text, not {type(tag).__name__}")
        if "||" in tag:
            raise MessageError(
                f"tag {in_quotes(tag)} contains ||, which separates tags in a subscription; use another tag"
            )
        return tag

    def _checked_keys(self) -> tuple[str, ...]:
        keys: object = self.keys
        if not isinstance(keys, _KEYS_TYPES):
            raise MessageError(f"keys must be text or several texts, not {type(keys).__name__}")
        words = self.key_words
        given: tuple[object, ...] = words
        for each in given:
            if not isinstance(each, str):
                raise MessageError(
                    f"key {as_given(each, 80)} must be text, not {type(each).__name__}"
                )
            if keys_of.KEY_SEPARATOR in each:
                several = keys_of.split_keys(each)
                raise MessageError(
                    f"key {in_quotes(each, 80)} contains a space, which separates keys; for several keys write "
                    f"keys={as_given(several, 80)}"
                )
        return words

    def _check_numbers(self) -> None:
        _check_number("flag", self.flag, _FLAG_MIN, _FLAG_MAX)
        more = "; with deliver a message waits for any time"
        _check_number("delay_level", self.delay_level, 0, _LEVEL_MAX, more)
        wait: object = self.wait_store_ok
        if not isinstance(wait, bool):
            raise MessageError(
                f"wait_store_ok must be True or False, not {type(wait).__name__}"
            )

    @property
    def key_words(self) -> tuple[str, ...]:
        """The keys of the message as a tuple of texts; empty without any."""
        if isinstance(self.keys, str):
            return (self.keys,) if self.keys else ()
        return tuple(self.keys)

    def stored_properties(self) -> dict[str, str]:
        """Return a dict of the user's properties, those of tag, keys and delay if set, and WAIT; producers add UNIQ_KEY."""
        stored = dict(self.properties)
        if self.tag:
            stored[keys_of.TAGS] = self.tag
        if self.keys:
            stored[keys_of.KEYS] = keys_of.KEY_SEPARATOR.join(self.key_words)
        if self.delay_level:
            stored[keys_of.DELAY] = str(self.delay_level)
        if self.deliver is not None:
            name, value = _delivery_property(self.deliver)
            stored[name] = value
        stored[keys_of.WAIT] = "true" if self.wait_store_ok else "false"
        return stored


class _OpenMessage:
    """A `Message` under construction; it has the same slots, so that it can change its class."""

    __slots__ = Message.__slots__


def _check_topic(topic: object) -> None:
    if not isinstance(topic, str):
        raise MessageError(f"topic must be text, not {type(topic).__name__}")
    if topic in _legal:
        return
    fault = topic_fault(topic)
    if fault is not None:
        raise MessageError(fault)
    if len(_legal) >= _LEGAL_MAX:
        _legal.clear()
    _legal.add(topic)


def _check_body(body: object) -> None:
    if not isinstance(body, _BODY_TYPES):
        raise MessageError(
            f"body must be bytes, not {type(body).__name__}; encode text, e.g. text.encode()"
        )


def _check_number(name: str, number: object, low: int, high: int, more: str = "") -> None:
    if not isinstance(number, int) or isinstance(number, bool):
        raise MessageError(f"{name} must be a whole number, not {type(number).__name__}")
    if not low <= number <= high:
        raise MessageError(
            f"{name}={as_given(number, 80)}: it must be a number from {low} to {high}{more}"
        )


def _check_properties(properties: object) -> None:
    if not isinstance(properties, Mapping):
        raise MessageError(
            f"properties must be a mapping of text to text, not {type(properties).__name__}"
        )
    for name, value in properties.items():
        check_property(name, value)


def _check_delivery(deliver: timedelta | datetime, delay_level: int) -> None:
    if delay_level:
        raise MessageError("a message can have delay_level or deliver, not both")
    _delivery_property(deliver)


def _delivery_property(deliver: timedelta | datetime) -> tuple[str, str]:
    """Return name and value of a message's delay property (5.x); MessageError if `deliver` is unusable."""
    if isinstance(deliver, datetime):
        try:
            return keys_of.TIMER_DELIVER_MS, str(int(deliver.timestamp() * 1000))
        except (ValueError, OverflowError, OSError) as error:
            raise MessageError(
                f"deliver={deliver} is not a time of this system: {error}"
            ) from None
    if not isinstance(deliver, timedelta):
        raise MessageError(
            f"deliver must be a timedelta or a datetime, not {type(deliver).__name__}"
        )
    delay_ms = deliver // timedelta(milliseconds=1)
    if delay_ms < 0:
        raise MessageError(f"deliver={as_given(deliver)}: a delay cannot be negative")
    return keys_of.TIMER_DELAY_MS, str(delay_ms)


def check_property(name: object, value: object) -> None:
    """Raise MessageError if a user property is no text, empty, reserved for the system, or has a separator in it."""
    if not isinstance(name, str) or not isinstance(value, str):
        raise MessageError(f"property {as_given(name)}: its name and value must be text")
    if not name or not value:
        raise MessageError(
            f"property {in_quotes(name)}={in_quotes(value)}: its name and value must not be empty"
        )
    if name in keys_of.RESERVED:
        raise MessageError(f"property {in_quotes(name)} is reserved; choose another name")
    if _has_separator(name) or _has_separator(value):
        raise MessageError(
            f"property {in_quotes(name)} contains the character U+0001 or U+0002, which separates stored "
            "properties; remove it"
        )


def _has_separator(text: str) -> bool:
    return keys_of.NAME_SEPARATOR in text or keys_of.PROPERTY_SEPARATOR in text


class _FromRecord:
    """Base class with a slot for a record that is decoded lazily (`client.consumer.pull.received`)."""

    __slots__ = ("_record",)


@dataclass(frozen=True, slots=True)
class StoredMessage(_FromRecord):
    """A received message.

    Attributes:
        queue: Broker and queue that it came from; after a retry usually with the original topic, not the retry topic.
        queue_offset: Its position in the queue that it was read from.
        message_id: Its unique id (UNIQ_KEY), usually made by the producer; without one, `offset_message_id`.
        offset_message_id: Store host and commitlog offset in hex; empty for a reply.
        body: Payload, decompressed.
        properties: All properties, including those of the system.
        born_ms: When the producer made it, ms since 1970.
        born_host: Address of the producer, "ip:port".
        stored_ms: When the broker stored it, ms since 1970.
        store_host: Address of the broker, "ip:port".
        flag: Number set by the producer.
        sys_flag: Bits of `model.flags`, with the compressed bit cleared.
        reconsume_times: Number of earlier deliveries that failed, as counted by its record, broker or consumer.
        commitlog_offset: Position in the broker's log, bytes.
        store_size: Size of the stored record in bytes.
        body_crc: CRC-32 of the stored body, 31 bits.
        prepared_offset: For a committed transaction, the commitlog offset of its half message; otherwise 0.
    """

    queue: MessageQueue
    queue_offset: int
    message_id: str
    offset_message_id: str
    body: bytes
    properties: Mapping[str, str]
    born_ms: int
    born_host: str
    stored_ms: int
    store_host: str
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    commitlog_offset: int = 0
    store_size: int = 0
    body_crc: int = 0
    prepared_offset: int = 0

    @property
    def topic(self) -> str:
        """Topic of its queue; usually the original one, not the retry topic, if it was delivered again."""
        return self.queue.topic

    @property
    def tag(self) -> str | None:
        """Tag that the producer set, for the filters of consumers; None without a tag."""
        return self.properties.get(keys_of.TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        """Tuple of the keys that the producer set, by which the message can be found; empty without any."""
        return keys_of.split_keys(self.properties.get(keys_of.KEYS, ""))

    @property
    def user_properties(self) -> dict[str, str]:
        """New dict of the properties without those whose names are reserved for RocketMQ itself."""
        return {k: v for k, v in self.properties.items() if k not in keys_of.RESERVED}

    @property
    def born_at(self) -> datetime:
        """Time when the producer made the message, in UTC."""
        return datetime.fromtimestamp(self.born_ms / 1000, UTC)

    @property
    def stored_at(self) -> datetime:
        """Time when the broker stored the message, in UTC."""
        return datetime.fromtimestamp(self.stored_ms / 1000, UTC)

    def __repr__(self) -> str:
        """Return a short text for logs: queue, offset, id, tag, keys, size and the start of the body."""
        start = bytes(self.body[:40])
        more = "..." if len(self.body) > len(start) else ""
        return (
            f"<StoredMessage {self.queue}#{self.queue_offset} id={self.message_id} "
            f"tag={self.tag!r} keys={self.keys!r} {len(self.body)} B {start!r}{more}>"
        )


def message_name(message: StoredMessage) -> str:
    """Return the name of a stored message for logs and errors: its id, queue and offset."""
    return f"message {message.message_id} ({message.queue} at offset {message.queue_offset})"


class _Open(_FromRecord):
    """A `StoredMessage` under construction; it has the same slots, so that it can change its class."""

    __slots__ = StoredMessage.__slots__


def make_stored_message(
    queue: MessageQueue,
    queue_offset: int,
    message_id: str,
    offset_message_id: str,
    body: bytes,
    properties: Mapping[str, str],
    born_ms: int,
    born_host: str,
    stored_ms: int,
    store_host: str,
    flag: int,
    sys_flag: int,
    reconsume_times: int,
    commitlog_offset: int,
    store_size: int,
    body_crc: int,
    prepared_offset: int,
) -> StoredMessage:
    """Make a `StoredMessage` faster than its constructor does; the arguments are its attributes."""
    made: Any = _Open()
    made.queue = queue
    made.queue_offset = queue_offset
    made.message_id = message_id
    made.offset_message_id = offset_message_id
    made.body = body
    made.properties = properties
    made.born_ms = born_ms
    made.born_host = born_host
    made.stored_ms = stored_ms
    made.store_host = store_host
    made.flag = flag
    made.sys_flag = sys_flag
    made.reconsume_times = reconsume_times
    made.commitlog_offset = commitlog_offset
    made.store_size = store_size
    made.body_crc = body_crc
    made.prepared_offset = prepared_offset
    made.__class__ = StoredMessage
    sealed: StoredMessage = made
    return sealed
