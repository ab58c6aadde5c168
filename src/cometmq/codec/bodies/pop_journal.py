"""Records of pop in the revive topic: check points and acknowledgements, with JSON bodies.

A check point (tag `ck`) lists messages of a queue that a group popped and until when they are hidden; without messages
it records a reset. An acknowledgement (`ack`, or `bAck` for several) names a check point and offsets in it. Source:
PopCheckPoint, AckMsg and BatchAckMsg of RocketMQ 5.3.3; docs/format/pop.md.
"""

from functools import lru_cache

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.model.bounded_cache import keep_short
from cometmq.model.errors import CodecError
from cometmq.model.frozen import dataclass
from cometmq.model.numbers import whole_number

CHECK_POINT_TAG, ACK_TAG, BATCH_ACK_TAG = "ck", "ack", "bAck"
_INT32 = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class CheckPointBody:
    """A check point: messages that a group popped from a queue, or a reset of its offset.

    Attributes:
        topic: Topic that contains the messages; may be a retry topic.
        group: Group that popped them.
        queue_id: Queue of the topic.
        start_offset: Queue offset at which it starts; for a reset, the group's new offset.
        offsets: Queue offsets of the messages; empty for a reset.
        pop_time_ms: Time from which the messages are hidden, ms since 1970.
        invisible_ms: How long the messages are hidden, ms; 0 for a reset.
        acknowledged: Bit set of messages that are done, usually acknowledged; the lowest bit is the first message.
        broker_name: Broker of the queue.
        times_put: How often the check point was written again.
    """

    topic: str
    group: str
    queue_id: int
    start_offset: int
    offsets: tuple[int, ...]
    pop_time_ms: int
    invisible_ms: int
    acknowledged: int = 0
    broker_name: str = ""
    times_put: int = 0


@dataclass(frozen=True, slots=True)
class AckBody:
    """An acknowledgement of messages; the fields before `offsets` identify the check point."""

    topic: str
    group: str
    queue_id: int
    start_offset: int
    pop_time_ms: int
    offsets: tuple[int, ...]
    broker_name: str = ""


def encode_check_point(
    point: CheckPointBody, *, revive_offset: int = 0, acknowledged: int = 0
) -> bytes:
    """Encode a check point as JSON.

    Args:
        point: The check point.
        revive_offset: Queue offset of its last record in the revive topic, put into the body; 0 if there is none.
        acknowledged: Bit set of further messages that are done, added to those of the check point.
    """
    bits = (point.acknowledged | acknowledged) & _INT32
    bits = bits - (1 << 32) if bits >> 31 else bits
    start, count = point.start_offset, len(point.offsets)
    if not point.times_put and point.offsets == tuple(range(start, start + count)):
        # The format of nearly every pop, as fastjson writes it.
        due_ms = point.pop_time_ms + point.invisible_ms
        return (
            f'{{"bm":{bits},"bn":{_quoted(point.broker_name)},"c":{_quoted(point.group)},"d":{_steps(count)},'
            f'"it":{point.invisible_ms},"n":{count},"pt":{point.pop_time_ms},"q":{point.queue_id},'
            f'"reviveTime":{due_ms},"ro":{revive_offset},"so":{start},"t":{_quoted(point.topic)}}}'
        ).encode()
    body = {
        "bm": bits,
        "bn": point.broker_name,
        "c": point.group,
        "d": [offset - point.start_offset for offset in point.offsets],
        "it": point.invisible_ms,
        "n": len(point.offsets),
        "pt": point.pop_time_ms,
        "q": point.queue_id,
        "reviveTime": point.pop_time_ms + point.invisible_ms,
        "ro": revive_offset,
        "so": point.start_offset,
        "t": point.topic,
    }
    if point.times_put:
        body["rp"] = str(point.times_put)
    return fastjson.dumps(body, sort_keys=True)


@keep_short(1024, length_max=255)
def _quoted(text: str) -> str:
    return fastjson.dumps(text).decode()


@lru_cache(maxsize=64)
def _steps(count: int) -> str:
    return fastjson.dumps(list(range(count))).decode()


def decode_check_point(content: bytes) -> CheckPointBody:
    """Decode a check point. Raises CodecError if the body is malformed."""
    body = load_object(content, "check point")
    start = body.int64("so", 0)
    # Java before 4.9.3 wrote no differences: the messages are consecutive.
    steps = _numbers(body, "d") if "d" in body else range(body.int32("n", 0))
    return CheckPointBody(
        topic=body.text("t"),
        group=body.text("c"),
        queue_id=body.int32("q", 0),
        start_offset=start,
        offsets=tuple(start + step for step in steps),
        pop_time_ms=body.int64("pt", 0),
        invisible_ms=body.int64("it", 0),
        acknowledged=body.int32("bm", 0) & _INT32,
        broker_name=body.text("bn", ""),
        times_put=whole_number(body.text("rp", "0")) or 0,
    )


def encode_ack(ack: AckBody) -> tuple[str, bytes]:
    """Encode an acknowledgement as (tag, JSON body); the tag depends on whether it has one message or several."""
    body: dict[str, object] = {
        "ao": ack.offsets[0] if len(ack.offsets) == 1 else -1,
        "bn": ack.broker_name,
        "c": ack.group,
        "pt": ack.pop_time_ms,
        "q": ack.queue_id,
        "so": ack.start_offset,
        "t": ack.topic,
    }
    if len(ack.offsets) == 1:
        return ACK_TAG, fastjson.dumps(body, sort_keys=True)
    return BATCH_ACK_TAG, fastjson.dumps({**body, "aol": list(ack.offsets)}, sort_keys=True)


def decode_ack(content: bytes) -> AckBody:
    """Decode an acknowledgement of one or several messages. Raises CodecError if the body is malformed."""
    body = load_object(content, "acknowledgement")
    offsets = _numbers(body, "aol") if "aol" in body else [body.int64("ao", -1)]
    return AckBody(
        topic=body.text("t"),
        group=body.text("c"),
        queue_id=body.int32("q", 0),
        start_offset=body.int64("so", 0),
        pop_time_ms=body.int64("pt", 0),
        offsets=tuple(offsets),
        broker_name=body.text("bn", ""),
    )


def _numbers(body: JsonObject, key: str) -> list[int]:
    values = body.raw().get(key)
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise CodecError(f"{body}: {key} is not a list of numbers")
    return [*values]
