"""Planning of a Spark read of topics: resolves the offsets to read and divides them into tasks."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from cometmq.model.errors import BrokerNotFound, NetError, SettingsError, TopicNotFound
from cometmq.model.queue import MessageQueue
from cometmq.model.text import in_quotes
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
from cometmq.spark.source.settings import RangeBound, SourceSettings, TopicChoice


@dataclass(frozen=True, slots=True, order=True)
class PlannedRange:
    """Offsets [start, end) of a queue, to be read."""

    queue: MessageQueue
    start: int
    end: int

    @property
    def rows(self) -> int:
        """Number of offsets in the range; it may yield fewer rows, for example with a filter."""
        return self.end - self.start


class RangesPartition(InputPartition):
    """Ranges that one Spark task reads in sequence."""

    def __init__(self, ranges: Sequence[PlannedRange]) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)

    def __repr__(self) -> str:
        ranges = ", ".join(f"{each.queue}[{each.start}, {each.end})" for each in self.ranges)
        return f"RangesPartition({ranges})"


def covered_queues(
    topics: TopicChoice, cluster: SourceCluster, *, held: AbstractSet[str] = frozenset()
) -> list[MessageQueue]:
    """Return the queues that a read covers now, sorted.

    Args:
        topics: Topics or queues to read.
        cluster: Cluster to query.
        held: Topics that may lack a route because an earlier batch has read them.

    Raises:
        TopicNotFound: A named topic has no route, and is not in `held`.
        SettingsError: An assigned queue does not exist; not raised if any topic is in `held`.
        CometError: The nameservers cannot be queried.
    """
    offered: list[MessageQueue] = []
    for topic, queues in cluster.queues(topics.wanted(cluster.topics)).items():
        if not isinstance(queues, TopicNotFound):
            offered.extend(queues)
        elif topic not in held and not topics.pattern:
            # A topic that matched the pattern but was deleted meanwhile is ignored.
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
                    f"assign: {where} has no readable queue {missing}; topic {in_quotes(topic)} has "
                    f"{shown(has) or 'none'}{slip(broker, has) if broker else ''}"
                )


def check_places(bound: RangeBound, queues: Sequence[MessageQueue]) -> None:
    """Raise SettingsError if the user's offsets or times name a queue that is not read, such as a misspelt one."""
    for values in (bound.by_timestamp, bound.offsets):
        if values is not None:
            values.check(queues)


def check_order(
    starting: RangeBound, ending: RangeBound, queues: Sequence[MessageQueue]
) -> None:
    """Raise SettingsError if the user's start of a queue is after the user's end, both times or both offsets."""
    for queue in queues:
        (start_ms, start), (end_ms, end) = starting.named(queue), ending.named(queue)
        if start_ms is not None and end_ms is not None and start_ms > end_ms:
            raise SettingsError(f"{queue}: start {start_ms} ms is after end {end_ms} ms")
        if start is not None and end is not None and start > end >= 0:
            raise SettingsError(f"{queue}: start offset {start} is after end offset {end}")


def resolve(
    bound: RangeBound, queues: Sequence[MessageQueue], cluster: SourceCluster
) -> Offsets:
    """Return by queue the offset at which a read of the queue starts or ends.

    Raises:
        SettingsError: A given or committed offset is invalid or beyond the queue's end, or a queue has no message as
            late as required.
        BrokerSilent: A broker cannot be reached.
        CometError: A broker refuses, its answer is invalid, or a topic has no route.
    """
    wanted = _wanted(bound, queues, cluster)
    times = {queue: at for queue, (at, _) in wanted.items() if at is not None}
    places = {queue: offset for queue, (at, offset) in wanted.items() if at is None}
    _check_numbers(places)
    at_time = _spoken(cluster.offsets_by_time(times), queues)
    first = _spoken(cluster.min_offsets(_those(places, EARLIEST)), queues)
    # The end is needed to check explicit offsets, and times that must not be too late.
    ending = [queue for queue, offset in places.items() if offset != EARLIEST]
    ending += () if bound.is_late_allowed else times
    ends = _spoken(cluster.max_offsets(ending, patient=True), queues)
    for queue, (at, offset) in wanted.items():
        if at is not None and queue in ends and at_time[queue] >= ends[queue]:
            raise SettingsError(
                f"{queue} has no message stored at or after {at} ms; startingOffsetsByTimestampStrategy=latest "
                "starts at its end"
            )
        if at is None and offset > ends.get(queue, offset):
            raise SettingsError(
                f"offset {offset} is beyond the end of {queue}, which is {ends[queue]}"
            )
    named = {EARLIEST: first, LATEST: ends}
    return {
        queue: at_time[queue] if at is not None else named.get(offset, places)[queue]
        for queue, (at, offset) in wanted.items()
    }


def _wanted(
    bound: RangeBound, queues: Sequence[MessageQueue], cluster: SourceCluster
) -> dict[MessageQueue, tuple[int | None, int]]:
    """Return for each queue the wanted time, or None and an offset, EARLIEST or LATEST; queries committed offsets."""
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
            raise SettingsError(
                f"{offset} is not an offset of {queue}; -2 means earliest, -1 means latest"
            )


