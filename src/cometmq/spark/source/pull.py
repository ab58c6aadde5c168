"""Pulling of ranges of queues and decoding into Arrow batches for Spark, with detection of lost messages.

A task with many short ranges requests several at once and decodes them together, which costs
about as much as one range (docs/design/0021-spark-source.md).
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cometmq import Tag
from cometmq.connect import PullStatus, RawPull
from cometmq.model import properties as keys_of
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import (
    BrokerNotFound,
    BrokerRefused,
    CodecError,
    CometError,
    NetError,
    TopicNotFound,
)
from cometmq.model.namespace import namespace_of
from cometmq.model.queue import MessageQueue
from cometmq.offline.columns.body import bounded
from cometmq.offline.columns.inner_batch import unwrapped
from cometmq.offline.columns.window import RecordWindow, joined, record_starts
from cometmq.offline.columns.window_columns import WindowColumns
from cometmq.spark.source.cluster import PullPlan, SourceCluster
from cometmq.spark.source.loss import RowLosses
from cometmq.spark.source.planning import PlannedRange
from cometmq.spark.source.settings import SourceSettings

log = logging.getLogger(__name__)

# Answers are collected to windows of about this many rows or bytes before decoding: with fewer than a
# thousand rows the cost of numpy calls dominates, with more than several thousand nothing is gained.
WINDOW_ROWS = 8192
WINDOW_BYTES = 8 << 20
# Inner batches grow when unpacked; ranges that exceed this size together are decoded one by one.
JOINED_BYTES_MAX = 2 * WINDOW_BYTES
# Number of ranges of a task that are requested at once; their answers stay in memory, several MiB each.
AHEAD_RANGES = 16
RETRY_S = 0.2  # Pause between two attempts to reach a broker.
# With these, offsets that an answer skips were checked by the broker and may have been filtered out.
_MATCHED = (PullStatus.FOUND, PullStatus.NO_MATCHED_MESSAGE)


class PulledRange(NamedTuple):
    """The pull answers of a range of a queue that are not decoded yet.

    Attributes:
        wanted: The whole range.
        floor: First offset not yet decoded; messages before it have been returned.
        bodies: Bodies of the pull answers.
    """

    wanted: PlannedRange
    floor: int
    bodies: list[bytes]


@dataclass(frozen=True)
class RangePuller:
    """Reader that pulls ranges of queues and decodes them to batches of an Arrow schema."""

    cluster: SourceCluster
    settings: SourceSettings
    schema: pa.Schema

    def batches(self, ranges: Sequence[PlannedRange]) -> Iterator[pa.RecordBatch]:
        """Yield the messages of the ranges in sequence as Arrow batches, each range in the queue's order, as filtered.

        Raises:
            DataLossError: Messages of a range no longer exist, and `failOnDataLoss` is true.
            CometError: A broker cannot be reached for `pullTimeoutMs`, refuses, or its answer cannot be decoded.
        """
        losses = RowLosses(is_failure=self.settings.fail_on_data_loss)
        waiting: list[PulledRange] = []
        size = rows = 0
        for wanted, first in self._asked_ahead(ranges):
            if waiting and waiting[0].wanted.queue.broker_name != wanted.queue.broker_name:
                # A record does not contain its broker, so a window must hold records of one broker.
                yield from self._decoded(waiting)
                waiting, size, rows = [], 0, 0
            waiting.append(PulledRange(wanted, wanted.start, []))
            for pull, expected_rows in self._pulls(wanted, first, losses):
                waiting[-1].bodies.append(pull.body)
                size += len(pull.body)
                rows += expected_rows
                if rows >= WINDOW_ROWS or size >= WINDOW_BYTES:
                    yield from self._decoded(waiting)
                    waiting, size, rows = [PulledRange(wanted, pull.next_offset, [])], 0, 0
        yield from self._decoded(waiting)

    @property
    def _plan(self) -> PullPlan:
        settings = self.settings
        return PullPlan(
            settings.pull_rows, settings.pull_depth, settings.expression, settings.read_from
        )

    def _asked_ahead(
        self, ranges: Sequence[PlannedRange]
    ) -> Iterator[tuple[PlannedRange, RawPull | None]]:
        """Yield each range with its first pull answer, requested for up to 16 ranges at once.

        The answer is None after an error, and for a range that is alone in its group of 16: it is pulled later.
        """
        for at in range(0, len(ranges), AHEAD_RANGES):
            some = ranges[at : at + AHEAD_RANGES]
            first: Sequence[RawPull | None] = [None]
            if len(some) > 1:
                asked = [(each.queue, each.start, each.end) for each in some]
                first = self.cluster.first_pulls(asked, self._plan)
            yield from zip(some, first, strict=True)

    def _pulls(
        self, wanted: PlannedRange, first: RawPull | None, losses: RowLosses
    ) -> Iterator[tuple[RawPull, int]]:
        """Yield the pull answers with messages for a range, each with the number of offsets that it adds to earlier ones.

        With a filter, answers may overlap and go past the range's end.
        """
        plan = self._plan
        offset, misses = wanted.start, 0
        timeout = RetryTimeout(self.settings.pull_timeout_ms)
        while offset < wanted.end:
            before, pull = offset, None
            try:
                for pull in self._answers(wanted, offset, first):
                    # If the filter did not skip these offsets, their messages no longer exist.
                    given = pull.first_given(offset)
                    if given > offset and (plan.is_all or pull.status not in _MATCHED):
                        _report_deleted(losses, wanted, offset, given)
                    if pull.status is PullStatus.FOUND:
                        yield pull, pull.next_offset - offset
                    offset = pull.following(offset)
                    timeout.reset()
            except (NetError, BrokerNotFound, TopicNotFound) as error:
                # A new process has no route to a broker that is offline, so these errors are retried too.
                timeout.wait(wanted.queue, error)
                continue
            except BrokerRefused as refused:
                if refused.code != ResponseCode.TOPIC_NOT_EXIST:
                    raise _explained(refused, wanted, offset) from refused
                losses.report(
                    f"{wanted.queue}: its topic was deleted, offsets {offset} to {wanted.end - 1} "
                    "are not read",
                    wanted.end - offset,
                )
                return
            misses, first = 0 if offset > before else misses + 1, None
            if misses and pull is not None:
                offset = self._after_end(pull, offset, wanted, misses, losses)

    def _answers(
        self, wanted: PlannedRange, offset: int, first: RawPull | None
    ) -> Iterator[RawPull]:
        if first is not None:
            return iter((first,))
        return self.cluster.pulls(wanted.queue, start=offset, end=wanted.end, plan=self._plan)

    def _after_end(
        self, pull: RawPull, offset: int, wanted: PlannedRange, misses: int, losses: RowLosses
    ) -> int:
        """Return the offset to continue from when the queue ends at `offset`, inside the range.

        During the retries, this is `offset`, after a pause. Then it is the range's end, and the rest is reported as
        lost, which may raise DataLossError.
        """
        if misses <= self.settings.retries:
            # A broker that has just become master may not have caught up yet.
            sleep(self.settings.retry_interval_ms / 1000)
            return offset
        losses.report(
            f"{wanted.queue}: offsets {offset} to {wanted.end - 1} do not exist any "
            f"more, the queue now ends at {pull.max_offset}",
            wanted.end - offset,
        )
        return wanted.end

    def _decoded(self, pulled: Sequence[PulledRange]) -> Iterator[pa.RecordBatch]:
        """Yield the pulled messages of ranges of one broker as Arrow batches; small ranges are decoded together."""
        found = [each for each in pulled if each.bodies]
        if not found:
            return
        try:
            windows = [self._window(each) for each in found]
            if len(found) > 1 and sum(len(each.buffer) for each in windows) > JOINED_BYTES_MAX:
                for each in found:
                    yield from self._decoded([each])
                return
            window = joined(windows)
            if not len(window):
                return
            for piece, unpacked in self._bounded(window):
                yield self._columns(piece, found[0].wanted, unpacked).batch(self.schema)
        except CodecError as error:
            if len(found) > 1:
                # Decode one by one, so that the error names the right queue.
                for each in found:
                    yield from self._decoded([each])
            raise CodecError(f"{found[0].wanted.queue}: {error}") from error

    def _window(self, pulled: PulledRange) -> RecordWindow:
        """Return the wanted messages in the pull answers of a range, except messages that were returned before."""
        wanted, bodies = pulled.wanted, pulled.bodies
        buffer = bodies[0] if len(bodies) == 1 else b"".join(bodies)
        window = unwrapped(RecordWindow(buffer, record_starts(buffer)))
        return self._wanted(_once(window, pulled.floor, wanted.end), wanted)

    def _wanted(self, window: RecordWindow, wanted: PlannedRange) -> RecordWindow:
        """Return the messages with the wanted tags (by default all): brokers filter only by the tags' hashes."""
        expression = self.settings.expression
        if not isinstance(expression, Tag) or not expression.tags:
            return window
        found = self._columns(window, wanted).properties.column(keys_of.TAGS)
        has_tag = pc.is_in(found, value_set=pa.array(expression.tags))
        return window.select(has_tag.to_numpy(zero_copy_only=False))

    def _bounded(self, window: RecordWindow) -> Iterator[tuple[RecordWindow, pa.Array | None]]:
        if self.settings.is_decompressed and "body" in self.schema.names:
            return bounded(window)
        return iter([(window, None)])

    def _columns(
        self, window: RecordWindow, wanted: PlannedRange, unpacked: pa.Array | None = None
    ) -> WindowColumns:
        named = self.settings.namespace
        return WindowColumns(
            window,
            wanted.queue.broker_name,
            self.settings.is_decompressed,
            unpacked,
            self.settings.properties_format == "json",
            namespace_of(named).unwrap if named else None,
        )


