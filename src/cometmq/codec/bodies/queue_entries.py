"""The answer to QUERY_CONSUME_QUEUE 321: bounds and entries of a queue, and the subscription of a group.

Source: QueryConsumeQueueResponseBody and ConsumeQueueData of RocketMQ 5.3.3. Entries carry no file of
filter bits here, so that `eval` is false and `bitMap` missing, as from a Java broker without
enableCalcFilterBitMap.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from cometmq.codec import fastjson
from cometmq.codec.bodies.heartbeat import subscription_json
from cometmq.codec.queue_entry import QueueEntry
from cometmq.model.subscription import TAG, Subscription


class QueueLook(NamedTuple):
    """A queue, or some of it.

    Attributes:
        min_offset: of its first entry.
        max_offset: what its next entry will get.
        entries: those that were asked for.
        topic: of the queue.
        group: whose subscription was asked for, too; None: nobody's.
        wanted: what the group wants of the topic; None: it has no member that does.
    """

    min_offset: int
    max_offset: int
    entries: Sequence[QueueEntry]
    topic: str
    group: str | None = None
    wanted: Subscription | None = None


def encode_queue_look(look: QueueLook) -> bytes:
    """The body of the answer to QUERY_CONSUME_QUEUE 321."""
    return fastjson.dumps(
        {
            "filterData": _filter_text(look),
            "maxQueueIndex": look.max_offset,
            "minQueueIndex": look.min_offset,
            "queueData": [
                {
                    "eval": False,
                    "physicOffset": entry.physical_offset,
                    "physicSize": entry.size,
                    "tagsCode": entry.tags_code,
                }
                for entry in look.entries
            ],
            "subscriptionData": None if look.wanted is None else subscription_json(look.wanted),
        }
    )


def _filter_text(look: QueueLook) -> str | None:
    """For people: the compiled filter of a group, which only SQL92 has."""
    wanted = look.wanted
    if look.group is None:
        return None
    if wanted is None:
        return f"{look.group}@{look.topic} is not online!"
    if wanted.kind == TAG:
        return "null"  # As fastjson writes that there is none.
    shown: dict[str, Any] = {
        "consumerGroup": look.group,
        "expression": wanted.expression,
        "expressionType": wanted.kind,
        "topic": look.topic,
    }
    return fastjson.dumps(shown, pretty=True).decode()
