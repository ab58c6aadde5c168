"""The streaming source: which offsets a micro-batch covers, kept durable by Spark's checkpoint.

Spark holds one instance in a process of the driver for the whole query, which plans; `read` runs
in the executors on what was pickled of it. The promise: every message between the first start and
the last committed end is in exactly one micro-batch, and a batch that is run again has the same
messages in the same tasks.
"""

# ruff: noqa: N802  Spark gives these names.

import logging
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from cometmq.client import SystemClock
from cometmq.model.errors import CometError, NetError, TopicNotFound
from cometmq.model.queue import MessageQueue
from cometmq.spark.schema import arrow_schema
from cometmq.spark.source import planning
from cometmq.spark.source.client_cluster import source_cluster
from cometmq.spark.source.cluster import all_known
from cometmq.spark.source.loss import RowLosses
from cometmq.spark.source.missing import (
    BrokerSilent,
    check_missing,
    missing_by_broker,
    missing_queues,
    warn_of_missing,
)
from cometmq.spark.source.offsets import INITIAL, Json, Offsets, StreamOffset
from cometmq.spark.source.options import AdmittedBy
from cometmq.spark.source.planning import PlannedRange, RangesPartition
from cometmq.spark.source.pull import RangePuller
from cometmq.spark.source.same_queue import stored_before
from cometmq.spark.source.settings import SourceSettings
from cometmq.spark.source.store_time_ends import StoreTimeEnds

