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

from cometmq.client.namespace import namespace_of
from cometmq.client.results import PullStatus, RawPull
from cometmq.model import properties as keys_of
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import BrokerRefused, CodecError, CometError, NetError
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import parse_subscription
from cometmq.spark.columns.body import bounded
from cometmq.spark.columns.inner_batch import unwrapped
from cometmq.spark.columns.window import RecordWindow, record_starts
from cometmq.spark.columns.window_columns import WindowColumns
from cometmq.spark.source.cluster import PullPlan, SourceCluster
from cometmq.spark.source.loss import Losses
from cometmq.spark.source.members import first_given
from cometmq.spark.source.planning import QueueRange
from cometmq.spark.source.settings import SourceSettings

log = logging.getLogger(__name__)

# Answers are joined to windows of about this many rows or bytes before they are decoded: below a
# thousand rows the price of a numpy call shows, beyond some thousand nothing is won.
WINDOW_ROWS = 8192
WINDOW_BYTES = 8 << 20
RETRY_S = 0.2  # Between two tries to reach a broker.


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
        losses = Losses(is_failure=self.settings.fail_on_data_loss)
        for wanted in ranges:
            window: list[bytes] = []
            size = rows = 0
            floor = wanted.start
            for pull, expected_rows in self._pulls(wanted, losses):
                window.append(pull.body)
                size += len(pull.body)
                rows += expected_rows
                if rows >= WINDOW_ROWS or size >= WINDOW_BYTES:
                    yield from self._decoded(window, wanted, floor)
                    window, size, rows = [], 0, 0
                    floor = pull.next_offset
            yield from self._decoded(window, wanted, floor)

    def _pulls(self, wanted: QueueRange, losses: Losses) -> Iterator[tuple[RawPull, int]]:
        """The answers with messages of a range, and how many offsets each covers."""
        settings = self.settings
        plan = PullPlan(
            settings.pull_rows, settings.pull_depth, settings.expression, settings.read_from
        )
        offset, misses = wanted.start, 0
        patience = Patience(settings.pull_timeout_ms)
        while offset < wanted.end:
            before, pull = offset, None
            try:
                for pull in self.cluster.pulls(
                    wanted.queue, start=offset, end=wanted.end, plan=plan
                ):
                    if plan.is_all and (given := first_given(pull, offset)) > offset:
                        # Every message matches, so what is passed over is not there any more.
                        _report_deleted(losses, wanted, offset, given)
                    if pull.status is PullStatus.FOUND:
                        yield pull, pull.next_offset - offset
                    if pull.status in (PullStatus.FOUND, PullStatus.NO_MATCHED_MESSAGE):
                        offset = max(offset, pull.next_offset)
                        patience.reset()
            except NetError as error:
                patience.wait(wanted.queue, error)
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
            misses = 0 if offset > before else misses + 1
            if misses and pull is not None:
                offset = self._after_gap(pull, offset, wanted, misses, losses)

    def _after_gap(
        self, pull: RawPull, offset: int, wanted: QueueRange, misses: int, losses: Losses
    ) -> int:
        """Where to go on when the broker has nothing at `offset`, which lies inside the range."""
        goes_on = max(pull.min_offset, pull.next_offset)
        if goes_on > offset:
            _report_deleted(losses, wanted, offset, goes_on)
            return goes_on
        if misses <= self.settings.retries:
            # A broker that has just taken over may not have caught up yet.
            sleep(self.settings.retry_interval_ms / 1000)
            return offset
        losses.report(
            f"{wanted.queue}: offsets {offset} to {wanted.end - 1} were there and are not any "
            f"more, the queue ends at {pull.max_offset}",
            wanted.end - offset,
        )
        return wanted.end

    def _decoded(
        self, bodies: Sequence[bytes], wanted: QueueRange, floor: int
    ) -> Iterator[pa.RecordBatch]:
        """One batch of what was pulled, from the offset `floor` to the range's end."""
        if not bodies:
            return
        buffer = bodies[0] if len(bodies) == 1 else b"".join(bodies)
        try:
            window = unwrapped(RecordWindow(buffer, record_starts(buffer)))
            window = self._wanted(_once(window, floor, wanted.end), wanted)
            if not len(window):
                return
            for piece, unpacked in self._bounded(window):
                yield self._columns(piece, wanted, unpacked).batch(self.schema)
        except CodecError as error:
            raise CodecError(f"{wanted.queue}: {error}") from error

    def _wanted(self, window: RecordWindow, wanted: QueueRange) -> RecordWindow:
        """The messages with the tags wanted: brokers filter by the tags' hashes only."""
        tags = parse_subscription(wanted.queue.topic, self.settings.expression).tags
        if not tags:
            return window
        found = self._columns(window, wanted).properties.column(keys_of.TAGS)
        has_tag = pc.is_in(found, value_set=pa.array(tags))
        return window.select(has_tag.to_numpy(zero_copy_only=False))

    def _bounded(self, window: RecordWindow) -> Iterator[tuple[RecordWindow, pa.Array | None]]:
        if self.settings.is_decompressed and "body" in self.schema.names:
            return bounded(window)
        return iter([(window, None)])

    def _columns(
        self, window: RecordWindow, wanted: QueueRange, unpacked: pa.Array | None = None
    ) -> WindowColumns:
        return WindowColumns(
            window,
            wanted.queue.broker_name,
            self.settings.is_decompressed,
            unpacked,
            self.settings.properties_format == "json",
            namespace_of(self.settings.namespace),
        )


def _report_deleted(losses: Losses, wanted: QueueRange, start: int, end: int) -> None:
    last = min(end, wanted.end) - 1
    losses.report(
        f"{wanted.queue}: offsets {start} to {last} are deleted, the queue goes on at {end}",
        last + 1 - start,
    )


def _explained(refused: BrokerRefused, wanted: QueueRange, offset: int) -> CometError:
    """What a broker refused, with what was asked for."""
    return CometError(f"{wanted.queue} cannot be read from offset {offset} on: {refused}")


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
