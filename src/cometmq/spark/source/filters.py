"""Use of a query's filters to read less: fewer queues, smaller offset ranges, and filtering by tag at the broker.

Spark applies every filter again, so a read may cover too much; it must never cover too little
(docs/design/0021-spark-source.md).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cometmq import ALL, Tag
from cometmq.connect import IndexedMessages
from cometmq.model.names import is_system_topic
from cometmq.model.properties import split_keys
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import trimmed
from cometmq.offline.conditions import LEAST, MOST, STORE_TIME_MARGIN_MS, Conditions
from cometmq.spark.source.cluster import SourceCluster, all_known
from cometmq.spark.source.planning import PlannedRange
from cometmq.spark.source.settings import SourceSettings

# Limits for ids or keys looked up in the index, and for tags in a subscription.
LOOKED_UP_MAX = 16
TAGS_MAX = 64

_LOOKED_UP = ("msgId", "keys")  # Both are indexed; an id is unique, so it comes first.


@dataclass(frozen=True)
class PushedFilters(Conditions):
    """Filters of a query that Spark pushed down to the batch source, as far as they help to read less."""

    def queues(self, queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        """Return the given queues whose topic, broker and queue id the query's filters allow."""
        low, high = self.bounds.get("queueId", (LEAST, MOST))
        return [
            queue
            for queue in queues
            if low <= queue.queue_id <= high
            and self.allows("topic", queue.topic)
            and self.allows("brokerName", queue.broker_name)
            and self.allows("queueId", queue.queue_id)
        ]

    def ranges(
        self, ranges: Sequence[PlannedRange], cluster: SourceCluster, *, is_index_asked: bool
    ) -> list[PlannedRange]:
        """Return the parts of `ranges` that may contain rows of the query, by offset, store time and, if asked, index.

        Raises CometError, for example BrokerNotFound, if a needed broker cannot be queried; if only its index cannot
        answer, the ranges are not narrowed by it.
        """
        low, high = self.span("queueOffset")
        parts = [
            replace(each, start=max(each.start, low), end=min(each.end, high + 1))
            for each in ranges
        ]
        timed = self._timed([each for each in parts if each.end > each.start], cluster)
        parts = [each for each in timed if each.end > each.start]
        return self._named(parts, cluster) if is_index_asked else parts

    def settings(self, settings: SourceSettings) -> SourceSettings:
        """Return settings that let the broker filter by the query's tags, or unchanged if that is not possible.

        Unchanged if the query selects no tags, more than `TAGS_MAX` (64) or one that brokers cannot filter by, or if
        the read has a filter of the user, a pattern of topics or a system topic.
        """
        tags = sorted(self.choices.get("tags", ()))
        if (
            settings.expression != ALL
            or not 0 < len(tags) <= TAGS_MAX
            or not all(map(_is_word, tags))
        ):
            return settings
        if settings.topics.pattern or any(map(is_system_topic, _names(settings))):
            # The delay topic stores a delivery time in place of the tag's hash, so filtering by tag would drop messages.
            return settings
        return replace(settings, expression=Tag(*tags))

    def _timed(
        self, parts: Sequence[PlannedRange], cluster: SourceCluster
    ) -> Sequence[PlannedRange]:
        """Limit ranges by the store times that the query accepts, with a margin."""
        low, high = self.span("storeTimestamp")
        queues = {each.queue for each in parts}
        starts: dict[MessageQueue, int] = {}
        ends: dict[MessageQueue, int] = {}
        if low > STORE_TIME_MARGIN_MS:
            times = dict.fromkeys(queues, low - STORE_TIME_MARGIN_MS)
            starts = all_known(cluster.offsets_by_time(times))
        if STORE_TIME_MARGIN_MS <= high < MOST - STORE_TIME_MARGIN_MS:
            times = dict.fromkeys(queues, high + STORE_TIME_MARGIN_MS + 1)
            ends = all_known(cluster.offsets_by_time(times))
        return [
            replace(
                each,
                start=max(each.start, starts.get(each.queue, each.start)),
                end=min(each.end, ends.get(each.queue, each.end)),
            )
            for each in parts
        ]

    def _named(
        self, parts: Sequence[PlannedRange], cluster: SourceCluster
    ) -> list[PlannedRange]:
        """Limit ranges to messages that brokers' indexes find or may lack, if the query selects up to 16 ids or keys.

        Returns the ranges unchanged if the index has no usable answer.
        """
        for column in _LOOKED_UP:
            words = self.choices.get(column, frozenset())
            if not 0 < len(words) <= LOOKED_UP_MAX:
                continue
            found = _looked_up(parts, words, cluster, is_id=column == "msgId")
            if found is not None:
                return found
        return list(parts)


def _looked_up(
    parts: Sequence[PlannedRange], words: Iterable[str], cluster: SourceCluster, *, is_id: bool
) -> list[PlannedRange] | None:
    """Look up keys or message ids in the brokers' indexes, and return the ranges of queue offsets to read.

    For each of `parts`, these are one range for each message found in the indexed portion, and one for the rest, if any,
    which may not be indexed yet. Returns None if the index has no usable answer for one of `words`, such as too many.

    Args:
        parts: Ranges of queue offsets that the query wants.
        words: Message ids if `is_id`, otherwise keys of messages.
        cluster: Queries the brokers.
        is_id: Whether `words` are message ids.
    """
    ranges: list[PlannedRange] = []
    for topic in sorted({each.queue.topic for each in parts}):
        # The column contains all keys of a message; the first is enough to find it.
        keys = [word if is_id else next(iter(split_keys(word)), "") for word in words]
        found = [cluster.indexed(topic, key, is_id=is_id) if key else None for key in keys]
        known = [each for each in found if each is not None]
        if len(known) < len(found):
            return None
        ours = [each for each in parts if each.queue.topic == topic]
        times = {each.queue: _indexed_until(each.queue, known) for each in ours}
        tails = all_known(cluster.offsets_by_time(times))
        for part in ours:
            ranges.extend(_places_in(part, known, tails[part.queue]))
    return ranges


def _indexed_until(queue: MessageQueue, known: Sequence[IndexedMessages]) -> int:
    """Return the time in ms since 1970 up to which the index of a queue's broker is trusted to be complete; 0 if unknown."""
    until_ms = min(each.until_ms.get(queue.broker_name, 0) for each in known)
    return max(until_ms - STORE_TIME_MARGIN_MS, 0)


def _places_in(
    part: PlannedRange, known: Sequence[IndexedMessages], tail: int
) -> Iterator[PlannedRange]:
    """Yield a range for each indexed message of `part` before `tail`, and one from `tail` on, perhaps not indexed."""
    tail = min(max(tail, part.start), part.end)
    places = {place for each in known for place in each.places}
    for offset in sorted(offset for queue, offset in places if queue == part.queue):
        if part.start <= offset < tail:
            yield PlannedRange(part.queue, offset, offset + 1)
    if tail < part.end:
        yield replace(part, start=tail)


def _is_word(tag: Any) -> bool:
    """Return whether a tag can be used in a broker's tag filter."""
    return isinstance(tag, str) and tag == trimmed(tag) != "*" and bool(tag) and "|" not in tag


def _names(settings: SourceSettings) -> Iterable[str]:
    return settings.topics.assignment or settings.topics.names
