"""Assignment of queues by a broker: bodies of QUERY_ASSIGNMENT 400, and of the modes, 401 and 402.

Includes messageRequestMode.json, which stores the modes. Source: QueryAssignmentRequestBody,
QueryAssignmentResponseBody, SetMessageRequestModeRequestBody and MessageRequestModeSerializeWrapper of RocketMQ 5.3.3.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from cometmq.codec import fastjson
from cometmq.codec.bodies.heartbeat import CLUSTERING
from cometmq.codec.bodies.json_object import JsonObject, load_object, load_request
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


def encode_assignment_query(query: AssignmentQuery) -> bytes:
    """Encode the JSON body of QUERY_ASSIGNMENT 400."""
    return fastjson.dumps(
        {
            "clientId": query.client_id,
            "consumerGroup": query.group,
            "messageModel": query.model,
            "strategyName": query.strategy,
            "topic": query.topic,
        }
    )


def decode_assignment_query(content: bytes) -> AssignmentQuery:
    """Decode the body of QUERY_ASSIGNMENT 400. Raises CodecError if it is malformed or too large."""
    body = load_request(content, "query of an assignment")
    return AssignmentQuery(
        topic=body.text("topic"),
        group=body.text("consumerGroup"),
        client_id=body.text("clientId", ""),
        strategy=body.text("strategyName", AVERAGELY),
        model=body.text("messageModel", CLUSTERING),
    )


def encode_assignments(assignments: Iterable[Assignment] | None) -> bytes:
    """Encode the answer to QUERY_ASSIGNMENT 400; None means no decision, so that the client keeps the queues it has."""
    if assignments is None:
        return b"{}"
    return fastjson.dumps(
        {
            "messageQueueAssignments": [
                {
                    "messageQueue": {
                        "brokerName": each.queue.broker_name,
                        "queueId": each.queue.queue_id,
                        "topic": each.queue.topic,
                    },
                    "mode": each.mode,
                }
                for each in assignments
            ]
        }
    )


def decode_assignments(content: bytes) -> list[Assignment] | None:
    """Decode the answer to QUERY_ASSIGNMENT 400; None if it has no list of queues. Raises CodecError if it is malformed."""
    body = load_object(content, "assignment")
    if "messageQueueAssignments" not in body:
        return None
    assignments = []
    for part in body.objects("messageQueueAssignments"):
        queue = part.member("messageQueue")
        place = queue.text("topic"), queue.text("brokerName"), queue.int32("queueId")
        assignments.append(Assignment(MessageQueue(*place), part.text("mode", PULL)))
    return assignments


def encode_request_mode(config: RequestModeConfig) -> bytes:
    """Encode the JSON body of SET_MESSAGE_REQUEST_MODE 401."""
    return fastjson.dumps(_mode_json(config))


def decode_request_mode(content: bytes) -> RequestModeConfig:
    """Decode the body of SET_MESSAGE_REQUEST_MODE 401. Raises CodecError if it is malformed or too large."""
    return _mode(load_request(content, "request mode"))


def encode_request_modes(
    modes: Mapping[tuple[str, str], RequestModeConfig], *, pretty: bool = True
) -> str:
    """Encode modes as text: messageRequestMode.json, or without `pretty` an answer to request 402."""
    table: dict[str, dict[str, Any]] = {}
    for config in modes.values():
        table.setdefault(config.topic, {})[config.group] = _mode_json(config)
    return fastjson.dumps({"messageRequestModeMap": table}, pretty=pretty).decode()


def decode_request_modes(text: str) -> dict[tuple[str, str], RequestModeConfig]:
    """Decode messageRequestMode.json to modes by (topic, group). Raises CodecError if the text is malformed."""
    table = load_object(text, "messageRequestMode").member("messageRequestModeMap")
    modes = {}
    for topic in table.names():
        groups = table.member(topic)
        for group in groups.names():
            modes[topic, group] = _mode(groups.member(group))
    return modes


def _mode_json(config: RequestModeConfig) -> dict[str, Any]:
    return {
        "consumerGroup": config.group,
        "mode": config.mode,
        "popShareQueueNum": config.share_queues,
        "topic": config.topic,
    }


def _mode(part: JsonObject) -> RequestModeConfig:
    return RequestModeConfig(
        topic=part.text("topic"),
        group=part.text("consumerGroup"),
        mode=POP if part.text("mode", PULL) == POP else PULL,
        share_queues=part.int32("popShareQueueNum", 0),
    )
