"""Reads ranges of queues as Arrow batches: pulls, data loss, windows of a good size.

Next: cometmq.spark.columns.window
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import monotonic, sleep

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cometmq.client.results import PullStatus, RawPull
from cometmq.model import properties as keys_of
from cometmq.model.errors import CodecError, CometError, NetError
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import parse_subscription
from cometmq.spark.columns.inner_batch import unwrapped
from cometmq.spark.columns.window import RecordWindow, record_starts
from cometmq.spark.columns.window_columns import WindowColumns
from cometmq.spark.source.cluster import PullPlan, SourceCluster
from cometmq.spark.source.planning import QueueRange
from cometmq.spark.source.settings import SourceSettings

log = logging.getLogger(__name__)

# Answers are joined to windows of about this many rows or bytes before they are decoded: below a
# thousand rows the price of a numpy call shows, beyond some thousand nothing is won.
WINDOW_ROWS = 8192
WINDOW_BYTES = 8 << 20
RETRY_S = 0.2  # Between two tries to reach a broker.


class DataLossError(CometError):
    """Messages that should be read are gone."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. Some messages may have been lost; with failOnDataLoss=false the read goes "
            "on with what there is"
        )


def report_loss(what: str, *, is_failure: bool) -> None:
    """Say that messages are gone: as an error, or as a warning where the user chose so.

    Raises:
        DataLossError: when `is_failure`.
    """
    if is_failure:
        raise DataLossError(what)
    log.warning("%s. failOnDataLoss is false: going on with what there is", what)


@dataclass(frozen=True)
class RangeReader:
    """Reads ranges of queues.

    Attributes:
        cluster: where from.
        settings: the options of the read.
        schema: what each batch must look like.
    """

    cluster: SourceCluster
    settings: SourceSettings
    schema: pa.Schema

    def batches(self, ranges: Sequence[QueueRange]) -> Iterator[pa.RecordBatch]:
        """The messages of the ranges, one range after the other, each in the queue's order.

        Raises:
            DataLossError: messages of a range are gone and that is to be an error.
            CometError: a broker does not answer, or answers what is no message.
        """
        for wanted in ranges:
            window: list[bytes] = []
            size = rows = 0
            floor = wanted.start
            for pull, expected_rows in self._pulls(wanted):
                window.append(pull.body)
                size += len(pull.body)
                rows += expected_rows
                if rows >= WINDOW_ROWS or size >= WINDOW_BYTES:
                    yield from self._decoded(window, wanted, floor)
                    window, size, rows = [], 0, 0
                    floor = pull.next_offset
            yield from self._decoded(window, wanted, floor)

    def _pulls(self, wanted: QueueRange) -> Iterator[tuple[RawPull, int]]:
        """The answers with messages of a range, and how many offsets each covers."""
        settings = self.settings
        plan = PullPlan(settings.pull_rows, settings.pull_depth, settings.expression)
        offset, misses = wanted.start, 0
        patience = Patience(settings.pull_timeout_ms)
        while offset < wanted.end:
            before, pull = offset, None
            try:
                for pull in self.cluster.pulls(
                    wanted.queue, start=offset, end=wanted.end, plan=plan
                ):
                    if pull.status is PullStatus.FOUND:
                        yield pull, pull.next_offset - offset
                    if pull.status is PullStatus.NO_MATCHED_MESSAGE and plan.is_all:
                        # Every message matches, so what is passed over is not there any more.
                        self._report_deleted(wanted, offset, pull.next_offset)
                    if pull.status in (PullStatus.FOUND, PullStatus.NO_MATCHED_MESSAGE):
                        offset = max(offset, pull.next_offset)
                        patience.reset()
            except NetError as error:
                patience.wait(wanted.queue, error)
                continue
            misses = 0 if offset > before else misses + 1
            if misses and pull is not None:
                offset = self._after_gap(pull, offset, wanted, misses)

    def _after_gap(self, pull: RawPull, offset: int, wanted: QueueRange, misses: int) -> int:
        """Where to go on when the broker has nothing at `offset`, which lies inside the range."""
        goes_on = max(pull.min_offset, pull.next_offset)
        if goes_on > offset:
            self._report_deleted(wanted, offset, goes_on)
            return goes_on
        if misses <= self.settings.retries:
            # A broker that has just taken over may not have caught up yet.
            sleep(self.settings.retry_interval_ms / 1000)
            return offset
        self._lost(
            f"{wanted.queue}: offsets {offset} to {wanted.end - 1} were there and are not any "
            f"more, the queue ends at {pull.max_offset}"
        )
        return wanted.end

    def _report_deleted(self, wanted: QueueRange, start: int, end: int) -> None:
        self._lost(
            f"{wanted.queue}: offsets {start} to {min(end, wanted.end) - 1} are deleted, the queue "
            f"goes on at {end}"
        )

    def _lost(self, what: str) -> None:
        report_loss(what, is_failure=self.settings.fail_on_data_loss)

    def _decoded(
        self, bodies: Sequence[bytes], wanted: QueueRange, floor: int
    ) -> Iterator[pa.RecordBatch]:
        """One batch of what was pulled, from the offset `floor` to the range's end."""
        if not bodies:
            return
        buffer = bodies[0] if len(bodies) == 1 else b"".join(bodies)
        try:
            window = unwrapped(RecordWindow(buffer, record_starts(buffer)))
            columns = self._columns(_once(window, floor, wanted.end), wanted)
            if len(columns.window):
                yield columns.batch(self.schema)
        except CodecError as error:
            raise CodecError(f"{wanted.queue}: {error}") from error

    def _columns(self, window: RecordWindow, wanted: QueueRange) -> WindowColumns:
        """The columns of the messages that are wanted: brokers filter by the tags' hashes only."""
        broker, is_decompressed = wanted.queue.broker_name, self.settings.is_decompressed
        columns = WindowColumns(window, broker, is_decompressed)
        tags = parse_subscription(wanted.queue.topic, self.settings.expression).tags
        if not tags:
            return columns
        has_tag = pc.is_in(columns.properties.column(keys_of.TAGS), value_set=pa.array(tags))
        kept = window.select(has_tag.to_numpy(zero_copy_only=False))
        return WindowColumns(kept, broker, is_decompressed)


def _once(window: RecordWindow, floor: int, end: int) -> RecordWindow:
    """The messages of [floor, end), each once.

    A broker that filters goes on until it has found as many as asked for, beyond where the next
    pull, already under way, begins: what lies behind an offset that was seen has been seen.
    """
    offsets = window.queue_offset
    seen = np.maximum.accumulate(np.concatenate(([floor - 1], offsets)))[:-1]
    is_new = (offsets > seen) & (offsets < end)
    return window if np.all(is_new) else window.select(is_new)


class Patience:
    """Waits for a broker that cannot be reached, and gives up after a while.

    Args:
        limit_ms: how long from the first failure on.
    """

    def __init__(self, limit_ms: int) -> None:
        self._limit_ms = limit_ms
        self._since: float | None = None

    def reset(self) -> None:
        """The broker has answered."""
        self._since = None

    def wait(self, queue: MessageQueue, error: NetError) -> None:
        """Sleep a little.

        Raises:
            NetError: `error`, when it has taken too long.
        """
        now = monotonic()
        if self._since is None:
            self._since = now
            log.warning("%s: waiting for its broker: %s", queue, error)
        if (now - self._since) * 1000 >= self._limit_ms:
            raise error
        sleep(RETRY_S)
