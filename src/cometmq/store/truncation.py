"""Truncates the log of an open store, and everything built from it.

docs/design/0036 describes the steps and why a stop after any of them leaves a store that opens, with either the old end
or the new one. The removed part is copied into the folder `cut`. Blocking work can run in another thread, as in cleaning.
Meanwhile nothing is appended, flushed or dispatched, and readers soon see the queues as they will be.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial

from cometmq.codec.record import BLANK_TAIL_SIZE
from cometmq.kernel import MAGIC_BLANK
from cometmq.model.errors import RecordIllegal, StoreBusy, StoreError
from cometmq.store.acceptance import Acceptance
from cometmq.store.background import Background
from cometmq.store.batch import Batch
from cometmq.store.checkpoint import NOTHING_DONE
from cometmq.store.derived import Step
from cometmq.store.directory import StoreDirectory
from cometmq.store.disk import failed
from cometmq.store.dispatch import LogDispatcher
from cometmq.store.index_loading import DerivedIndex
from cometmq.store.log_end import LogEnd, record_at
from cometmq.store.log_walk import read_piece
from cometmq.store.read_side import ReadSide
from cometmq.store.settings import StoreSettings
from cometmq.store.whole_records import check_of

OnTruncated = Callable[[int], None]


class Truncation:
    """Truncations of one store, one at a time; `on_truncated` are called with the new end before the log is cut."""

    def __init__(
        self,
        directory: StoreDirectory,
        settings: StoreSettings,
        *,
        dispatcher: LogDispatcher,
        index: DerivedIndex,
        reading: ReadSide,
        background: Background,
        acceptance: Acceptance,
    ) -> None:
        self._directory = directory
        self._log = directory.log
        self._checkpoints = directory.checkpoints
        self._dispatcher = dispatcher
        self._index = index
        self.on_truncated: list[OnTruncated] = [reading.truncated]
        self._background = background
        self._acceptance = acceptance
        self._check_records = check_of(settings)
        self._waiting: deque[Batch] = deque()  # Batches that were not visible when it began,
        self._kept: list[Batch] = []  # and the part of them that stays.
        # Store time of the first removed record; 0 if the removed part begins with a file's blank end.
        self._store_ms = 0

    def steps(self, end: int) -> Generator[Step, None, None]:
        """Yield steps that copy the log from a record on into `cut` and remove it, with its queue and index entries.

        The caller runs each yielded step in a thread that may block, and asks for the next one on the thread that owns
        the store, after the step has ended; then errors are raised. Until the generator ends, nothing is accepted or
        flushed; readers soon find no messages after the new end. After the copy, giving up requires a restart.

        Args:
            end: Physical offset at which a record or the blank end of a file begins; nothing happens at the log's end.

        Raises:
            RecordIllegal: Neither begins there, or the log does not reach there; nothing has changed.
            StoreBusy: A flush, a checkpoint, cleaning, a builder or a truncation is running; retry when it has ended.
            StoreError: The store accepts nothing until a restart, or the copy failed; nothing was removed.
            StorePoisoned: The disk failed. A restart finds the log with either the old end or the new one.
        """
        self._check_free()
        if end == self._log.positions.written:
            return
        self._hold(end)
        is_begun = False
        try:
            yield from _each(self._copying(end))
            is_begun = True
            yield from self._run(end)
        except OSError as error:
            if not is_begun:
                reason = failed(f"the log cannot be truncated to {end}", error)
                raise StoreError(f"{reason}; nothing was changed") from error
            raise self._background.poison(
                f"the log could not be truncated to {end} ({error.strerror or error})"
            ) from error
        except BaseException:  # Also when the caller has stopped running the steps.
            if is_begun:
                self._background.poison(f"a truncation of the log to {end} did not finish")
            raise
        finally:
            self._let_go(is_begun=is_begun)
        self._background.upkeep.go_back(self._store_ms)
        self._background.flushing.go_back(end, self._store_ms)
        self._dispatcher.dispatch()

    def _check_free(self) -> None:
        """Raise StoreBusy while other work uses the files, another StoreError if the store needs a restart."""
        if self._acceptance.is_over:
            raise self._acceptance.refusal()
        background = self._background
        if (
            self._acceptance.is_held
            or background.upkeep.is_job_out
            or background.flushing.is_under_way
            or background.cleaner.is_step_out
            or any(each.is_step_out for each in self._directory.derived)
        ):
            raise StoreBusy(
                "a flush, checkpoint, cleanup, builder or truncation is running; try again"
            )

    def _hold(self, end: int) -> None:
        """Stop accepting, dispatching and indexing messages until `_let_go`."""
        self._acceptance.hold(f"the log is being truncated to {end}")
        self._index.index.is_held = True
        self._waiting, self._dispatcher.waiting = self._dispatcher.waiting, deque()

    def _let_go(self, *, is_begun: bool) -> None:
        self._acceptance.release()
        self._index.index.is_held = False
        if not is_begun:
            self._dispatcher.waiting = self._waiting

    # --- nothing has changed yet

    def _copying(self, end: int) -> Iterator[Step]:
        yield partial(self._keep_copy, end)

    def _keep_copy(self, end: int) -> None:
        """Check the new end, and copy the part to be removed into the folder `cut`.

        Raises:
            RecordIllegal: Neither a record nor the blank end of a file begins at `end`.
            OSError: The disk failed.
        """
        self._log.commit_staged()
        self._log.mend()
        self._check(end)
        log_end = LogEnd(self._checkpoints.disk, self._log, self._checkpoints)
        log_end.keep_copies(end, self._log.positions.written)

    def _check(self, end: int) -> None:
        log = self._log
        start, written = log.chain.start, log.positions.written
        file = log.chain.find(end)
        if not start <= end <= written or file is None:
            raise RecordIllegal(
                f"the log cannot be truncated to {end}: it has the offsets {start} to {written}"
            )
        self._index.write()
        head = file.read(end, BLANK_TAIL_SIZE)
        is_blank = int.from_bytes(head[4:]) == MAGIC_BLANK
        if not is_blank and record_at(file, end) is None:
            raise RecordIllegal(f"the log cannot be truncated to {end}: no record starts there")

    # --- the steps that count

    def _run(self, end: int) -> Iterator[Step]:
        """Yield the steps that truncate the log to a record's start, after the part to be removed was copied."""
        written, derived = self._log.positions.written, tuple(self._directory.derived)
        for each in derived:
            yield from _each(each.hide_from(end))
        for let_go in self.on_truncated:
            let_go(end)
        yield from _each(self._taking_back(end))
        assert self._log.positions.written == written, "something was appended meanwhile"
        yield from _each(self._log.cut(end))
        for each in derived:
            yield from _each(each.truncate(end))
        assert self._log.positions.written == end, "something was appended meanwhile"
        self._show_kept()

    def _taking_back(self, end: int) -> Iterator[Step]:
        yield partial(self._take_checkpoint_back, end)

    def _take_checkpoint_back(self, end: int) -> None:
        """Lower the checkpoint to the new end; note the store time there, and what stays of the waiting batches."""
        file = self._log.chain.find(end)
        assert file is not None
        record = record_at(file, end)
        self._store_ms = store_ms = record.store_timestamp if record is not None else 0
        self._kept = [part for batch in self._waiting for part in self._before(batch, end)]
        known, times = self._checkpoints.progress or NOTHING_DONE, self._checkpoints.times
        name, count, index_ms = self._index.mark_before(end)
        if known.dispatched > end:
            known = known._replace(
                dispatched=end,
                entries=min(known.entries, self._directory.queues.writable_entries),
                index_file=name,
                index_count=count,
            )
        times = replace(
            times,
            log_timestamp=min(times.log_timestamp, store_ms),
            queue_timestamp=min(times.queue_timestamp, store_ms),
            index_timestamp=min(times.index_timestamp, index_ms),
        )
        flushed = min(known.flushed, end)
        self._checkpoints.write(
            times, known._replace(flushed=flushed, log_ms=times.log_timestamp)
        )

    def _show_kept(self) -> None:
        """Queue the remaining undispatched batches again, and set the queues' next offsets after them."""
        kept = self._kept
        self._dispatcher.waiting = deque(kept)
        self._dispatcher.raw_end = kept[-1].end_offset if kept and kept[-1].raw else 0
        for batch in self._waiting:
            for queue, *_ in batch.due_entries():
                queue.next_offset = queue.max_offset
        for batch in kept:
            for queue, offset, *_ in batch.due_entries():
                queue.next_offset = offset + 1
        self._waiting, self._kept = deque(), []

    def _before(self, batch: Batch, end: int) -> list[Batch]:
        """Return the part of a waiting batch before the new end, as a list: of the batch itself if all of it is."""
        if batch.end_offset <= end:
            return [batch]
        start = batch.start
        found: list[Batch] = []
        while start < end and (file := self._log.chain.find(start)) is not None:
            start, part, _, is_last = read_piece(
                self._check_records, file, start, min(end, file.end)
            )
            if part is not None:
                found.append(part)
            if is_last:
                start = file.end
        return found


def _each(steps: Iterator[Step]) -> Iterator[Step]:
    """Yield a truncation's steps so that they raise nothing themselves, because they run in another thread.

    An exception of a step is raised here, on the thread that owns the store, when the caller asks for the next step.
    """
    for step in steps:
        failures: list[Exception] = []
        yield partial(_try, failures, step)
        if failures:
            raise failures[0]


def _try(failures: list[Exception], step: Step) -> None:
    try:
        step()
    except Exception as error:  # noqa: BLE001  It is raised on the other thread.
        failures.append(error)
