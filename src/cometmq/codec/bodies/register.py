"""The body of REGISTER_BROKER 103, with which a broker registers at a nameserver (docs/format/register.md).

JSON, or compressed: a zlib stream of parts, each with its length before it (big-endian):

| part | bytes |
| --- | --- |
| length 4, data version, JSON | 4 + n |
| number of topics | 4 |
| each: length 4, text `name readQueues writeQueues perm filterType [attributes JSON]` | 4 + n |
| length 4, filter servers, JSON list | 4 + n |
| number of queue mappings, from senders of 5.0 on | 4 |
| each: length 4, mapping, JSON | 4 + n |

Senders before 3.0.11 put only the topic table into the body. Source: RegisterBrokerBody of
RocketMQ 5.3.3. Its brokers have a fault with `compressedRegister=true`: they compress, but the
header says that they did not, so the first byte decides here, too.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.codec.bodies.topic_config import TopicTable, topic, topic_table, topic_table_json
from cometmq.codec.remoting import FRAME_SIZE_MAX
from cometmq.model.codes import VERSION, VERSION_QUEUE_MAPPING, VERSION_REGISTER_BODY
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import BombError, CodecError
from cometmq.model.frozen import dataclass
from cometmq.model.topic import TopicConfig

# What a frame has room for beside its header, bytes.
BODY_SIZE_MAX = FRAME_SIZE_MAX - 65_536
# 80,000 topics with names of 127 characters and some attributes; beyond it a peer wants our memory, bytes.
PLAIN_SIZE_MAX = 24 << 20
_PIECE_SIZE = 256 << 10
_ZLIB_FIRST_BYTE = 0x78  # Deflate with a window of 32 KiB: what Java and zlib write.
_COUNT = struct.Struct(">i")
# Of a topic, beside its names: the length, two counts and a perm of 12 characters, blanks, `{}`.
_TOPIC_REST_SIZE = 48
# TopicConfig.encode, in its order; the attributes follow behind one more blank.
_TOPIC_FIELDS = ("topicName", "readQueueNums", "writeQueueNums", "perm", "topicFilterType")


@dataclass(frozen=True, slots=True)
class RegisterBrokerBody:
    """The topics of a broker.

    Attributes:
        table: topics and their version.
        filter_servers: addresses of filter servers; nobody has them any more.
        queue_mappings: TopicQueueMappingInfo by topic, as the wire has it (static topics, 5.x).
    """

    table: TopicTable
    filter_servers: tuple[str, ...] = ()
    queue_mappings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def encode_registration(
    registration: RegisterBrokerBody, *, is_compressed: bool = False
) -> bytes:
    """The body, as a 5.x broker writes it."""
    return _compressed(registration) if is_compressed else _plain(registration)


def decode_registration(
    body: bytes, *, is_compressed: bool = False, version: int = VERSION
) -> RegisterBrokerBody:
    """The topics in a body.

    Args:
        body: of the request; nothing in it is a broker without topics.
        is_compressed: what the request's header says.
        version: the sender's, which decides what the body has.

    Raises:
        CodecError: it means nothing; the message says where.
        BombError: it would unpack to more than PLAIN_SIZE_MAX.
    """
    if not body:
        return RegisterBrokerBody(TopicTable(DataVersion(0)))
    if is_compressed or body[0] == _ZLIB_FIRST_BYTE:
        return _unpack(_inflated(body), version)
    what = load_object(body, "registration")
    if version < VERSION_REGISTER_BODY:
        return RegisterBrokerBody(topic_table(what))
    wrapper = what.member("topicConfigSerializeWrapper")
    return RegisterBrokerBody(
        table=topic_table(wrapper),
        filter_servers=what.texts("filterServerList"),
        queue_mappings=wrapper.table(
            "topicQueueMappingInfoMap", lambda part, name: part.member(name).raw()
        ),
    )


def topic_size(config: TopicConfig) -> int:
    """Bytes of a topic in the compressed form, before it is compressed; at most a few too many."""
    size = len(config.name) + len(config.filter_type) + _TOPIC_REST_SIZE
    if config.attributes:
        size += len(fastjson.dumps(dict(config.attributes)))
    return size


def body_crc(body: bytes) -> int:
    """The bodyCrc32 of a header: CRC-32 without its sign bit (UtilAll.crc32)."""
    return zlib.crc32(body) & 0x7FFF_FFFF


def _plain(registration: RegisterBrokerBody) -> bytes:
    table = topic_table_json(registration.table)
    wrapper = {
        "dataVersion": table["dataVersion"],
        "mappingDataVersion": DataVersion(registration.table.version.timestamp).to_json(),
        "topicConfigTable": table["topicConfigTable"],
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": dict(registration.queue_mappings),
    }
    return fastjson.dumps(
        {
            "filterServerList": list(registration.filter_servers),
            "topicConfigSerializeWrapper": wrapper,
        }
    )


def _compressed(registration: RegisterBrokerBody) -> bytes:
    table = registration.table
    parts = [_part(fastjson.dumps(table.version.to_json())), _COUNT.pack(len(table.topics))]
    parts += [_part(_topic_text(config)) for config in table.topics.values()]
    parts.append(_part(fastjson.dumps(list(registration.filter_servers))))
    parts.append(_COUNT.pack(len(registration.queue_mappings)))
    parts += [
        _part(fastjson.dumps(dict(info))) for info in registration.queue_mappings.values()
    ]
    return zlib.compress(b"".join(parts), zlib.Z_BEST_COMPRESSION)


def _part(content: bytes) -> bytes:
    return _COUNT.pack(len(content)) + content


def _topic_text(config: TopicConfig) -> bytes:
    head = (
        f"{config.name} {config.read_queues} {config.write_queues} {config.perm} "
        f"{config.filter_type} "
    )
    return head.encode() + fastjson.dumps(dict(config.attributes))


def _inflated(body: bytes) -> bytearray:
    """Decompress a body in no more memory than its content: it is measured first, piece by piece.

    zlib's own result is built twice as large, and 250 KiB can ask for 256 MiB of it.
    """
    plain = bytearray(sum(map(len, _pieces(body))))
    position = 0
    for piece in _pieces(body):
        plain[position : position + len(piece)] = piece
        position += len(piece)
    return plain


def _pieces(body: bytes) -> Iterator[bytes]:
    stream, size = zlib.decompressobj(), 0
    try:
        while not stream.eof:
            piece = stream.decompress(body, _PIECE_SIZE)
            body = stream.unconsumed_tail
            size += len(piece)
            if size > PLAIN_SIZE_MAX:
                raise BombError(f"a registration unpacks to more than {PLAIN_SIZE_MAX} bytes")
            if not piece and not body and not stream.eof:
                raise CodecError("a compressed registration is cut short")
            yield piece
    except zlib.error as error:
        raise CodecError(f"a compressed registration is broken: {error}") from None


class _BodyReader:
    """Takes the parts of an unpacked body one by one."""

    def __init__(self, content: bytearray) -> None:
        self._content = content
        self._position = 0

    def count(self, what: str) -> int:
        piece = self._take(_COUNT.size, what)
        count: int = _COUNT.unpack(piece)[0]
        if count < 0:
            raise CodecError(f"registration: {what} is {count}")
        return count

    def part(self, what: str) -> bytes:
        return self._take(self.count(f"the length of {what}"), what)

    def _take(self, size: int, what: str) -> bytes:
        end = self._position + size
        if end > len(self._content):
            raise CodecError(f"registration: it ends within {what}")
        piece = bytes(self._content[self._position : end])
        self._position = end
        return piece


def _unpack(content: bytearray, version: int) -> RegisterBrokerBody:
    reader = _BodyReader(content)
    head = {"dataVersion": fastjson.loads(reader.part("the data version"))}
    topics = {}
    for _ in range(reader.count("the number of topics")):
        config = _topic(reader.part("a topic"))
        topics[config.name] = config
    head["filterServerList"] = fastjson.loads(reader.part("the filter servers"))
    mappings: dict[str, Mapping[str, Any]] = {}
    if version >= VERSION_QUEUE_MAPPING:
        for _ in range(reader.count("the number of queue mappings")):
            mapping = load_object(reader.part("a queue mapping"), "queue mapping")
            mappings[mapping.text("topic")] = mapping.raw()
    what = JsonObject(head, "registration")
    return RegisterBrokerBody(
        TopicTable(what.version("dataVersion"), topics),
        what.texts("filterServerList"),
        mappings,
    )


def _topic(content: bytes) -> TopicConfig:
    text = content.decode(errors="replace")
    fields = text.split(" ", len(_TOPIC_FIELDS))
    if len(fields) < len(_TOPIC_FIELDS):
        raise CodecError(f"registration: {text!r:.80} is no topic")
    values: dict[str, Any] = dict(zip(_TOPIC_FIELDS, fields, strict=False))
    if len(fields) > len(_TOPIC_FIELDS):
        values["attributes"] = _attributes(fields[-1])
    return topic(JsonObject(values, "registration: topic"))


def _attributes(text: str) -> Any:
    # Follows TopicConfig.decode: attributes that cannot be read are none, the topic still counts.
    try:
        return fastjson.loads(text)
    except CodecError:
        return None
