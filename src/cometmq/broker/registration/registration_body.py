"""Encodes the body of a registration so that it fits a frame, however many topics a broker has.

A small table is sent as JSON unless `compressedRegister` is true. A large one is compressed whatever
`compressedRegister` says. If it is still too large, only a part of the topics is sent: users' topics before retry and
dead-letter topics.
"""

from typing import NamedTuple

from cometmq.codec.bodies.register import (
    BODY_SIZE_MAX,
    PLAIN_SIZE_MAX,
    RegisterBrokerBody,
    encode_registration,
    topic_size,
)
from cometmq.codec.bodies.topic_config import TopicTable
from cometmq.model.names import is_derived_topic

# A topic has some 150 bytes more as JSON than compressed: this is about 6,000 topics.
JSON_SIZE_MAX = 1 << 20
_JSON_TOPIC_REST = 150


class RegistrationBody(NamedTuple):
    """An encoded body of a registration.

    Attributes:
        is_compressed: Whether it is compressed, which the header must say.
        left_out: Number of topics that were left out, so that the others fit.
    """

    content: bytes
    is_compressed: bool
    left_out: int


def make_body(table: TopicTable, *, is_compressed: bool) -> RegistrationBody:
    """Encode a topic table, compressed if wanted or needed; leave out topics until the rest fits. Callable in any thread."""
    count = len(table.topics)
    size = sum(map(topic_size, table.topics.values()))
    if not is_compressed and size + count * _JSON_TOPIC_REST <= JSON_SIZE_MAX:
        return RegistrationBody(
            encode_registration(RegisterBrokerBody(table)), is_compressed=False, left_out=0
        )
    while True:
        content = encode_registration(RegisterBrokerBody(table), is_compressed=True)
        if len(content) <= BODY_SIZE_MAX and size <= PLAIN_SIZE_MAX:
            left_out = count - len(table.topics)
            return RegistrationBody(content, is_compressed=True, left_out=left_out)
        names = sorted(table.topics, key=is_derived_topic)
        kept = {name: table.topics[name] for name in names[: len(names) * 3 // 4]}
        table = TopicTable(table.version, kept)
        size = sum(map(topic_size, kept.values()))