log = logging.getLogger(__name__)


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans and reads micro-batches.

    Args:
        settings: the options.
        schema: the columns to read.
    """

    def __init__(self, settings: SourceSettings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema
        self._is_bounded = False  # An AvailableNow query,
        self._target: Offsets | None = None  # and where it stops.
        self._latest: Offsets = {}
        self._silent: set[str] = set()  # Brokers that did not answer when last asked.
        self._left_out: set[MessageQueue] = set()  # Of a bounded run, and said.
        self._tried: Offsets = {}  # What the group was told last,
        self._told: Offsets = {}  # and what it has stored.
        self._waits_since: float | None = None
        self._store_time_ends = StoreTimeEnds()
        self._is_compared = False  # All queues with those that the checkpoint knows.
        self._losses = RowLosses(is_failure=settings.fail_on_data_loss)

    def initialOffset(self) -> Json:
        """Before the first message; the first end offset says where that is."""
        return dict(INITIAL)

    def getDefaultReadLimit(self) -> ReadLimit:
        """The most messages or bytes of a micro-batch; Spark knows one limit, the source both."""
        rows_max, bytes_max = (
            self._settings.trigger_rows_max,
            self._settings.trigger_bytes_max,
        )
        if rows_max is not None:
            return ReadMaxRows(rows_max)
        return ReadAllAvailable() if bytes_max is None else ReadMaxBytes(bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """Note where the queues end now; the query stops there."""
        self._is_bounded = True
        try:
            target = self._fetch_latest(StreamOffset({}))
            self._check_missing(target)
            self._target = target
        except (TopicNotFound, NetError) as error:
            # The checkpoint may know the topic or the broker that is missing: asked again with it.
            log.warning("where the queues end is not known yet: %s", error)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit | None = None) -> Json:
        """The end of the next micro-batch; the start itself when there is nothing to read."""
        known = StreamOffset.from_json(start)
        self._tell_group(known)
        try:
            return self._next_end(start, known, limit)
        except NetError as error:
            # Nobody looks at a first batch or a bounded run again: they must not end early.
            if known.is_initial or self._is_bounded:
                raise
            log.warning("the stream waits, who answered a moment ago is gone: %s", error)
            return start

    def _next_end(self, start: Json, known: StreamOffset, limit: ReadLimit | None) -> Json:
        self._latest = self._fetch_latest(known) if self._target is None else self._target
        if self._is_bounded and self._target is None:
            self._check_missing(self._latest)
            self._target = self._latest
        elif known.is_initial and not self._is_bounded:
            self._check_missing(self._latest)
        late = known.late
        if known.is_initial:
            late = planning.late_of(
                self._settings.starting, source_cluster(self._settings), SystemClock().now_ms()
            )
        latest = self._settled(known.ends)
        begins = {**self._begins(known), **self._begun_anew(known, latest)}
        starts = {**known.ends, **begins}
        waiting = planning.between(starts, latest)
        is_news = known.is_initial or bool(begins)
        if not is_news and not self._is_enough(waiting):
            return start
        # A queue that went back, where that is allowed, stands at its new and lower end.
        ends = {queue: min(offset, latest[queue]) for queue, offset in starts.items()}
        ends |= self._limited(waiting, self._rows_max(limit, waiting))
        if not is_news and ends == known.ends:
            return start
        stored = self._stored(known, ends, begins)
        return StreamOffset(ends, begins, late=late, stored=stored).to_json()

    def reportLatestOffset(self) -> Json | None:
        """The ends of the queues when last asked: Spark shows the lag by them."""
        return StreamOffset(self._latest).to_json() if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks that read from `start` to `end`."""
        until = StreamOffset.from_json(end)
        starts = {**StreamOffset.from_json(start).ends, **until.begins}
        ranges = planning.between(starts, until.ends)
        tasks: list[InputPartition] = list(planning.partitions(ranges, self._settings))
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a task, in an executor."""
        if not isinstance(partition, RangesPartition):
            return iter(())
        reader = RangePuller(
            source_cluster(self._settings), self._settings, arrow_schema(self._schema)
        )
        return reader.batches(partition.ranges)

    def commit(self, end: dict[str, Any]) -> None:
        """Tell the consumer group, if it does not know yet; the checkpoint holds the offsets.

        Spark says so of each batch when it begins the next one, so never of the last one, and kills
        the process without a word at the end of a query. But it plans from the end of a batch only
        when that batch is done, also when nothing follows: then the group is told.
        """
        self._tell_group(StreamOffset.from_json(end), is_again=True)

    def _tell_group(self, done: StreamOffset, *, is_again: bool = False) -> None:
        """Store the offsets up to which all is done, each time once, or again where that failed."""
        ends = done.ends
        if not self._settings.is_committing or not ends or ends == self._told:
            return
        if ends == self._tried and not is_again:
            return
        self._tried = ends
        try:
            source_cluster(self._settings).commit(ends)
            self._told = ends
        except CometError as error:
            log.warning("the group %r does not know: %s", self._settings.group, error)

    def stop(self) -> None:
        """Nothing to do: connections belong to the process and close with it."""

    def _fetch_latest(self, known: StreamOffset) -> Offsets:
        cluster = source_cluster(self._settings)
        held = {queue.topic for queue in known.ends}
        try:
            queues = planning.covered_queues(self._settings.topics, cluster, held=held)
        except NetError as error:
            if not known.ends:
                raise
            log.warning("no nameserver answers; the known queues go on: %s", error)
            queues = list(known.ends)
        latest: Offsets = {}
        self._silent = set()
        for queue, offset in cluster.max_offsets(queues).items():
            if isinstance(offset, int):
                latest[queue] = offset
                continue
            # A queue that is not known yet is found again by a running stream, and only by it.
            if queue not in known.ends and (self._is_bounded or not known.ends):
                raise BrokerSilent(planning.of_broker(queue.broker_name, queues), offset)
            log.warning("%s waits: %s", queue, offset)
            self._silent.add(queue.broker_name)
        return latest

    def _check_missing(self, there: Offsets) -> None:
        """A run that ends must not leave out in silence what a broker has that is away."""
        found = missing_queues(self._settings, list(there), source_cluster(self._settings))
        if self._is_bounded:
            check_missing(found, self._settings)
        else:
            warn_of_missing(found)

    def _begins(self, known: StreamOffset) -> Offsets:
        """The beginnings of the queues that `known` does not hold.

        The first time by the user's choice. A queue that appears later was empty before, so it is
        read from its beginning, unless its broker was away.
        """
        cluster = source_cluster(self._settings)
        new = [queue for queue in self._latest if queue not in known.ends]
        if known.is_initial:
            planning.check_places(self._settings.starting, new)
            begins = planning.resolve(self._settings.starting, new, cluster)
            # A queue that has grown since its end was asked for does not begin behind it.
            return {queue: min(begin, self._latest[queue]) for queue, begin in begins.items()}
        starting = self._settings.starting
        return planning.begin_late(new, known.late, starting, cluster)

    def _settled(self, known: Offsets) -> Offsets:
        """The latest offsets, also of queues that are not there or went back."""
        latest = dict(self._latest)
        missing = [queue for queue in known if queue not in latest]
        if missing:
            self._report_missing(known, missing)
        for queue, offset in known.items():
            # A missing queue waits where it is until its broker is back.
            if latest.setdefault(queue, offset) < offset:
                self._losses.report(
                    f"{queue} went back from offset {offset} to {latest[queue]}: a replica without "
                    "its last messages took over, or the topic was deleted and made again",
                    offset - latest[queue],
                )
        return latest

    def _stored(self, known: StreamOffset, ends: Offsets, begins: Offsets) -> Offsets:
        """Return when the message before each end was stored; a queue that did not move keeps its time."""
        moved = {
            queue: end
            for queue, end in ends.items()
            if queue in begins or end != known.ends[queue]
        }
        kept = {queue: at for queue, at in known.stored.items() if queue not in moved}
        return kept | stored_before(moved, source_cluster(self._settings))

    def _begun_anew(self, known: StreamOffset, latest: Offsets) -> Offsets:
        """Return where queues begin that are others than those of the checkpoint.

        The first plan compares all queues: a queue that was made again may have as many messages as before.
        """
        compared = {
            queue: known.ends[queue]
            for queue in known.stored
            if queue in self._latest
            and (not self._is_compared or latest[queue] > known.ends[queue])
        }
        self._is_compared = True
        cluster = source_cluster(self._settings)
        found = stored_before(compared, cluster)
        others = {
            each: known.stored[each] for each in found if found[each] != known.stored[each]
        }
        # Of a replica that lacks the last messages the earlier ones have been read.
        begins = all_known(
            cluster.offsets_by_time({each: at + 1 for each, at in others.items()})
        )
        for queue, begin in begins.items():
            self._losses.report(
                f"{queue} holds another message at offset {known.ends[queue] - 1} than the one that was read there: the topic "
                "was deleted and made again, the broker came back with an empty disk, or a replica without the last messages "
                f"took over; what was stored since begins at offset {begin}",
                0,
            )
        return begins

    def _report_missing(self, known: Offsets, queues: list[MessageQueue]) -> None:
        """A broker that is down comes back with its messages; a deleted queue does not."""
        gone = self._gone([each for each in queues if each.broker_name not in self._silent])
        if self._is_bounded:
            must = self._settings.brokers
            away = {
                queue
                for queue in set(queues).difference(gone, self._left_out)
                if not must or queue.broker_name in must
            }
            why = "the checkpoint knows it, and it does not answer or is not registered"
            check_missing(missing_by_broker(sorted(away), why), self._settings)
            self._left_out |= away
        for queue in queues:
            if queue in gone:
                # How many were behind the offset nobody knows any more.
                self._losses.report(
                    f"{queue} does not exist any more; it was read up to offset {known[queue]}",
                    0,
                )
            else:
                log.warning("%s waits: its broker does not answer or is not registered", queue)

    def _gone(self, queues: Sequence[MessageQueue]) -> Sequence[MessageQueue]:
        """The queues whose brokers are registered without them."""
        cluster = source_cluster(self._settings)
        registered = cluster.brokers() if queues else ()
        gone = [queue for queue in queues if queue.broker_name in registered]
        if not gone:
            return gone
        # A broker that has come back since the queues were asked for brought them with it.
        held = {queue.topic for queue in gone}
        there = planning.covered_queues(self._settings.topics, cluster, held=held)
        return [queue for queue in gone if queue not in there]

    def _limited(self, waiting: Sequence[PlannedRange], rows_max: int | None) -> Offsets:
        """The ends, in the next batch, of the queues that have messages."""
        if self._settings.admission is AdmittedBy.OFFSETS:
            return planning.share_out(waiting, rows_max)
        cluster = source_cluster(self._settings)
        return self._store_time_ends.choose(waiting, rows_max, cluster)

    def _rows_max(self, limit: ReadLimit | None, waiting: Sequence[PlannedRange]) -> int | None:
        """The most messages of a batch: by the option, by Spark's limit, and by their bytes."""
        settings = self._settings
        rows = [settings.trigger_rows_max] if settings.trigger_rows_max is not None else []
        if isinstance(limit, ReadMaxRows):
            rows.append(limit.max_rows)
        bytes_max = settings.trigger_bytes_max
        if bytes_max is not None:
            mean = planning.mean_size(waiting, source_cluster(settings))
            rows += [max(int(bytes_max / mean), 1)] if mean is not None else []
        return min(rows, default=None)

    def _is_enough(self, waiting: list[PlannedRange]) -> bool:
        """Whether the batch may start: enough messages, or waited long enough for them."""
        rows_min = self._settings.trigger_rows_min
        rows = sum(each.rows for each in waiting)
        if rows_min is None or self._is_bounded or rows >= rows_min:
            self._waits_since = None
            return True
        if rows == 0:
            self._waits_since = None
            return False
        self._waits_since = self._waits_since or monotonic()
        if (monotonic() - self._waits_since) * 1000 < self._settings.trigger_delay_ms:
            return False
        self._waits_since = None
        return True
