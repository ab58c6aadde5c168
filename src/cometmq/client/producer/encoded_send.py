"""Encoding of sends before their queue is known; all attempts share the other parts of the header, and the body."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cometmq.client.settings import ProducerSettings
from cometmq.codec.batch import encode_item
from cometmq.codec.compression import compress, compressed_flag
from cometmq.codec.message_id import UniqueIds
from cometmq.codec.properties import encode_properties
from cometmq.codec.send_text import END, back_text, front_text, json_text, middle_text
from cometmq.kernel import rows
from cometmq.model import properties as keys_of
from cometmq.model.clock import Clock
from cometmq.model.codes import RequestCode
from cometmq.model.errors import CodecError, MessageError
from cometmq.model.message import Message, StoredMessage
from cometmq.model.names import DEFAULT_TOPIC, is_written_by_brokers
from cometmq.model.namespace import namespace_of
from cometmq.model.text import as_given, in_quotes

_SEND = int(RequestCode.SEND_MESSAGE_V2)
_ID_NAME = f"{keys_of.PROPERTY_SEPARATOR}{keys_of.UNIQ_KEY}{keys_of.NAME_SEPARATOR}"
# System properties that a copy of a message keeps.
_COPIED = frozenset((keys_of.TAGS, keys_of.KEYS))
# A shorter tag leaves room for the other properties of a simple message.
_PLAIN_TAG_MAX = 1_024
_END = END.encode()
_SEND_BATCH = int(RequestCode.SEND_BATCH_MESSAGE)
_IS_BATCH = ',"m":"true"'
# Appended by the broker to each message's properties, with precedence. Without an id, every message keeps its own.
_BATCH_PROPERTIES = json_text(encode_properties({keys_of.WAIT: "true"}).decode())


class EncodedSend(NamedTuple):
    """A send request without its queue.

    Attributes:
        topic: Topic with its namespace.
        front: Header text before the queue (`codec.send_text`).
        middle: Header text after the queue.
        body: Body as sent, compressed if needed.
        message_id: Id of the message, or the ids of a batch's messages joined by commas; empty for an `EncodedBatch`,
            or an `EncodedMessage` without an id. The same in all attempts.
    """

    topic: str
    front: str
    middle: str
    body: bytes
    message_id: str


class EncodedMessage(NamedTuple):
    r"""A message whose body and properties are already encoded.

    Attributes:
        topic: Topic without its namespace.
        body: Body; `sys_flag` tells whether it is compressed.
        properties: Property block, name\x01value\x02 for each property; should contain UNIQ_KEY.
        flag: Number set by the user.
        sys_flag: Bits of `model.flags`; a half message needs TRANSACTION_PREPARED, and properties TRAN_MSG and PGROUP.
        born_ms: When it was made, ms since 1970; None: when it is sent.
    """

    topic: str
    body: bytes
    properties: str
    flag: int = 0
    sys_flag: int = 0
    born_ms: int | None = None


class EncodedBatch(NamedTuple):
    """Encoded messages of one topic, sent in one request; each should have its id among its own properties.

    Attributes:
        topic: Topic without its namespace.
        body: The concatenated encoded items (`codec.batch`).
        sys_flag: Bits of `model.flags` for all messages.
    """

    topic: str
    body: bytes
    sys_flag: int = 0


# EncodedSend(...) calls a Python-level __new__, which takes three times as long.
_encoded_send = tuple.__new__


class SendEncoder:
    """Encodes the messages of one producer: checks, ids, compression, properties and header text.

    Attributes:
        plain_size_max: A single message's body up to this size is neither too long nor compressed, bytes.
    """

    def __init__(
        self, group: str, settings: ProducerSettings, clock: Clock, ids: UniqueIds
    ) -> None:
        self._group = group
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._namespace = namespace_of(settings.namespace)
        # By topic and request code: the topic with its namespace, and the header's front.
        self._fronts: dict[tuple[str, int], tuple[str, str]] = {}
        self._plain = (0, True), ""  # The latest arguments and result of `_plain_front`.
        # The latest arguments and result of `pipelined_head`: a sequential producer sends twenty messages per ms.
        self._head: tuple[tuple[str, str, int], rows.SendHead | None] = ("", "", 0), None
        self.plain_size_max = min(settings.compress_over, settings.body_size_max)

    def _front(self, topic: str, code: int, *, is_checked: bool = True) -> tuple[str, str]:
        """Return a topic with its namespace, and the header text before the queue.

        If `is_checked`, raises MessageError for a topic to which only brokers may send.
        """
        if is_checked and is_written_by_brokers(topic):
            raise MessageError(f"clients may not send to system topic {in_quotes(topic)}")
        full = self._namespace.wrap(topic)
        queues = self._settings.default_topic_queues
        front = full, front_text(code, self._group, full, DEFAULT_TOPIC, queues)
        self._fronts[topic, code] = front
        return front

    def pack(
        self,
        message: Message,
        extra: Mapping[str, str] | None = None,
        *,
        code: int = _SEND,
        sys_flag: int = 0,
        more: str = "",
        made: tuple[int, str] | None = None,
    ) -> EncodedSend:
        """Encode one message, whose body is compressed if longer than `compress_over` bytes.

        Raises MessageError if its body is too long, its properties cannot be encoded, or only brokers may send to its topic.

        Args:
            message: Message to send.
            extra: System properties to add, as for retries, requests and half messages.
            code: SEND_MESSAGE_V2, or a request with the same header.
            sys_flag: Bits of `model.flags`.
            more: Further header fields (`codec.send_text.middle_text`).
            made: Birth time (ms since 1970) and id to use instead of new ones, for a message that was sent together
                with others (`pipelined_head`) and is now sent again alone.
        """
        try:
            body, topic, wait = message.body, message.topic, message.wait_store_ok
        except AttributeError:
            raise _no_message(message) from None
        if body.__class__ is not bytes:
            body = bytes(body)
        full, front = self._fronts.get((topic, code)) or self._front(topic, code)
        if len(body) > self.plain_size_max:
            body, sys_flag = self._compressed(body, topic, sys_flag)
        if made is None:
            now_ms = self._clock.now_ms()
            message_id = self._ids.next_id(now_ms)
        else:
            now_ms, message_id = made
        if extra or more or sys_flag or message.tag or message.flag or not _is_bare(message):
            properties = json_text(_property_text(message, message_id, extra))
            middle = middle_text(sys_flag, now_ms, message.flag, properties, more)
        else:
            front_of = self._plain_front(now_ms, wait_store_ok=wait)
            middle = f'{front_of}{message_id}\\u0002"'
        return _encoded_send(EncodedSend, (full, front, middle, body, message_id))

    def topic_front(self, topic: str) -> tuple[str, bytes]:
        """Return a topic with its namespace, and a send's header up to the queue; MessageError if only brokers send to it."""
        full, front = self._fronts.get((topic, _SEND)) or self._front(topic, _SEND)
        return full, front.encode()

    def pipelined_head(
        self, topic: str, front: bytes, broker_name: str, now_ms: int
    ) -> rows.SendHead:
        """Return the header parts shared by simple messages that are sent together; equal to what `pack` makes for each."""
        of = topic, broker_name, now_ms
        known, head = self._head  # One step, as in `UniqueIds`.
        if known != of or head is None:
            born = middle_text(0, now_ms, 0, "").encode()
            back = back_text(broker_name).encode()
            head = rows.SendHead(
                topic, front, born, back, _END, self._ids.front(now_ms), self._ids.numbers
            )
            self._head = of, head
        return head

    def _plain_front(self, now_ms: int, *, wait_store_ok: bool) -> str:
        """Return the header text between queue and id, shared by simple messages of one millisecond and `wait_store_ok`."""
        of = now_ms, wait_store_ok
        known, text = self._plain  # Read in one step, as in `UniqueIds`.
        if known != of:
            wait = "true" if wait_store_ok else "false"
            text = middle_text(0, now_ms, 0, f'"WAIT\\u0001{wait}\\u0002UNIQ_KEY\\u0001')
            self._plain = of, text
        return text

    def _compressed(self, body: bytes, topic: str, sys_flag: int) -> tuple[bytes, int]:
        settings = self._settings
        self._check_size(len(body), topic)
        if len(body) <= settings.compress_over:
            return body, sys_flag
        # Follows DefaultMQProducerImpl.tryToCompressMessage: the result is used even if it is larger.
        small = compress(body, settings.compression, level=settings.compression_level)
        return small, compressed_flag(sys_flag, settings.compression)

    def pack_copy(
        self, stored: StoredMessage, topic: str, more: Mapping[str, str]
    ) -> EncodedSend:
        """Encode a copy of a stored message for another topic, with its id, tag, keys, user properties and `more`.

        Raises MessageError if body or properties are too long or invalid, or the topic is invalid or only for brokers.
        """
        fronts = self._fronts.get((topic, _SEND))
        if fronts is None:
            Message(topic, b"")  # Raises if the topic is invalid.
            fronts = self._front(topic, _SEND)
        body, sys_flag = self._compressed(bytes(stored.body), topic, 0)
        properties = {
            name: value
            for name, value in stored.properties.items()
            if name in _COPIED or name not in keys_of.RESERVED
        }
        properties |= more
        properties[keys_of.WAIT] = "true"
        properties[keys_of.UNIQ_KEY] = stored.message_id
        text = json_text(_block(properties).decode())
        middle = middle_text(sys_flag, self._clock.now_ms(), stored.flag, text)
        return _encoded_send(EncodedSend, (*fronts, middle, body, stored.message_id))

    def pack_batch(self, messages: Sequence[Message]) -> EncodedSend:
        """Encode messages of one topic as one uncompressed request (DefaultMQProducer.batch of 5.3.3).

        Consumers usually see the batch's id as the id of each message, because the broker appends the batch's properties
        to those of the message. Raises MessageError for no messages, several topics, different `wait_store_ok`, a delay,
        properties that cannot be encoded, a topic that clients may not send to, or if they are too long together.
        """
        if not messages:
            raise MessageError("a batch needs at least one message")
        given: object = messages
        if not isinstance(given, Sequence) or isinstance(given, str | bytes):
            raise MessageError(f"a batch must be a list of messages, not {as_given(given, 80)}")
        if odd := [each for each in given if not isinstance(each, Message)]:
            raise _no_message(odd[0])
        first = messages[0]
        ids, items, size = [], [], 0
        now_ms = self._clock.now_ms()
        for message in messages:
            if message.topic != first.topic:
                raise MessageError(
                    f"the messages of a batch must have one topic, not {in_quotes(first.topic)} and "
                    f"{in_quotes(message.topic)}; send a batch for each"
                )
            if message.wait_store_ok != first.wait_store_ok:
                raise MessageError("wait_store_ok must be the same for all messages of a batch")
            if message.delay_level or message.deliver is not None:
                raise MessageError(
                    "a batch cannot contain a message with a delay; send that message alone"
                )
            message_id = self._ids.next_id(now_ms)
            block = _property_text(message, message_id).encode()
            item = encode_item(message.flag, bytes(message.body), block)
            ids.append(message_id)
            items.append(item)
            size += len(item)
        self._check_size(size, first.topic)
        wait = "true" if first.wait_store_ok else "false"
        own = encode_properties({keys_of.WAIT: wait, keys_of.UNIQ_KEY: self._ids.next_id()})
        full, front = self._fronts.get((first.topic, _SEND_BATCH)) or self._front(
            first.topic, _SEND_BATCH
        )
        # Batches are never compressed.
        middle = middle_text(0, self._clock.now_ms(), 0, json_text(own.decode()), _IS_BATCH)
        return EncodedSend(full, front, middle, b"".join(items), ",".join(ids))

    def pack_encoded(self, message: EncodedMessage | EncodedBatch) -> EncodedSend:
        """Encode the request for a message or a batch that is encoded already and that nobody checks."""
        topic, code = message.topic, _SEND_BATCH if isinstance(message, EncodedBatch) else _SEND
        full, front = self._fronts.get((topic, code)) or self._front(
            topic, code, is_checked=False
        )
        now_ms = self._clock.now_ms()
        if isinstance(message, EncodedBatch):
            middle = middle_text(message.sys_flag, now_ms, 0, _BATCH_PROPERTIES, _IS_BATCH)
            return EncodedSend(full, front, middle, message.body, "")
        properties = json_text(message.properties)
        born_ms = now_ms if message.born_ms is None else message.born_ms
        middle = middle_text(message.sys_flag, born_ms, message.flag, properties)
        return EncodedSend(full, front, middle, message.body, _id_of(message.properties))

    def _check_size(self, size: int, topic: str) -> None:
        if size > self._settings.body_size_max:
            raise MessageError(
                f"the body for topic {in_quotes(topic)} has {size} bytes; at most {self._settings.body_size_max} are "
                "allowed (body_size_max here, maxMessageSize at the broker)"
            )


