"""Takes back the end of the log while the store is open, and all that was built from it.

The steps and why a stop behind each leaves a store that opens, with the old end or with the new one,
are in docs/design/0036. Nothing that goes is lost: a copy stays in the folder `cut`.

Next: cometmq.store.log_end
"""

from collections import deque
from dataclasses import replace

from cometmq.codec.record import BLANK_TAIL_SIZE
from cometmq.kernel import MAGIC_BLANK
from cometmq.model.errors import RecordIllegal
from cometmq.store.batch import Batch, batch_of
from cometmq.store.checkpoint import NOTHING_DONE
from cometmq.store.directory import StoreDirectory
from cometmq.store.disk import Disk
from cometmq.store.dispatch import LogDispatcher
from cometmq.store.index_loading import DerivedIndex
from cometmq.store.log_end import LogEnd, record_at
from cometmq.store.settings import StoreSettings
from cometmq.store.whole_records import walk_of


class Truncation:
    """Truncations of one store; no flush or checkpoint may be under way."""

    def __init__(
        self,
        disk: Disk,
        directory: StoreDirectory,
        settings: StoreSettings,
        *,
        dispatcher: LogDispatcher,
        index: DerivedIndex,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._log = directory.log
        self._checkpoints = directory.checkpoints
        self._dispatcher = dispatcher
        self._index = index
        self._walk = walk_of(settings)

    def check(self, end: int) -> None:
        """Refuse to cut where no record begins.

        Raises:
            RecordIllegal: there is none.
            OSError: the disk failed.
        """
        log = self._log
        start, written = log.chain.start, log.positions.written
        file = log.chain.find(end)
        if not start <= end <= written or file is None:
            raise RecordIllegal(
                f"the log cannot be truncated to {end}: it goes from {start} to {written}"
            )
        self._index.write()
        head = file.read(end, BLANK_TAIL_SIZE)
        is_blank = int.from_bytes(head[4:]) == MAGIC_BLANK
        if not is_blank and record_at(file, end) is None:
            raise RecordIllegal(f"the log cannot be truncated to {end}: no record begins there")

    def run(self, end: int) -> int:
        """Truncate to the start of a record that was found by `check`; all memory is in files.

        Returns:
            Store time of the first record that went, ms; 0: a blank end of a file came first.

        Raises:
            OSError: a step failed. After the first, which copies, the store must be opened again.
        """
        log, chain = self._log, self._log.chain
        file = chain.find(end)
        assert file is not None
        record = record_at(file, end)
        store_ms = record.store_timestamp if record is not None else 0
        self._take_checkpoint_back(end, store_ms)
        log.cut(end)
        waiting = self._dispatcher.waiting
        kept = [part for batch in waiting if (part := self._before(batch, end)) is not None]
        for derived in self._directory.derived:
            derived.truncate(end)
        self._dispatcher.waiting = deque(kept)
        self._dispatcher.raw_end = kept[-1].end_offset if kept and kept[-1].records else 0
        for queue in self._directory.queues:
            queue.next_offset = queue.max_offset
        for batch in kept:
            for queue, offset, *_ in batch.arrivals:
                queue.next_offset = offset + 1
        return store_ms

    def keep_copy(self, end: int) -> None:
        """Copy what goes into the folder `cut`.

        Raises:
            OSError: there is no room, or the disk failed; nothing has changed.
        """
        log_end = LogEnd(self._disk, self._log, self._checkpoints)
        log_end.keep_copies(end, self._log.positions.written)

    def _take_checkpoint_back(self, end: int, store_ms: int) -> None:
        """Say of no record behind the new end that it is on the device, or in a queue."""
        known, times = self._checkpoints.progress or NOTHING_DONE, self._checkpoints.times
        name, count, index_ms = self._index.mark_before(end)
        if known.dispatched > end:
            queues = self._directory.derived_queues
            known = known._replace(
                dispatched=end,
                entries=min(known.entries, queues.writable_entries_before(end)),
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

    def _before(self, batch: Batch, end: int) -> Batch | None:
        """What of a batch that is not visible yet lies before the new end; None: nothing."""
        if batch.end_offset <= end:
            return batch
        records = batch.records
        start = records[0].physical_offset if records else batch.results[0][1]
        found = []
        while start < end and (file := self._log.chain.find(start)) is not None:
            chunk = file.read(start, min(end, file.end) - start)
            found += self._walk(chunk, start)[0]
            start = file.end
        return batch_of(found) if found else None
