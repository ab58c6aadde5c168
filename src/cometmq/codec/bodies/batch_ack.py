"""Acknowledgements of many popped messages: the body of BATCH_ACK_MESSAGE 200151.

Each entry names a check point and has a bit set; the lowest bit of its first byte stands for the start offset. Source:
BatchAckMessageRequestBody, BatchAck and BitSetSerializerDeserializer of RocketMQ 5.3.3.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_request
from cometmq.model.errors import CodecError
from cometmq.model.frozen import dataclass
from cometmq.model.text import in_quotes

_BITS_MAX = 1 << 16  # A pop returns 32 messages, spread over those that a filter skipped.


@dataclass(frozen=True, slots=True)
class BatchAck:
    """Acknowledged messages of one check point.

    Attributes:
        group: Consumer group that acknowledges.
        topic: Topic that was popped, not its retry topic.
        kind: Kind of the topic that contains the messages (`codec.receipt.kind_of`).
        start_offset: Start offset of the check point.
        queue_id: Queue of the messages.
        revive_queue: Queue of the revive topic that holds the check point, or `codec.receipt.ORDER_QUEUE`.
        pop_time_ms: Time from which the messages are hidden, ms since 1970.
        invisible_ms: How long the messages are hidden, ms.
        offsets: Queue offsets of the messages.
    """

    group: str
    topic: str
    kind: str
    start_offset: int
    queue_id: int
    revive_queue: int
    pop_time_ms: int
    invisible_ms: int
    offsets: tuple[int, ...]


def encode_batch_ack(broker_name: str, acks: Iterable[BatchAck]) -> bytes:
    """Encode the JSON body of BATCH_ACK_MESSAGE."""
    return fastjson.dumps(
        {"acks": [_ack_json(ack) for ack in acks], "brokerName": broker_name}, sort_keys=True
    )


def decode_batch_ack(content: bytes) -> list[BatchAck]:
    """Decode the body of BATCH_ACK_MESSAGE; empty without acks. Raises CodecError if it is malformed or too large."""
    body = load_request(content, "batch of acknowledgements")
    return [_ack(part) for part in body.objects("acks")] if "acks" in body else []


def _ack_json(ack: BatchAck) -> dict[str, object]:
    bits = sum(1 << offset - ack.start_offset for offset in set(ack.offsets))
    content = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
    return {
        "b": b64encode(content).decode(),
        "c": ack.group,
        "it": ack.invisible_ms,
        "pt": ack.pop_time_ms,
        "q": ack.queue_id,
        "r": ack.kind,
        "rq": ack.revive_queue,
        "so": ack.start_offset,
        "t": ack.topic,
    }


def _ack(part: JsonObject) -> BatchAck:
    start = part.int64("so", 0)
    return BatchAck(
        group=part.text("c"),
        topic=part.text("t"),
        kind=part.text("r", "0"),
        start_offset=start,
        queue_id=part.int32("q", 0),
        revive_queue=part.int32("rq", 0),
        pop_time_ms=part.int64("pt", 0),
        invisible_ms=part.int64("it", 0),
        offsets=tuple(start + place for place in _bits(part.text("b", ""))),
    )


def _bits(text: str) -> list[int]:
    try:
        content = b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise CodecError(f"{in_quotes(text, 80)} is not a bit set in base64") from None
    if len(content) * 8 > _BITS_MAX:
        raise CodecError(f"the bit set has {len(content) * 8} bits; the limit is {_BITS_MAX}")
    return [
        number * 8 + bit
        for number, byte in enumerate(content)
        for bit in range(8)
        if byte >> bit & 1
    ]