def _id_of(properties: str) -> str:
    """Return the message id (UNIQ_KEY) in a property block; "" without one."""
    _, found, rest = f"{keys_of.PROPERTY_SEPARATOR}{properties}".partition(_ID_NAME)
    return rest.partition(keys_of.PROPERTY_SEPARATOR)[0] if found else ""


def _no_message(given: object) -> MessageError:
    return MessageError(f"{as_given(given, 80)} is not a Message; send Message(topic, body)")


def _property_text(
    message: Message, message_id: str, extra: Mapping[str, str] | None = None
) -> str:
    tag = message.tag or ""
    if _is_bare(message) and not extra and tag.isascii() and len(tag) < _PLAIN_TAG_MAX:
        # The common case, in a third of the time; `Message` has checked the tag.
        wait = "true" if message.wait_store_ok else "false"
        tags = f"TAGS\x01{tag}\x02" if tag else ""
        return f"{tags}WAIT\x01{wait}\x02UNIQ_KEY\x01{message_id}\x02"
    properties = message.stored_properties()
    properties[keys_of.UNIQ_KEY] = message_id
    if extra:
        properties.update(extra)
    return _block(properties).decode()


def _is_bare(message: Message) -> bool:
    return not (
        message.properties or message.keys or message.delay_level or message.deliver is not None
    )


def _block(properties: Mapping[str, str]) -> bytes:
    try:
        return encode_properties(properties)
    except CodecError as error:
        raise MessageError(f"{error}; a message cannot carry them") from None
