"""Receipt handles of popped messages (property POP_CK), and the texts that they are made of.

A handle has eight words with blanks between:

| start offset | time of the pop, ms | invisible time, ms | revive queue | kind of topic | broker | queue | queue offset |

The kind is 0 for the topic itself, 1 and 2 for its retry topics (`%RETRY%group_topic` and
`%RETRY%group+topic`). An answer to a pop has, for each queue, `kind queue start` in startOffsetInfo
and `kind queue offset,offset` in msgOffsetInfo, joined by semicolons. Source: ExtraInfoUtil of
RocketMQ 5.3.3; docs/format/pop.md.
"""

from typing import NamedTuple

import orjson

from cometmq.model.codes import ResponseCode
from cometmq.model.errors import CodecError, RequestError
from cometmq.model.names import RETRY_PREFIX, pop_retry_topic

ORDER_QUEUE = 999  # KeyBuilder.POP_ORDER_REVIVE_QUEUE: popped in order, no check point.
NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"


class Receipt(NamedTuple):
    """A handle.

    Attributes:
        start_offset: where the pop of this queue began.
        pop_time_ms: when.
        invisible_ms: how long the message is hidden.
        revive_queue: where the check point is, or ORDER_QUEUE.
        kind: NORMAL, RETRY_V1 or RETRY_V2.
        broker_name: who gave it.
        queue_id: of the message.
        queue_offset: of the message; of an order to the queue, where it is left out, -1.
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
        """The handle as it is sent."""
        return " ".join(map(str, self))


def parse_receipt(text: str) -> Receipt:
    """The handle in a text.

    Raises:
        RequestError: INVALID_PARAMETER: it is none.
    """
    words = text.split(" ")
    try:
        return Receipt(
            int(words[0]), int(words[1]), int(words[2]), int(words[3]),
            words[4], words[5], int(words[6]), int(words[7]) if len(words) > 7 else -1,
        )  # fmt: skip
    except (ValueError, IndexError):
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"{text!r:.120} is no receipt handle; send the POP_CK of the message as it came",
        ) from None


def kind_of(topic: str) -> str:
    """The kind of a topic that is popped (ExtraInfoUtil.getRetry)."""
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if "+" in topic else RETRY_V1


def real_topic(topic: str, group: str, kind: str) -> str:
    """The topic in which a message lay, from the one that was asked for."""
    return topic if kind == NORMAL else pop_retry_topic(topic, group, is_v2=kind == RETRY_V2)


def encode_starts(starts: list[tuple[str, int, int]]) -> str:
    """The startOffsetInfo of (kind, queue, start) of each queue."""
    return ";".join([f"{kind} {queue_id} {start}" for kind, queue_id, start in starts])


def encode_offsets(queues: list[tuple[str, int, list[int]]]) -> str:
    """The msgOffsetInfo of (kind, queue, offsets) of each queue."""
    return ";".join(
        [f"{kind} {queue_id} {_joined(offsets)}" for kind, queue_id, offsets in queues]
    )


def _joined(offsets: list[int]) -> str:
    """Numbers with commas between, as JSON has them, whose writer takes a tenth of the time of texts that are joined."""
    return orjson.dumps(offsets)[1:-1].decode()


def decode_starts(text: str) -> dict[tuple[str, int], int]:
    """The start of each (kind, queue).

    Raises:
        CodecError: it means nothing.
    """
    starts = {}
    try:
        for part in text.split(";") if text else ():
            kind, queue_id, start = part.split(" ")
            starts[kind, int(queue_id)] = int(start)
    except ValueError:
        raise CodecError(f"startOffsetInfo {text!r:.120} means nothing") from None
    return starts
