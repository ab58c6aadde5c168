"""Streaming source: plans which offsets each micro-batch covers; Spark's checkpoint makes the plan durable.

Spark keeps one instance in a driver process for a run of the query, for planning; `read` runs in the executors on a
pickled copy. With unchanged options, each wanted message between the first start and the last committed end is in
one micro-batch, and a repeated batch has the same messages in the same tasks. Exceptions are messages that brokers have
deleted or lost: if that is noticed, the query fails or, if `failOnDataLoss` is false, goes on without them.
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

from cometmq.connect import SystemClock
from cometmq.model.errors import BrokerNotFound, CometError, NetError, TopicNotFound
from cometmq.model.queue import MessageQueue
from cometmq.spark.schema import arrow_schema
from cometmq.spark.source import planning
from cometmq.spark.source.cluster import all_known, source_cluster
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
from cometmq.spark.source.settings import SourceSettings
from cometmq.spark.source.store_time_ends import StoreTimeEnds, stored_before

log = logging.getLogger(__name__)


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stream reader of topics: plans micro-batches on the driver and reads their messages in executors."""

    def __init__(self, settings: SourceSettings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema
        self._is_bounded = False  # Whether it is an AvailableNow query,
        self._target: Offsets | None = None  # and the offsets at which that stops.
        self._latest: Offsets = {}
        self._silent: set[str] = set()  # Brokers that did not answer the last request.
        self._left_out: set[MessageQueue] = set()  # Missing queues already reported.
        self._tried: Offsets = {}  # Offsets of the last attempt to commit to the group,
        self._told: Offsets = {}  # and of the last successful one.
        self._waits_since: float | None = None
        self._store_time_ends = StoreTimeEnds()
        self._is_compared = False  # Whether all queues were compared with the checkpoint.
        self._losses = RowLosses(is_failure=settings.fail_on_data_loss)

    def initialOffset(self) -> Json:
        """Return a fixed JSON dict that stands for the start; the first end offset records where the stream starts."""
        return dict(INITIAL)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return a limit with `maxOffsetsPerTrigger`, or else `maxBytesPerTrigger`, or none; the source applies both."""
        rows_max, bytes_max = (
            self._settings.trigger_rows_max,
            self._settings.trigger_bytes_max,
        )
        if rows_max is not None:
            return ReadMaxRows(rows_max)
        return ReadAllAvailable() if bytes_max is None else ReadMaxBytes(bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """Record the current ends of the queues, at which the query stops; raise QueuesMissing for missing queues.

        Without `failOnDataLoss` missing queues are only logged. If a topic is missing or a server does not answer,
        that is logged, and `latestOffset` records the ends.
        """
        self._is_bounded = True
        try:
            target = self._fetch_latest(StreamOffset({}))
            self._check_missing(target)
            self._target = target
        except (TopicNotFound, NetError) as error:
            # The checkpoint may contain the missing topic or broker, so `latestOffset` tries again with it.
            log.warning("The ends of the queues cannot be read yet: %s", error)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit | None = None) -> Json:
        """Return the end of the next micro-batch, or `start` if none begins now; with `commitOffsets`, commit `start`.

        Usually none begins without new messages or with too few (`minOffsetsPerTrigger`). Raises CometError, but NetError
        and BrokerNotFound only in the first batch and in an AvailableNow query; otherwise a stream waits for the server.
        """
        known = StreamOffset.from_json(start)
        self._tell_group(known)
        try:
            return self._next_end(start, known, limit)
        except (NetError, BrokerNotFound) as error:
            # A first batch or a bounded run must not end early, because it is not planned again.
            if known.is_initial or self._is_bounded:
                raise
            log.warning(
                "The stream waits, because a server that answered a moment ago does not answer now: %s",
                error,
            )
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
        # If a queue lost its last messages and that is allowed, continue at its new, lower end.
        ends = {queue: min(offset, latest[queue]) for queue, offset in starts.items()}
        ends |= self._limited(waiting, self._rows_max(limit, waiting))
        if not is_news and ends == known.ends:
            return start
        stored = self._stored(known, ends, begins)
        return StreamOffset(ends, begins, late=late, stored=stored).to_json()

    def reportLatestOffset(self) -> Json | None:
        """Return the ends of the queues that `latestOffset` used last, for Spark's report of the lag; None without any."""
        return StreamOffset(self._latest).to_json() if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan the tasks that read from one stream offset to another, without asking a broker."""
        until = StreamOffset.from_json(end)
        starts = {**StreamOffset.from_json(start).ends, **until.begins}
        ranges = planning.between(starts, until.ends)
        tasks: list[InputPartition] = list(planning.partitions(ranges, self._settings))
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Iterate over the messages of a task as Arrow batches; runs in an executor."""
        if not isinstance(partition, RangesPartition):
            return iter(())
        reader = RangePuller(
            source_cluster(self._settings), self._settings, arrow_schema(self._schema)
        )
        return reader.batches(partition.ranges)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit a finished batch's offsets to the group if `commitOffsets` is set and this is not done yet; only log errors.

        Spark calls this when it starts the next batch, so never for the last one, and kills the process without notice
        at the end of a query. But it plans from the end of a batch only when that batch is done, even if no other
        follows, so `latestOffset` commits to the group too.
        """
        self._tell_group(StreamOffset.from_json(end), is_again=True)

    def _tell_group(self, done: StreamOffset, *, is_again: bool = False) -> None:
        """Commit the offsets of a finished batch to the group, once; with `is_again` retry a failed commit.

        Does nothing unless the option `commitOffsets` is set. An error is only logged.
        """
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
            log.warning(
                "The offsets of group %s could not be committed: %s",
                self._settings.group,
                error,
            )

    def stop(self) -> None:
        """Do nothing: the connections belong to a pool that all readers of the process share."""

    def _fetch_latest(self, known: StreamOffset) -> Offsets:
        cluster = source_cluster(self._settings)
        held = {queue.topic for queue in known.ends}
        try:
            queues = planning.covered_queues(self._settings.topics, cluster, held=held)
        except NetError as error:
            if not known.ends:
                raise
            log.warning("No nameserver answers; continuing with the known queues: %s", error)
            queues = list(known.ends)
        latest: Offsets = {}
        self._silent = set()
        for queue, offset in cluster.max_offsets(queues).items():
            if isinstance(offset, int):
                latest[queue] = offset
                continue
            # Only a running stream may ignore a new queue for now, because it finds the queue again later.
            if queue not in known.ends and (self._is_bounded or not known.ends):
                raise BrokerSilent(planning.of_broker(queue.broker_name, queues), offset)
            log.warning("%s waits: %s", queue, offset)
            self._silent.add(queue.broker_name)
        return latest

    def _check_missing(self, there: Offsets) -> None:
        """Report queues missing at the start: a bounded run fails, or warns if losses are allowed; others warn."""
        found = missing_queues(self._settings, list(there), source_cluster(self._settings))
        if self._is_bounded:
            check_missing(found, self._settings)
        else:
            warn_of_missing(found)

    def _begins(self, known: StreamOffset) -> Offsets:
        """Return the start offsets of the queues that `known` does not contain.

        The first batch uses the user's choice. A queue that appears later is read from its first
        message, but see `planning.begin_late` if its broker was offline at the start.
        """
        cluster = source_cluster(self._settings)
        new = [queue for queue in self._latest if queue not in known.ends]
        if known.is_initial:
            planning.check_places(self._settings.starting, new)
            begins = planning.resolve(self._settings.starting, new, cluster)
        else:
            begins = planning.begin_late(new, known.late, self._settings.starting, cluster)
        # A queue may have grown since its end was fetched; its start must not exceed that end.
        return {queue: min(begin, self._latest[queue]) for queue, begin in begins.items()}

    def _settled(self, known: Offsets) -> Offsets:
        """Return the latest offsets, for a missing queue the known one, and report losses, also if an end went back."""
        latest = dict(self._latest)
        missing = [queue for queue in known if queue not in latest]
        if missing:
            self._report_missing(known, missing)
        for queue, offset in known.items():
            # A missing queue keeps its offset until its broker is back.
            if latest.setdefault(queue, offset) < offset:
                self._losses.report(
                    f"the end of {queue} went back from offset {offset} to {latest[queue]}: a replica without "
                    "its last messages took over, or the topic was deleted and created again",
                    offset - latest[queue],
                )
        return latest

    def _stored(self, known: StreamOffset, ends: Offsets, begins: Offsets) -> Offsets:
        """Return by queue the store time of the message before its end, if known; a queue that did not move keeps its time."""
        moved = {
            queue: end
            for queue, end in ends.items()
            if queue in begins or end != known.ends[queue]
        }
        kept = {queue: at for queue, at in known.stored.items() if queue not in moved}
        return kept | stored_before(moved, source_cluster(self._settings))

    def _begun_anew(self, known: StreamOffset, latest: Offsets) -> Offsets:
        """Return the start offsets of queues that now have another message where the last read one was; report each as a loss.

        The first plan also compares queues without new messages: a recreated one may have as many as before.
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
        # If a replica without the last messages took over, its earlier messages have been read already.
        begins = all_known(
            cluster.offsets_by_time({each: at + 1 for each, at in others.items()})
        )
        for queue, begin in begins.items():
            self._losses.report(
                f"{queue} has another message at offset {known.ends[queue] - 1} than the one that was read there: "
                "the topic was deleted and created again, the broker restarted with an empty disk, or a replica "
                f"without the last messages took over; the messages stored since then start at offset {begin}",
                0,
            )
        return begins

    def _report_missing(self, known: Offsets, queues: list[MessageQueue]) -> None:
        """Report known queues that are missing: deleted ones are lost, others wait for their brokers.

        A bounded run fails because of waiting queues (with the option `brokers`, only of those brokers) unless losses
        are allowed.
        """
        gone = self._gone([each for each in queues if each.broker_name not in self._silent])
        if self._is_bounded:
            must = self._settings.brokers
            away = {
                queue
                for queue in set(queues).difference(gone, self._left_out)
                if not must or queue.broker_name in must
            }
            why = "the checkpoint has it, but it does not answer or is not registered"
            check_missing(missing_by_broker(sorted(away), why), self._settings)
            self._left_out |= away
        for queue in queues:
            if queue in gone:
                # The number of unread messages is unknown.
                self._losses.report(
                    f"{queue} no longer exists; it was read up to offset {known[queue]}",
                    0,
                )
            else:
                log.warning("%s waits: its broker does not answer or is not registered", queue)

    def _gone(self, queues: Sequence[MessageQueue]) -> Sequence[MessageQueue]:
        """Return the queues that no longer exist although their brokers are registered."""
        cluster = source_cluster(self._settings)
        registered = cluster.brokers() if queues else ()
        gone = [queue for queue in queues if queue.broker_name in registered]
        if not gone:
            return gone
        # Query again: a broker may have come back with the queues since the last query.
        held = {queue.topic for queue in gone}
        there = planning.covered_queues(self._settings.topics, cluster, held=held)
        return [queue for queue in gone if queue not in there]

    def _limited(self, waiting: Sequence[PlannedRange], rows_max: int | None) -> Offsets:
        """Return the end offset of the next batch, of about `rows_max` messages (None: all), by queue with waiting messages."""
        if self._settings.admission is AdmittedBy.OFFSETS:
            return planning.share_out(waiting, rows_max)
        cluster = source_cluster(self._settings)
        return self._store_time_ends.choose(waiting, rows_max, cluster)

    def _rows_max(self, limit: ReadLimit | None, waiting: Sequence[PlannedRange]) -> int | None:
        """Return the maximum number of messages of a batch, from the options and Spark's limit; None for no limit."""
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
        """Return whether a batch may start: no minimum applies, or messages are enough or have waited long enough."""
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
