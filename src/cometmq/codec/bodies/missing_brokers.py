"""Brokers that have left a nameserver, and brokers whose place another has: body of GET_MISSING_BROKERS, a request of our own.

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


@dataclass(frozen=True, slots=True)
class RivalBroker:
    """A broker whose name and id another living broker has.

    Attributes:
        name: of its broker group.
        cluster: its cluster.
        broker_id: the id that it claims; 0 is the master's.
        address: where it listens, as it registered.
        claimed_ms: when it claimed the id last, ms since 1970.
    """

    name: str
    cluster: str
    broker_id: int
    address: str
    claimed_ms: int


def encode_missing_brokers(
    brokers: Iterable[MissingBroker], rivals: Iterable[RivalBroker] = ()
) -> bytes:
    """Return the body; without rivals it has no field for them."""
    left = [
        {
            "brokerName": broker.name,
            "cluster": broker.cluster,
            "leftTimestamp": broker.left_ms,
            "readQueueNums": dict(broker.queues),
        }
        for broker in brokers
    ]
    claims = [
        {
            "brokerAddr": rival.address,
            "brokerId": rival.broker_id,
            "brokerName": rival.name,
            "claimTimestamp": rival.claimed_ms,
            "cluster": rival.cluster,
        }
        for rival in rivals
    ]
    return fastjson.dumps({"brokers": left, "rivals": claims} if claims else {"brokers": left})


def decode_rival_brokers(content: bytes | str) -> tuple[RivalBroker, ...]:
    """Return the rivals in such a body; none where the nameserver is older than they are.

    Raises:
        CodecError: The body cannot be read; the message names the field.
    """
    body = load_object(content, "missing brokers")
    return tuple(
        RivalBroker(
            part.text("brokerName"),
            part.text("cluster"),
            part.int64("brokerId"),
            part.text("brokerAddr"),
            part.int64("claimTimestamp"),
        )
        for part in (body.objects("rivals") if "rivals" in body else ())
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