def _report_deleted(losses: RowLosses, wanted: PlannedRange, start: int, end: int) -> None:
    last = min(end, wanted.end) - 1
    losses.report(
        f"{wanted.queue}: offsets {start} to {last} are deleted, the queue continues at {end}",
        last + 1 - start,
    )


def _explained(refused: BrokerRefused, wanted: PlannedRange, offset: int) -> CometError:
    """Return an error that adds the queue and offset to the broker's refusal."""
    return CometError(f"{wanted.queue} cannot be read from offset {offset}: {refused}")


def _once(window: RecordWindow, floor: int, end: int) -> RecordWindow:
    """Return the messages of [floor, end) without duplicates.

    To find the requested number, a filtering broker may search past the start of the next pull, which
    is already in flight. So two answers may contain the same messages.
    """
    offsets = window.queue_offset
    seen = np.maximum.accumulate(np.concatenate(([floor - 1], offsets)))[:-1]
    is_new = (offsets > seen) & (offsets < end)
    return window if np.all(is_new) else window.select(is_new)


class RetryTimeout:
    """Pauses between attempts to reach an offline broker, until about `limit_ms` after the first failure."""

    def __init__(self, limit_ms: int) -> None:
        self._limit_ms = limit_ms
        self._since: float | None = None

    def reset(self) -> None:
        """End the current series of failures, because the broker has answered."""
        self._since = None

    def wait(self, queue: MessageQueue, error: CometError) -> None:
        """Sleep 0.2 s before the next attempt; raise `error` if the limit has passed since the first failure."""
        now = monotonic()
        if self._since is None:
            self._since = now
            log.warning("%s cannot be read, waiting for its broker: %s", queue, error)
        if (now - self._since) * 1000 >= self._limit_ms:
            raise error
        sleep(RETRY_S)
