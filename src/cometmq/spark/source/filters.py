"""What a query's filters spare a read: queues, offsets, and messages that the broker need not send.

Spark checks every filter again, so a narrowing may be too wide; it must never be too narrow. What is
not understood here narrows nothing (docs/design/0021-spark-source.md).

Next: cometmq.spark.source.planning
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from cometmq.model.names import is_system_topic
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import ALL
from cometmq.spark.source.cluster import Indexed, SourceCluster
from cometmq.spark.source.planning import QueueRange
from cometmq.spark.source.settings import SourceSettings

# Store times ascend, but for a clock that was set back: NTP steps by seconds.
STORE_TIME_MARGIN_MS = 60_000
# Ids or keys that are looked up one by one, and tags that a subscription names.
LOOKED_UP_MAX = 16
TAGS_MAX = 64

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_LOOKED_UP = ("msgId", "keys")  # The first is unique; both have an index.

Bounds = tuple[int, int]
"""A closed range."""


@dataclass(frozen=True)
class Narrowing:
    """What the rows of a query have in common.

    Attributes:
        choices: column -> the values of which it has one.
        bounds: column -> the closed range in which it lies; store times as ms since 1970.
    """

    choices: Mapping[str, frozenset[Any]] = field(default_factory=dict)
    bounds: Mapping[str, Bounds] = field(default_factory=dict)

    @classmethod
    def of(cls, filters: Iterable[Filter]) -> "Narrowing":
        """From the filters that all hold."""
        return reduce(cls._and, filters, cls())

    def queues(self, queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        """Those that may have rows of the query."""
        low, high = self.bounds.get("queueId", (_LEAST, _MOST))
        return [
            queue
            for queue in queues
            if low <= queue.queue_id <= high
            and self._allows("topic", queue.topic)
            and self._allows("brokerName", queue.broker_name)
            and self._allows("queueId", queue.queue_id)
        ]

    def ranges(
        self, ranges: Sequence[QueueRange], cluster: SourceCluster, *, is_index_asked: bool
    ) -> list[QueueRange]:
        """The parts of `ranges` that may have rows of the query."""
        low, high = self._span("queueOffset")
        parts = [
            replace(each, start=max(each.start, low), end=min(each.end, high + 1))
            for each in ranges
        ]
        timed = [self._timed(each, cluster) for each in parts if each.end > each.start]
        parts = [each for each in timed if each.end > each.start]
        return self._named(parts, cluster) if is_index_asked else parts

    def settings(self, settings: SourceSettings) -> SourceSettings:
        """With the tags of the query as what the broker sends, where the user asked for all."""
        tags = sorted(self.choices.get("tags", ()))
        is_all = type(settings.expression) is str and settings.expression.strip() in ("", ALL)
        if not is_all or not 0 < len(tags) <= TAGS_MAX or not all(map(_is_word, tags)):
            return settings
        if settings.topics.pattern or any(map(is_system_topic, _names(settings))):
            # Where the delay topic has the tag's hash in other topics, it has a time.
            return settings
        return replace(settings, expression=" || ".join(tags))

    def _allows(self, column: str, value: Any) -> bool:
        return column not in self.choices or value in self.choices[column]

    def _and(self, other: Filter) -> "Narrowing":
        path: Sequence[str] = getattr(other, "attribute", ())
        column = path[0] if len(path) == 1 else ""
        low: int | None = _LEAST
        high: int | None = _MOST
        match other:
            case EqualTo(_, value):
                return self._one_of(column, (value,))
            case In(_, values):
                return self._one_of(column, values)
            case GreaterThan(_, int(value)):
                low = value + 1
            case LessThan(_, int(value)):
                high = value - 1
            case GreaterThan(_, value) | GreaterThanOrEqual(_, value):
                low = _number(value)
            case LessThan(_, value) | LessThanOrEqual(_, value):
                high = _number(value)
        return self._between(column, low, high)

    def _one_of(self, column: str, values: Iterable[Any]) -> "Narrowing":
        given = frozenset(value for value in values if value is not None)
        allowed = given & self.choices[column] if column in self.choices else given
        return replace(self, choices={**self.choices, column: allowed})

    def _between(self, column: str, low: int | None, high: int | None) -> "Narrowing":
        if low is None or high is None:
            return self
        known_low, known_high = self.bounds.get(column, (_LEAST, _MOST))
        bounds = max(low, known_low), min(high, known_high)
        return replace(self, bounds={**self.bounds, column: bounds})

    def _span(self, column: str) -> Bounds:
        """From the least to the greatest number that a column may have."""
        low, high = self.bounds.get(column, (_LEAST, _MOST))
        numbers = [_number(value) for value in self.choices.get(column, ())]
        known = [number for number in numbers if number is not None]
        if column in self.choices and len(known) == len(numbers):
            return max(low, min(known, default=_MOST)), min(high, max(known, default=_LEAST))
        return low, high

    def _timed(self, part: QueueRange, cluster: SourceCluster) -> QueueRange:
        """The part of a range that was stored when the query wants it."""
        low, high = self._span("storeTimestamp")
        start, end = part.start, part.end
        if low > STORE_TIME_MARGIN_MS:
            start = cluster.offset_by_time(part.queue, low - STORE_TIME_MARGIN_MS)
        if STORE_TIME_MARGIN_MS <= high < _MOST - STORE_TIME_MARGIN_MS:
            end = cluster.offset_by_time(part.queue, high + STORE_TIME_MARGIN_MS + 1)
        return replace(part, start=max(part.start, start), end=min(part.end, end))

    def _named(self, parts: Sequence[QueueRange], cluster: SourceCluster) -> list[QueueRange]:
        """The offsets that the index names, where the query wants certain ids or keys."""
        for column in _LOOKED_UP:
            words = self.choices.get(column, frozenset())
            if not 0 < len(words) <= LOOKED_UP_MAX:
                continue
            found = _looked_up(parts, words, cluster, is_id=column == "msgId")
            if found is not None:
                return found
        return list(parts)


def _looked_up(
    parts: Sequence[QueueRange], words: Iterable[str], cluster: SourceCluster, *, is_id: bool
) -> list[QueueRange] | None:
    """One range for each message that the index names, and what it does not cover yet.

    None: it is not to be believed.
    """
    ranges: list[QueueRange] = []
    for topic in sorted({each.queue.topic for each in parts}):
        # A column has all keys, with blanks between: the first is enough to find it.
        keys = [word if is_id else (word.split() or [""])[0] for word in words]
        found = [cluster.indexed(topic, key, is_id=is_id) if key else None for key in keys]
        known = [each for each in found if each is not None]
        if len(known) < len(found):
            return None
        for part in parts:
            if part.queue.topic == topic:
                ranges.extend(_places_in(part, known, cluster))
    return ranges


def _places_in(
    part: QueueRange, known: Sequence[Indexed], cluster: SourceCluster
) -> Iterator[QueueRange]:
    """The places that lie in a range, and its end that the index may not cover yet."""
    until_ms = min(each.until_ms.get(part.queue.broker_name, 0) for each in known)
    tail = cluster.offset_by_time(part.queue, max(until_ms - STORE_TIME_MARGIN_MS, 0))
    tail = min(max(tail, part.start), part.end)
    places = {place for each in known for place in each.places}
    for offset in sorted(offset for queue, offset in places if queue == part.queue):
        if part.start <= offset < tail:
            yield QueueRange(part.queue, offset, offset + 1)
    if tail < part.end:
        yield replace(part, start=tail)


def _number(value: Any) -> int | None:
    """A bound as a number: a whole number, or a time in ms, rounded down; None for others."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - _EPOCH) // timedelta(milliseconds=1)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_word(tag: Any) -> bool:
    """Whether a tag can stand in an expression."""
    return isinstance(tag, str) and tag == tag.strip() != ALL and bool(tag) and "|" not in tag


def _names(settings: SourceSettings) -> Iterable[str]:
    return settings.topics.assignment or settings.topics.names
