"""Missing and rival brokers of a nameserver: the answer to GET_MISSING_BROKERS, a request of CometMQ.

The format is described in docs/format/own-requests.md.
"""

from collections.abc import Iterable, Mapping

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.codec.bodies.members import JsonMember, JsonMembers
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


def _queue_counts(part: JsonObject, key: str) -> dict[str, int]:
    return part.table(key, JsonObject.int32)


_MISSING = JsonMembers(
    MissingBroker,
    JsonMember("brokerName", "name", JsonObject.text),
    JsonMember("cluster", "cluster", JsonObject.text),
    JsonMember("leftTimestamp", "left_ms", JsonObject.int64),
    JsonMember("readQueueNums", "queues", _queue_counts, write=dict),
)
_RIVAL = JsonMembers(
    RivalBroker,
    JsonMember("brokerAddr", "address", JsonObject.text),
    JsonMember("brokerId", "broker_id", JsonObject.int64),
    JsonMember("brokerName", "name", JsonObject.text),
    JsonMember("claimTimestamp", "claimed_ms", JsonObject.int64),
    JsonMember("cluster", "cluster", JsonObject.text),
)


def encode_missing_brokers(
    brokers: Iterable[MissingBroker], rivals: Iterable[RivalBroker] = ()
) -> bytes:
    """Encode the JSON body of the answer to GET_MISSING_BROKERS; the field for rivals is omitted if there are none."""
    body = {"brokers": _MISSING.list_of(brokers)}
    if claims := _RIVAL.list_of(rivals):
        body["rivals"] = claims
    return fastjson.dumps(body)


def decode_rival_brokers(content: bytes | str) -> tuple[RivalBroker, ...]:
    """Decode the rival brokers in the answer to GET_MISSING_BROKERS; empty if the nameserver reports none.

    Raises CodecError if it is malformed.
    """
    return _RIVAL.all_of(load_object(content, "missing brokers"), "rivals")


def decode_missing_brokers(content: bytes | str) -> tuple[MissingBroker, ...]:
    """Decode the missing brokers in the answer to GET_MISSING_BROKERS. Raises CodecError if it is malformed."""
    return _MISSING.all_of(load_object(content, "missing brokers"), "brokers")
