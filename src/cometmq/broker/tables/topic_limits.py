"""Parses a topic's `retention.*` attributes (limits in hours, messages, bytes) and finds the first message they keep.

These attributes are CometMQ's own. The log is shared, so these limits delete nothing: the queue's min offset is raised,
and consumers before it are moved to it (docs/design/0007).
"""

from collections.abc import Mapping
from typing import NamedTuple

from cometmq.broker.tables.byte_quota import ByteQuotas
from cometmq.model.errors import RequestError, invalid_parameter
from cometmq.model.numbers import whole_number
from cometmq.model.topic import TopicConfig
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.message_store import MessageStore

HOURS = "retention.hours"
COUNT = "retention.count"
BYTES = "retention.bytes"

_HOUR_MS = 3_600_000


class TopicLimits(NamedTuple):
    """The limits of one topic for the messages that consumers see, from its `retention.*` attributes.

    Attributes:
        hours: Messages stored longer ago are hidden; None: no limit.
        message_count: Largest number of visible messages per queue; None: no limit.
        size: Largest size of a queue's visible records in bytes, except that the newest stays; None: no limit.
    """

    hours: int | None
    message_count: int | None
    size: int | None = None


def limits_of(attributes: Mapping[str, str]) -> TopicLimits | None:
    """Return the `TopicLimits` in a topic's attributes, or None without a `retention.*` attribute.

    Raises RequestError if a value is not a whole number of at least 1 and at most 18 digits.
    """
    limits = TopicLimits(
        _number(attributes, HOURS), _number(attributes, COUNT), _number(attributes, BYTES)
    )
    return None if limits == TopicLimits(None, None) else limits


def _number(attributes: Mapping[str, str], name: str) -> int | None:
    text = attributes.get(name)
    if text is None:
        return None
    number = whole_number(text)
    if not number:
        raise invalid_parameter(
            f"attribute {name}={text}: write a whole number of at least 1, or -{name} for no limit"
        )
    return number


def limited_topics(topics: Mapping[str, TopicConfig]) -> list[tuple[str, TopicLimits]]:
    """Return (name, limits) of the topics with `retention.*` limits; topics with an invalid value are left out."""
    found = []
    for name, config in topics.items():
        if config.attributes:
            try:
                limits = limits_of(config.attributes)
            except RequestError:
                continue
            if limits is not None:
                found.append((name, limits))
    return found


def first_kept(
    store: MessageStore,
    queue: ConsumeQueue,
    limits: TopicLimits,
    *,
    now_ms: int,
    quotas: ByteQuotas,
) -> int:
    """Return the queue offset of the first message that the limits keep; the max offset if all are too old.

    May wait for the disk.
    """
    first = queue.min_offset
    if limits.message_count is not None:
        first = max(first, queue.max_offset - limits.message_count)
    if limits.hours is not None:
        first = max(first, store.offset_by_time(queue, now_ms - limits.hours * _HOUR_MS))
    if limits.size is not None:
        first = max(first, quotas.first_kept(queue, limits.size))
    return first
