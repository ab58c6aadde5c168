"""The registration of a broker at a nameserver: the body of REGISTER_BROKER 103 (docs/format/register.md).

The body is JSON or compressed: a zlib stream of parts, each preceded by its length (big-endian):

| part | bytes |
| --- | --- |
| length 4, data version, JSON | 4 + n |
| number of topics | 4 |
| each: length 4, text `name readQueues writeQueues perm filterType [attributes JSON]` | 4 + n |
| length 4, filter servers, JSON list | 4 + n |
| number of queue mappings, from senders of 5.0 on | 4 |
| each: length 4, mapping, JSON | 4 + n |

Senders before 3.0.11 send only the topic table. Source: RegisterBrokerBody of RocketMQ 5.3.3. With
`compressedRegister=true` its brokers compress the body, but the header claims that they do not; the first byte
therefore decides as well.
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
from cometmq.model.text import in_quotes
from cometmq.model.topic import TopicConfig

# Space in a frame after its header, in bytes.
BODY_SIZE_MAX = FRAME_SIZE_MAX - 65_536
# Enough for 80,000 topics with names of 127 characters and some attributes; limits the memory per peer. In bytes.
PLAIN_SIZE_MAX = 24 << 20
_PIECE_SIZE = 256 << 10
_ZLIB_FIRST_BYTE = b"x"  # Deflate with a 32 KiB window, as Java and zlib write.
_COUNT = struct.Struct(">i")
# Bytes of a topic besides its names: length, two counts, a perm of 12 characters, blanks, `{}`.
_TOPIC_REST_SIZE = 48
# Order of TopicConfig.encode; attributes follow after another blank.
_TOPIC_FIELDS = ("topicName", "readQueueNums", "writeQueueNums", "perm", "topicFilterType")


@dataclass(frozen=True, slots=True)
class RegisterBrokerBody:
    """The decoded body of a broker's registration.

    Attributes:
        table: Topics and their version.
        filter_servers: Addresses of filter servers, which are obsolete.
        queue_mappings: TopicQueueMappingInfo by topic in wire form (static topics, 5.x).
    """

    table: TopicTable
    filter_servers: tuple[str, ...] = ()
    queue_mappings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def encode_registration(
    registration: RegisterBrokerBody, *, is_compressed: bool = False
) -> bytes:
    """Encode the body of REGISTER_BROKER as a 5.x broker does: JSON or, if `is_compressed`, a zlib stream of parts."""
    return _compressed(registration) if is_compressed else _plain(registration)


def decode_registration(
    body: bytes, *, is_compressed: bool = False, version: int = VERSION
) -> RegisterBrokerBody:
    """Decode the body of REGISTER_BROKER.

    Args:
        body: Body of the request; empty means a broker without topics.
        is_compressed: Whether the request's header claims compression.
        version: Ordinal of the sender's version, which determines the parts of the body.

    Raises:
        CodecError: The body is malformed.
        BombError: The body would decompress to more than PLAIN_SIZE_MAX bytes.
    """
    if not body:
        return RegisterBrokerBody(TopicTable(DataVersion(0)))
    if is_packed(body, is_claimed=is_compressed):
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


def is_packed(body: bytes, *, is_claimed: bool) -> bool:
    """Return whether a body of REGISTER_BROKER is compressed: its header claims it, or its first byte is zlib's."""
    return is_claimed or body[:1] == _ZLIB_FIRST_BYTE


def topic_size(config: TopicConfig) -> int:
    """Return an upper bound of a topic's size in a compressed registration, in bytes before the compression."""
    size = len(config.name) + len(config.filter_type) + _TOPIC_REST_SIZE
    if config.attributes:
        size += len(fastjson.dumps(dict(config.attributes)))
    return size


def body_crc(body: bytes) -> int:
    """Return the bodyCrc32 of a header: CRC-32 without its sign bit (UtilAll.crc32)."""
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
    """Decompress a body twice, piece by piece: to measure it, then into a buffer of that size, which saves memory.

    Raises CodecError or BombError.
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
                raise CodecError("a compressed registration is incomplete")
            yield piece
    except zlib.error as error:
        raise CodecError(f"a compressed registration is damaged: {error}") from None


class _BodyReader:
    """Reads the parts of a decompressed body in order."""

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
        raise CodecError(f"registration: {in_quotes(text, 80)} is not a topic")
    values: dict[str, Any] = dict(zip(_TOPIC_FIELDS, fields, strict=False))
    if len(fields) > len(_TOPIC_FIELDS):
        values["attributes"] = _attributes(fields[-1])
    return topic(JsonObject(values, "registration: topic"))


def _attributes(text: str) -> Any:
    # As in TopicConfig.decode, unreadable attributes are ignored and the topic is kept.
    try:
        return fastjson.loads(text)
    except CodecError:
        return None
