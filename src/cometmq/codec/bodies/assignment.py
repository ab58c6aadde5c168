"""Assignment of queues by a broker: bodies of QUERY_ASSIGNMENT 400, and of the modes, 401 and 402.

Includes messageRequestMode.json, which stores the modes. Source: QueryAssignmentRequestBody,
QueryAssignmentResponseBody, SetMessageRequestModeRequestBody and MessageRequestModeSerializeWrapper of RocketMQ 5.3.3.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from cometmq.codec import fastjson
from cometmq.codec.bodies.heartbeat import CLUSTERING
from cometmq.codec.bodies.json_object import JsonObject, load_object, load_request
from cometmq.codec.bodies.members import JsonMember, JsonMembers
from cometmq.codec.bodies.queue_table import QUEUE
from cometmq.model.frozen import dataclass
from cometmq.model.queue import MessageQueue

PULL, POP = "PULL", "POP"
AVERAGELY, IN_CIRCLE = "AVG", "AVG_BY_CIRCLE"


@dataclass(frozen=True, slots=True)
class AssignmentQuery:
    """A group member's request for its queues of a topic."""

    topic: str
    group: str
    client_id: str
    strategy: str = AVERAGELY
    model: str = CLUSTERING


@dataclass(frozen=True, slots=True)
class Assignment:
    """A queue to consume, and the mode: PULL or POP; queue id -1 means any queue of the broker."""

    queue: MessageQueue
    mode: str = PULL


@dataclass(frozen=True, slots=True)
class RequestModeConfig:
    """The mode in which a group consumes a topic whose queues brokers assign.

    Attributes:
        mode: PULL or POP.
        share_queues: Number of other members whose queues a member also pops; 0 or less: all.
    """

    topic: str
    group: str
    mode: str = PULL
    share_queues: int = 0


def _request_mode(part: JsonObject, key: str) -> str:
    return POP if part.text(key, PULL) == POP else PULL


_QUERY = JsonMembers(
    AssignmentQuery,
    JsonMember("clientId", "client_id", JsonObject.text, ""),
    JsonMember("consumerGroup", "group", JsonObject.text),
    JsonMember("messageModel", "model", JsonObject.text, CLUSTERING),
    JsonMember("strategyName", "strategy", JsonObject.text, AVERAGELY),
    JsonMember("topic", "topic", JsonObject.text),
)
_ASSIGNMENT = JsonMembers(
    Assignment,
    JsonMember("messageQueue", "queue", QUEUE.in_field, write=QUEUE.to_json),
    JsonMember("mode", "mode", JsonObject.text, PULL),
)
_MODE = JsonMembers(
    RequestModeConfig,
    JsonMember("consumerGroup", "group", JsonObject.text),
    JsonMember("mode", "mode", _request_mode),
    JsonMember("popShareQueueNum", "share_queues", JsonObject.int32, 0),
    JsonMember("topic", "topic", JsonObject.text),
)


def encode_assignment_query(query: AssignmentQuery) -> bytes:
    """Encode the JSON body of QUERY_ASSIGNMENT 400."""
    return fastjson.dumps(_QUERY.to_json(query))


def decode_assignment_query(content: bytes) -> AssignmentQuery:
    """Decode the body of QUERY_ASSIGNMENT 400. Raises CodecError if it is malformed or too large."""
    return _QUERY.of(load_request(content, "query of an assignment"))


def encode_assignments(assignments: Iterable[Assignment] | None) -> bytes:
    """Encode the answer to QUERY_ASSIGNMENT 400; None means no decision, so that the client keeps the queues it has."""
    if assignments is None:
        return b"{}"
    return fastjson.dumps({"messageQueueAssignments": _ASSIGNMENT.list_of(assignments)})


def decode_assignments(content: bytes) -> list[Assignment] | None:
    """Decode the answer to QUERY_ASSIGNMENT 400; None if it has no list of queues. Raises CodecError if it is malformed."""
    body = load_object(content, "assignment")
    if "messageQueueAssignments" not in body:
        return None
    return list(_ASSIGNMENT.all_of(body, "messageQueueAssignments"))


def encode_request_mode(config: RequestModeConfig) -> bytes:
    """Encode the JSON body of SET_MESSAGE_REQUEST_MODE 401."""
    return fastjson.dumps(_MODE.to_json(config))


def decode_request_mode(content: bytes) -> RequestModeConfig:
    """Decode the body of SET_MESSAGE_REQUEST_MODE 401. Raises CodecError if it is malformed or too large."""
    return _MODE.of(load_request(content, "request mode"))


def request_mode_json(config: RequestModeConfig) -> dict[str, Any]:
    """Convert a request mode to a dict of JSON values."""
    return _MODE.to_json(config)


def request_mode(part: JsonObject, key: str) -> RequestModeConfig:
    """Decode the request mode in a field of a table. Raises CodecError if it is malformed."""
    return _MODE.in_field(part, key)


def encode_request_modes(
    modes: Mapping[tuple[str, str], RequestModeConfig], *, pretty: bool = True
) -> str:
    """Encode modes as text: messageRequestMode.json, or without `pretty` an answer to request 402."""
    table: dict[str, dict[str, Any]] = {}
    for config in modes.values():
        table.setdefault(config.topic, {})[config.group] = _MODE.to_json(config)
    return fastjson.dumps({"messageRequestModeMap": table}, pretty=pretty).decode()


def decode_request_modes(text: str) -> dict[tuple[str, str], RequestModeConfig]:
    """Decode messageRequestMode.json to modes by (topic, group). Raises CodecError if the text is malformed."""
    table = load_object(text, "messageRequestMode").member("messageRequestModeMap")
    modes = {}
    for topic in table.names():
        for group, mode in table.table(topic, _MODE.in_field).items():
            modes[topic, group] = mode
    return modes