def _spoken(
    answers: Answers[Value], queues: Sequence[MessageQueue]
) -> dict[MessageQueue, Value]:
    """Return the answers if there is one for each queue; raise BrokerSilent if a broker cannot be reached."""
    known: dict[MessageQueue, Value] = {}
    for queue, answer in answers.items():
        if isinstance(answer, NetError | BrokerNotFound):
            raise BrokerSilent(of_broker(queue.broker_name, queues), answer) from answer
        known[queue] = answer
    return known


def of_broker(name: str, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Return the queues that are on the broker `name`."""
    return [queue for queue in queues if queue.broker_name == name]


# Tolerance for clock differences: messages stored up to this long before a stream's start count as newer.
CLOCKS_MS = 1000


def late_of(bound: RangeBound, cluster: SourceCluster, now_ms: int) -> LateQueues | None:
    """Return where queues of brokers offline at a stream's first start will begin; None: at their oldest message."""
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
    """Return the start offsets of queues that did not exist or were offline when the stream first started.

    Args:
        queues: New queues.
        late: Start noted by the first batch for queues of brokers offline then; None for their oldest message. A queue
            of another broker is new, and begins at its oldest message.
        bound: Start that the user chose; its times and offsets for single queues or whole topics are used.
        cluster: Cluster to query.

    Raises:
        NetError, BrokerNotFound: A broker cannot be reached.
        CometError: A broker refuses, its answer is invalid, or a topic has no route.
    """
    begins: dict[MessageQueue, int | None] = dict.fromkeys(queues)  # None: from the start.
    away = [queue for queue in queues if late and queue.broker_name not in late.brokers]
    if late is not None:
        times, by_group = {}, []
        for queue in away:
            timestamp, offset = bound.named(queue)
            if timestamp is not None and bound.timestamp_ms is None:
                times[queue] = timestamp
            elif offset not in (None, LATEST):
                begins[queue] = None if offset == EARLIEST else offset
            elif late.at == COMMITTED:
                by_group.append(queue)
            else:
                times[queue] = late.at
        begins.update(all_known(cluster.committed_offsets(by_group)))
        begins.update(all_known(cluster.offsets_by_time(times)))
    first = [queue for queue, offset in begins.items() if offset is None]
    return {
        queue: offset
        for queue, offset in (begins | all_known(cluster.min_offsets(first))).items()
        if offset is not None
    }


def between(starts: Mapping[MessageQueue, int], ends: Offsets) -> list[PlannedRange]:
    """Return the non-empty ranges from `starts` to `ends`, sorted by queue."""
    return [
        PlannedRange(queue, starts[queue], end)
        for queue, end in sorted(ends.items())
        if end > starts[queue]
    ]


def share_out(waiting: Sequence[PlannedRange], rows_max: int | None) -> Offsets:
    """Return by queue where the next batch ends, so that it has about `rows_max` messages (None: all).

    Each queue gets a share in proportion to its waiting messages, but at least one message, so that a small queue
    next to a large one does not starve (like Spark's Kafka source).
    """
    total = sum(each.rows for each in waiting)
    if rows_max is None or total <= rows_max:
        return {each.queue: each.end for each in waiting}
    return {each.queue: each.start + max(rows_max * each.rows // total, 1) for each in waiting}


# Number of longest ranges from which the mean message size is estimated.
SIZED_RANGES = 4


def mean_size(waiting: Sequence[PlannedRange], cluster: SourceCluster) -> float | None:
    """Estimate the mean stored size in bytes of waiting messages from the longest ranges; None if it is unknown."""
    longest = sorted(waiting, key=lambda each: (-each.rows, each.queue))[:SIZED_RANGES]
    told = all_known(cluster.mean_sizes({each.queue: each.start for each in longest}))
    sizes = [(each.rows, told[each.queue]) for each in longest]
    known = [(rows, size) for rows, size in sizes if size is not None]
    rows = sum(rows for rows, _ in known)
    return sum(rows * size for rows, size in known) / rows if rows else None


def partitions(
    ranges: Sequence[PlannedRange], settings: SourceSettings
) -> list[RangesPartition]:
    """Divide ranges into Spark tasks: one per range, but long ranges are split and short ones joined, by the settings.

    With `minPartitions` none are joined. The order is fixed: a batch repeated with equal settings has the same tasks.
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
    """Split a range into `count` pieces of nearly equal length, but at least one, and none empty."""
    count = max(1, min(count, whole.rows))
    cuts = [whole.start + whole.rows * number // count for number in range(count + 1)]
    for start, end in pairwise(cuts):
        yield PlannedRange(whole.queue, start, end)


def _join(parts: Sequence[PlannedRange], rows_min: int) -> Iterable[list[PlannedRange]]:
    """Group consecutive ranges, also of different queues, so that each group but the last has at least `rows_min` offsets."""
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
