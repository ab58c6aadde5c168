"""Plans a read: the offsets that it covers, and its Spark tasks; arithmetic on ranges of queues."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from cometmq.model.errors import BrokerNotFound, NetError, SettingsError, TopicNotFound
from cometmq.model.queue import MessageQueue
from cometmq.spark.source.cluster import Answers, SourceCluster, Value, all_known
from cometmq.spark.source.missing import BrokerSilent
from cometmq.spark.source.offsets import (
    COMMITTED,
    EARLIEST,
    LATEST,
    LateQueues,
    Offsets,
    by_broker,
    shown,
    slip,
)
from cometmq.spark.source.settings import RangeBound, SourceSettings
from cometmq.spark.source.subscription import TopicChoice


@dataclass(frozen=True, slots=True, order=True)
class PlannedRange:
    """The messages [start, end) of a queue."""

    queue: MessageQueue
    start: int
    end: int

    @property
    def rows(self) -> int:
        """Offsets in the range; with a filter fewer rows come of it."""
        return self.end - self.start


class RangesPartition(InputPartition):
    """The ranges that one Spark task reads, one after the other."""

    def __init__(self, ranges: Sequence[PlannedRange]) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)

    def __repr__(self) -> str:
        ranges = ", ".join(f"{each.queue}[{each.start}, {each.end})" for each in self.ranges)
        return f"RangesPartition({ranges})"


def covered_queues(
    topics: TopicChoice, cluster: SourceCluster, *, held: AbstractSet[str] = frozenset()
) -> list[MessageQueue]:
    """The queues that a read covers now, in order.

    Args:
        topics: what is read.
        cluster: where.
        held: topics that may have no route, because the read knows them from before.

    Raises:
        TopicNotFound: a topic that was named is unknown.
        SettingsError: a queue that was assigned does not exist.
    """
    offered: list[MessageQueue] = []
    for topic, queues in cluster.queues(topics.wanted(cluster.topics)).items():
        if not isinstance(queues, TopicNotFound):
            offered.extend(queues)
        elif topic not in held and not topics.pattern:
            # A topic that matched and is gone by now is none that a pattern means.
            raise queues
    if topics.assignment is not None and not held:
        _check_assigned(topics, offered)
    return sorted(filter(topics.covers, offered))


def _check_assigned(topics: TopicChoice, offered: Sequence[MessageQueue]) -> None:
    for topic, brokers in (topics.assignment or {}).items():
        for broker, numbers in brokers.items():
            there = {
                queue.queue_id
                for queue in offered
                if queue.topic == topic and broker in (None, queue.broker_name)
            }
            missing = sorted(set(numbers) - there)
            if missing:
                where = f"{topic}@{broker}" if broker else topic
                has = by_broker(offered).get(topic, {})
                raise SettingsError(
                    f"assign: {where} has no readable queue {missing}; {topic!r} has "
                    f"{shown(has) or 'none'}{slip(broker, has) if broker else ''}"
                )


def check_places(bound: RangeBound, queues: Sequence[MessageQueue]) -> None:
    """Refuse offsets or times for queues that are not read: a misspelt name must not pass.

    Raises:
        SettingsError: naming them, and what there is.
    """
    for values in (bound.by_timestamp, bound.offsets):
        if values is not None:
            values.check(queues)


def check_order(
    starting: RangeBound, ending: RangeBound, queues: Sequence[MessageQueue]
) -> None:
    """Refuse a beginning behind the end, where the user named both.

    Raises:
        SettingsError: naming the queue and both places.
    """
    for queue in queues:
        (start_ms, start), (end_ms, end) = starting.named(queue), ending.named(queue)
        if start_ms is not None and end_ms is not None and start_ms > end_ms:
            raise SettingsError(
                f"{queue} would begin at {start_ms} ms and end before, at {end_ms} ms"
            )
        if start is not None and end is not None and start > end >= 0:
            raise SettingsError(
                f"{queue} would begin at offset {start} and end before, at {end}"
            )


def resolve(
    bound: RangeBound, queues: Sequence[MessageQueue], cluster: SourceCluster
) -> Offsets:
    """The offset at which each queue begins or ends.

    Raises:
        SettingsError: the user's JSON names an offset that is none, or a queue has no message as
            late as asked.
        BrokerSilent: a broker cannot be asked.
    """
    wanted = _wanted(bound, queues, cluster)
    times = {queue: at for queue, (at, _) in wanted.items() if at is not None}
    places = {queue: offset for queue, (at, offset) in wanted.items() if at is None}
    _check_numbers(places)
    at_time = _spoken(cluster.offsets_by_time(times), queues)
    first = _spoken(cluster.min_offsets(_those(places, EARLIEST)), queues)
    # An explicit offset is held against the end, and a time that must not be too late.
    ending = [queue for queue, offset in places.items() if offset != EARLIEST]
    ending += () if bound.is_late_allowed else times
    ends = _spoken(cluster.max_offsets(ending, patient=True), queues)
    for queue, (at, offset) in wanted.items():
        if at is not None and queue in ends and at_time[queue] >= ends[queue]:
            raise SettingsError(
                f"{queue} has no message stored at or after {at} ms; "
                "startingOffsetsByTimestampStrategy=latest begins at its end"
            )
        if at is None and offset > ends.get(queue, offset):
            raise SettingsError(
                f"offset {offset} lies beyond {queue}, which ends at {ends[queue]}"
            )
    named = {EARLIEST: first, LATEST: ends}
    return {
        queue: at_time[queue] if at is not None else named.get(offset, places)[queue]
        for queue, (at, offset) in wanted.items()
    }


def _wanted(
    bound: RangeBound, queues: Sequence[MessageQueue], cluster: SourceCluster
) -> dict[MessageQueue, tuple[int | None, int]]:
    """For each queue the time that is wanted of it, or else the offset, EARLIEST or LATEST."""
    wanted: dict[MessageQueue, tuple[int | None, int]] = {}
    for queue in queues:
        at, offset = bound.named(queue)
        wanted[queue] = at, bound.otherwise if offset is None else offset
    if bound.offsets is None:
        by_group = [queue for queue, want in wanted.items() if want == (None, COMMITTED)]
        committed = _spoken(cluster.committed_offsets(by_group), queues)
        for queue, offset in committed.items():
            wanted[queue] = None, EARLIEST if offset is None else offset
    return wanted


def _those(places: Mapping[MessageQueue, int], offset: int) -> list[MessageQueue]:
    return [queue for queue, each in places.items() if each == offset]


def _check_numbers(places: Mapping[MessageQueue, int]) -> None:
    for queue, offset in places.items():
        if offset < 0 and offset not in (EARLIEST, LATEST):
            raise SettingsError(f"{offset} is no offset of {queue}; -2 is earliest, -1 latest")


def _spoken(
    answers: Answers[Value], queues: Sequence[MessageQueue]
) -> dict[MessageQueue, Value]:
    """The answers.

    Raises:
        BrokerSilent: there is none for one of the queues.
    """
    known: dict[MessageQueue, Value] = {}
    for queue, answer in answers.items():
        if isinstance(answer, NetError | BrokerNotFound):
            raise BrokerSilent(of_broker(queue.broker_name, queues), answer) from answer
        known[queue] = answer
    return known


def of_broker(name: str, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """The queues of one broker."""
    return [queue for queue in queues if queue.broker_name == name]


# Messages stored so long before a stream's start count as newer: clocks differ.
CLOCKS_MS = 1000


def late_of(bound: RangeBound, cluster: SourceCluster, now_ms: int) -> LateQueues | None:
    """The beginning of queues of brokers that are away at the start; None: at their oldest message."""
    at = bound.timestamp_ms
    if at is None and bound.otherwise == LATEST:
        at = now_ms - CLOCKS_MS
    if at is None and bound.otherwise == COMMITTED:
        at = COMMITTED
    return None if at is None else LateQueues(at, tuple(cluster.brokers()))


def begin_late(
    queues: Sequence[MessageQueue],
    late: LateQueues | None,
    bound: RangeBound,
    cluster: SourceCluster,
) -> Offsets:
    """The beginnings of queues that were not there when the stream first started.

    Args:
        queues: those that are new.
        late: what the first start noted.
        bound: what the user named, for queues one by one.
        cluster: where they are.

    Raises:
        NetError, BrokerNotFound: a broker cannot be asked.
    """
    begins: dict[MessageQueue, int | None] = dict.fromkeys(queues)  # None: at its beginning.
    away = [queue for queue in queues if late and queue.broker_name not in late.brokers]
    if late is not None and late.at == COMMITTED:
        begins.update(all_known(cluster.committed_offsets(away)))
    elif late is not None:
        times = {}
        for queue in away:
            timestamp, offset = bound.named(queue)
            if offset in (None, LATEST):
                is_own = timestamp is not None and bound.timestamp_ms is None
                times[queue] = timestamp if is_own and timestamp is not None else late.at
        begins.update(all_known(cluster.offsets_by_time(times)))
    first = [queue for queue, offset in begins.items() if offset is None]
    return {
        queue: offset
        for queue, offset in (begins | all_known(cluster.min_offsets(first))).items()
        if offset is not None
    }


def between(starts: Mapping[MessageQueue, int], ends: Offsets) -> list[PlannedRange]:
    """The non-empty ranges from `starts` to `ends`, in order of their queues."""
    return [
        PlannedRange(queue, starts[queue], end)
        for queue, end in sorted(ends.items())
        if end > starts[queue]
    ]


def share_out(waiting: Sequence[PlannedRange], rows_max: int | None) -> Offsets:
    """The end of each queue in the next batch, so that about `rows_max` messages come in all.

    Each queue gets a share as large as its part of what waits, at least one message: a small queue
    beside a large one must not starve (as Spark's Kafka source does it). None: all that waits.
    """
    total = sum(each.rows for each in waiting)
    if rows_max is None or total <= rows_max:
        return {each.queue: each.end for each in waiting}
    return {each.queue: each.start + max(rows_max * each.rows // total, 1) for each in waiting}


# So many of the longest ranges are asked what a message of theirs takes.
SIZED_RANGES = 4


def mean_size(waiting: Sequence[PlannedRange], cluster: SourceCluster) -> float | None:
    """About the bytes of a stored message that waits; None where nobody can tell."""
    longest = sorted(waiting, key=lambda each: (-each.rows, each.queue))[:SIZED_RANGES]
    told = all_known(cluster.mean_sizes({each.queue: each.start for each in longest}))
    sizes = [(each.rows, told[each.queue]) for each in longest]
    known = [(rows, size) for rows, size in sizes if size is not None]
    rows = sum(rows for rows, _ in known)
    return sum(rows * size for rows, size in known) / rows if rows else None


def partitions(
    ranges: Sequence[PlannedRange], settings: SourceSettings
) -> list[RangesPartition]:
    """The tasks that read these ranges: one a queue, long ones split, short ones joined.

    The order is fixed, so a batch that is run again has the same tasks.
    """
    parts = list(ranges)
    if settings.partition_rows_max is not None:
        longest = settings.partition_rows_max
        parts = [piece for each in parts for piece in _split(each, -(-each.rows // longest))]
    if settings.partitions_min is None:
        return [RangesPartition(group) for group in _join(parts, settings.task_rows_min)]
    if len(parts) < settings.partitions_min:
        total = sum(each.rows for each in parts)
        parts = [
            piece
            for each in parts
            for piece in _split(each, round(settings.partitions_min * each.rows / total))
        ]
    return [RangesPartition([part]) for part in parts]


def _split(whole: PlannedRange, count: int) -> Iterable[PlannedRange]:
    """`count` pieces of nearly the same length."""
    count = max(1, min(count, whole.rows))
    cuts = [whole.start + whole.rows * number // count for number in range(count + 1)]
    for start, end in pairwise(cuts):
        yield PlannedRange(whole.queue, start, end)


def _join(parts: Sequence[PlannedRange], rows_min: int) -> Iterable[list[PlannedRange]]:
    """Neighbours together until each group but the last has `rows_min` messages."""
    group: list[PlannedRange] = []
    rows = 0
    for part in parts:
        group.append(part)
        rows += part.rows
        if rows >= rows_min:
            yield group
            group, rows = [], 0
    if group:
        yield group
