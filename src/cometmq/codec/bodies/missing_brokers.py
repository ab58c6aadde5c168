"""Missing and rival brokers of a nameserver: the answer to GET_MISSING_BROKERS, a request of CometMQ.

The format is described in docs/format/own-requests.md.
"""

from collections.abc import Iterable, Mapping

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import load_object
from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class MissingBroker:
    """A broker group whose last registered broker has left the nameserver.

    Attributes:
        name: Name of the broker group.
        left_ms: When it left, ms since 1970.
        queues: Number of its readable queues by topic.
    """

    name: str
    cluster: str
    left_ms: int
    queues: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RivalBroker:
    """A broker that recently claimed the name and id of another broker, and lost or did not get them.

    Attributes:
        name: Name of its broker group.
        broker_id: The claimed id; 0 is the master's.
        address: Address that it registered.
        claimed_ms: When it last lost or was refused the id, ms since 1970.
    """

    name: str
    cluster: str
    broker_id: int
    address: str
    claimed_ms: int


def encode_missing_brokers(
    brokers: Iterable[MissingBroker], rivals: Iterable[RivalBroker] = ()
) -> bytes:
    """Encode the JSON body of the answer to GET_MISSING_BROKERS; the field for rivals is omitted if there are none."""
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
    """Decode the rival brokers in the answer to GET_MISSING_BROKERS; empty if the nameserver reports none.

    Raises CodecError if it is malformed.
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
    """Decode the missing brokers in the answer to GET_MISSING_BROKERS. Raises CodecError if it is malformed."""
    return tuple(
        MissingBroker(
            part.text("brokerName"),
            part.text("cluster"),
            part.int64("leftTimestamp"),
            part.table("readQueueNums", lambda table, topic: table.int32(topic)),
        )
        for part in load_object(content, "missing brokers").objects("brokers")
    )
