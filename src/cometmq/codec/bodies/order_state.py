"""State of queues that are popped in order: the file consumerOrderInfo.json.

Source: ConsumerOrderInfoManager and its OrderInfo of RocketMQ 5.3.3; docs/format/pop.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
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


def encode_order_states(states: Mapping[Place, OrderState]) -> str:
    """Encode states of queues popped in order as the text of consumerOrderInfo.json."""
    table: dict[str, dict[int, Any]] = {}
    for (group, topic, queue_id), state in states.items():
        table.setdefault(f"{topic}@{group}", {})[queue_id] = _state_json(state)
    return fastjson.dumps({"table": table}, pretty=True).decode()


def decode_order_states(text: str) -> dict[Place, OrderState]:
    """Decode consumerOrderInfo.json. Raises CodecError if the text is malformed."""
    states: dict[Place, OrderState] = {}
    table = load_object(text, "consumerOrderInfo").member("table")
    for name in table.names():
        topic, _, group = str(name).partition("@")
        queues = table.numbered(name, lambda part, queue_id: _state(part.member(queue_id)))
        for queue_id, state in queues.items():
            states[group, topic, queue_id] = state
    return states


def _state_json(state: OrderState) -> dict[str, Any]:
    first = state.offsets[0]
    return {
        "a": state.attempt_id,
        "cm": state.acknowledged,
        "i": state.invisible_ms,
        "l": state.used_ms,
        # The first offset, followed by the differences from it.
        "o": [first, *(offset - first for offset in state.offsets[1:])],
        "oc": state.counts,
        "ot": state.visible or None,
        "popTime": state.pop_time_ms,
    }


def _state(part: JsonObject) -> OrderState:
    raw = part.raw().get("o")
    if not isinstance(raw, list) or not raw or not all(type(value) is int for value in raw):
        raise CodecError(f"{part}: o is not a list of offsets")
    return OrderState(
        offsets=(raw[0], *(raw[0] + step for step in raw[1:])),
        pop_time_ms=part.int64("popTime", 0),
        invisible_ms=part.int64("i", 0),
        used_ms=part.int64("l", 0),
        acknowledged=part.int64("cm", 0),
        attempt_id=part.maybe_text("a"),
        visible=part.numbered("ot", JsonObject.int64),
        counts=part.numbered("oc", JsonObject.int64),
    )
