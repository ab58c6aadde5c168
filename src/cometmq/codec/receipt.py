"""Receipt handles of popped messages (property POP_CK), and the header fields of pop answers.

A handle has eight words, separated by blanks (the last may be missing):

| start offset | time of the pop, ms | invisible time, ms | revive queue | kind of topic | broker | queue | queue offset |

The kind is 0 for the topic itself, and 1 or 2 for its retry topics (`%RETRY%group_topic` and `%RETRY%group+topic`). A
pop answer contains for each queue with messages `kind queue start` in startOffsetInfo and `kind queue offset,offset` in
msgOffsetInfo, separated by semicolons. Source: ExtraInfoUtil of RocketMQ 5.3.3; docs/format/pop.md.
"""

from typing import NamedTuple

import orjson

from cometmq.model.errors import CodecError, invalid_parameter
from cometmq.model.names import RETRY_PREFIX, pop_retry_topic
from cometmq.model.text import as_given, in_quotes

ORDER_QUEUE = 999  # KeyBuilder.POP_ORDER_REVIVE_QUEUE: popped in order, no check point.
NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"


class Receipt(NamedTuple):
    """The receipt handle of a popped message.

    Attributes:
        start_offset: Queue offset at which the pop of this queue, or its check point, starts.
        pop_time_ms: Time from which the message is hidden, ms since 1970.
        invisible_ms: How long the message is hidden, ms.
        revive_queue: Queue of the revive topic that holds the check point, or ORDER_QUEUE.
        kind: NORMAL, RETRY_V1 or RETRY_V2.
        broker_name: Broker that delivered the message.
        queue_id: Queue of the message.
        queue_offset: Queue offset of the message; -1 if omitted, as in requests about a whole queue.
    """

    start_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue: int
    kind: str
    broker_name: str
    queue_id: int
    queue_offset: int = -1

    def __str__(self) -> str:
        """Return the handle as it is sent."""
        return " ".join(map(str, self))


def parse_receipt(text: str) -> Receipt:
    """Parse a popped message's receipt handle; raises RequestError (INVALID_PARAMETER) if it lacks words or numbers."""
    words = text.split(" ")
    try:
        return Receipt(
            int(words[0]), int(words[1]), int(words[2]), int(words[3]),
            words[4], words[5], int(words[6]), int(words[7]) if len(words) > 7 else -1,
        )  # fmt: skip
    except (ValueError, IndexError):
        raise invalid_parameter(
            f"{as_given(text, 120)} is not a receipt handle; send the POP_CK of the message unchanged"
        ) from None


def kind_of(topic: str) -> str:
    """Return the kind of a popped topic: "0" for a normal one, "1" or "2" for retry topics (ExtraInfoUtil.getRetry)."""
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if "+" in topic else RETRY_V1


def real_topic(topic: str, group: str, kind: str) -> str:
    """Return the topic that contains a popped message, from the kind and the requested topic, which is no retry topic."""
    return topic if kind == NORMAL else pop_retry_topic(topic, group, is_v2=kind == RETRY_V2)


def encode_starts(starts: list[tuple[str, int, int]]) -> str:
    """Encode a pop answer's startOffsetInfo from (kind, queue, start offset) of each queue."""
    return ";".join([f"{kind} {queue_id} {start}" for kind, queue_id, start in starts])


def encode_offsets(queues: list[tuple[str, int, list[int]]]) -> str:
    """Encode a pop answer's msgOffsetInfo from (kind, queue, message offsets) of each queue."""
    return ";".join(
        [f"{kind} {queue_id} {_joined(offsets)}" for kind, queue_id, offsets in queues]
    )


def _joined(offsets: list[int]) -> str:
    """Join numbers with commas through orjson, which is several times as fast as str.join for many."""
    return orjson.dumps(offsets)[1:-1].decode()


def decode_starts(text: str) -> dict[tuple[str, int], int]:
    """Decode a pop answer's startOffsetInfo to start offsets by (kind, queue); raises CodecError if it is malformed."""
    starts = {}
    try:
        for part in text.split(";") if text else ():
            kind, queue_id, start = part.split(" ")
            starts[kind, int(queue_id)] = int(start)
    except ValueError:
        raise CodecError(f"startOffsetInfo {in_quotes(text, 120)} is not valid") from None
    return starts
