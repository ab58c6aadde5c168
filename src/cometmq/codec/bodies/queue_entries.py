"""Bounds and entries of a queue, and a group's subscription: the answer to QUERY_CONSUME_QUEUE 321.

Source: QueryConsumeQueueResponseBody and ConsumeQueueData of RocketMQ 5.3.3. CometMQ stores no filter bits, so `eval`
is false and `bitMap` is missing, as from a Java broker without enableCalcFilterBitMap.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from cometmq.codec import fastjson
from cometmq.codec.bodies.heartbeat import subscription_json
from cometmq.codec.queue_entry import QueueEntry
from cometmq.model.subscription import TAG, Subscription


class QueueLook(NamedTuple):
    """A part of a queue, with the subscription of a group.

    Attributes:
        min_offset: Queue offset of the queue's first entry.
        max_offset: Queue offset of the queue's next entry to be written.
        entries: Entries from the requested offset on, up to limits; empty if the queue has none at that offset.
        group: Group whose subscription was requested, or None.
        wanted: The group's subscription to the topic; None without a group or if none is known from its members.
    """

    min_offset: int
    max_offset: int
    entries: Sequence[QueueEntry]
    topic: str
    group: str | None = None
    wanted: Subscription | None = None


def encode_queue_look(look: QueueLook) -> bytes:
    """Encode the JSON body of the answer to QUERY_CONSUME_QUEUE 321."""
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
    """Return the SQL92 filter as JSON text, "null" for tags, or a remark without a subscription; None without a group."""
    wanted = look.wanted
    if look.group is None:
        return None
    if wanted is None:
        return f"{look.group}@{look.topic} is not online!"
    if wanted.kind == TAG:
        return "null"  # As fastjson writes null.
    shown: dict[str, Any] = {
        "consumerGroup": look.group,
        "expression": wanted.expression,
        "expressionType": wanted.kind,
        "topic": look.topic,
    }
    return fastjson.dumps(shown, pretty=True).decode()
