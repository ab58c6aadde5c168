"""The body of a registration, such that it fits a frame whatever topics a broker has.

A small table goes as JSON, as Java's does by default. A large one is compressed, which each nameserver
since 4.0 reads, whatever `compressedRegister` says; and of one that is too large even then, which
only files of before there were bounds can hold, as many topics are told as fit: those of
users before those of retries and dead letters.
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

# As JSON a topic has some 150 bytes more than compressed: this is about 6,000 topics.
JSON_SIZE_MAX = 1 << 20
_JSON_TOPIC_REST = 150


class RegistrationBody(NamedTuple):
    """A body.

    Attributes:
        content: its bytes.
        is_compressed: what the header must say.
        left_out: how many topics it does not name, since they do not fit.
    """

    content: bytes
    is_compressed: bool
    left_out: int


def make_body(table: TopicTable, *, is_compressed: bool) -> RegistrationBody:
    """The body that tells of a table, compressed where that is wanted or needed. Any thread."""
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
