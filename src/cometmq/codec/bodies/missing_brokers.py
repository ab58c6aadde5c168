"""Brokers that have left a nameserver and not come back: body of GET_MISSING_BROKERS, a request of our own.

docs/format/own-requests.md draws it.
"""

from collections.abc import Iterable, Mapping

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import load_object
from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class MissingBroker:
    """A broker that has left.

    Attributes:
        name: of its broker group.
        cluster: its cluster.
        left_ms: when it left, ms since 1970.
        queues: how many readable queues each of its topics had there.
    """

    name: str
    cluster: str
    left_ms: int
    queues: Mapping[str, int]


def encode_missing_brokers(brokers: Iterable[MissingBroker]) -> bytes:
    """The body."""
    return fastjson.dumps(
        {
            "brokers": [
                {
                    "brokerName": broker.name,
                    "cluster": broker.cluster,
                    "leftTimestamp": broker.left_ms,
                    "readQueueNums": dict(broker.queues),
                }
                for broker in brokers
            ]
        }
    )


def decode_missing_brokers(content: bytes | str) -> tuple[MissingBroker, ...]:
    """The brokers in such a body.

    Raises:
        CodecError: it is none; the message names the field.
    """
    return tuple(
        MissingBroker(
            part.text("brokerName"),
            part.text("cluster"),
            part.int64("leftTimestamp"),
            part.table("readQueueNums", lambda table, topic: table.int32(topic)),
        )
        for part in load_object(content, "missing brokers").objects("brokers")
    )
