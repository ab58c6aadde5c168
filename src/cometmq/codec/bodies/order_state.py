"""State of queues that are popped in order: the file consumerOrderInfo.json.

Source: ConsumerOrderInfoManager and its OrderInfo of RocketMQ 5.3.3; docs/format/pop.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.codec.bodies.members import JsonMember, JsonMembers
from cometmq.model.errors import CodecError

Place = tuple[str, str, int]  # Group, topic, queue.


@dataclass(slots=True)
class OrderState:
    """The messages of a queue that were last popped in order by a group.

    Attributes:
        offsets: Queue offsets of the messages, ascending.
        pop_time_ms: Time of the pop, ms since 1970.
        invisible_ms: How long the messages are hidden, ms.
        used_ms: When the queue was last popped, ms since 1970.
        acknowledged: Bit set of acknowledged messages, the lowest bit for the first message.
        attempt_id: Attempt id of the pop, or None.
        visible: Ends of changed invisible times by queue offset, ms since 1970.
        counts: Known number of earlier deliveries by queue offset; messages without any are missing.
    """

    offsets: tuple[int, ...]
    pop_time_ms: int
    invisible_ms: int
    used_ms: int
    acknowledged: int = 0
    attempt_id: str | None = None
    visible: dict[int, int] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)

    def visible_at(self, index: int) -> int:
        """Return until when the message at an index of `offsets` locks the queue unless acknowledged, ms since 1970."""
        return self.visible.get(self.offsets[index], self.pop_time_ms + self.invisible_ms)


def _offsets(part: JsonObject, key: str) -> tuple[int, ...]:
    raw = part.raw().get(key)
    if not isinstance(raw, list) or not raw or not all(type(value) is int for value in raw):
        raise CodecError(f"{part}: {key} is not a list of offsets")
    return raw[0], *(raw[0] + step for step in raw[1:])


def _steps(offsets: tuple[int, ...]) -> list[int]:
    """Return the first offset, followed by the differences from it."""
    return [offsets[0], *(offset - offsets[0] for offset in offsets[1:])]


def _by_offset(part: JsonObject, key: str) -> dict[int, int]:
    return part.numbered(key, JsonObject.int64)


_STATE = JsonMembers(
    OrderState,
    JsonMember("a", "attempt_id", JsonObject.maybe_text),
    JsonMember("cm", "acknowledged", JsonObject.int64, 0),
    JsonMember("i", "invisible_ms", JsonObject.int64, 0),
    JsonMember("l", "used_ms", JsonObject.int64, 0),
    JsonMember("o", "offsets", _offsets, write=_steps),
    JsonMember("oc", "counts", _by_offset),
    JsonMember("ot", "visible", _by_offset, write=lambda times: times or None),
    JsonMember("popTime", "pop_time_ms", JsonObject.int64, 0),
)


def order_state_json(state: OrderState) -> dict[str, Any]:
    """Convert the state of a queue to a dict of JSON values."""
    return _STATE.to_json(state)


def order_state(part: JsonObject, key: str) -> OrderState:
    """Decode the state of a queue in a field of a table. Raises CodecError if it is malformed."""
    return _STATE.in_field(part, key)


def encode_order_states(states: Mapping[Place, OrderState]) -> str:
    """Encode states of queues popped in order as the text of consumerOrderInfo.json."""
    table: dict[str, dict[int, Any]] = {}
    for (group, topic, queue_id), state in states.items():
        table.setdefault(f"{topic}@{group}", {})[queue_id] = _STATE.to_json(state)
    return fastjson.dumps({"table": table}, pretty=True).decode()


def decode_order_states(text: str) -> dict[Place, OrderState]:
    """Decode consumerOrderInfo.json. Raises CodecError if the text is malformed."""
    states: dict[Place, OrderState] = {}
    table = load_object(text, "consumerOrderInfo").member("table")
    for name in table.names():
        topic, _, group = str(name).partition("@")
        queues = table.numbered(name, _STATE.in_field)
        for queue_id, state in queues.items():
            states[group, topic, queue_id] = state
    return states
