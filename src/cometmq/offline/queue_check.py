"""Compares queues with a part of the log: records must have their entries.

The entries that records require are collected as bytes per queue (`part_check`) and compared with the files in runs;
entries are examined one by one only if bytes differ. Whether there are entries without a record follows from their
number, once all parts are done (`queue_verdict`).
"""

from typing import Any, NamedTuple

from cometmq.codec.other_queues import is_extended_address
from cometmq.codec.queue_entry import BLANK_ENTRY, GAP_CODE, QUEUE_ENTRY, QUEUE_ENTRY_SIZE
from cometmq.codec.record import Record
from cometmq.kernel.rows import Wanted
from cometmq.model.names import SCHEDULE_TOPIC
from cometmq.offline.findings import Findings
from cometmq.offline.found import FoundStore
from cometmq.offline.known_queues import FirstEntry
from cometmq.offline.lives import first_entry, queue_loader
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.disk import Buffer
from cometmq.store.extended_queues import ExtendedQueues
from cometmq.store.queue_files import QueueFiles
from cometmq.store.stored_record import places_of

_EVERYTHING = 1 << 63
_GATHERED_MAX = 500_000  # Collected entries of all queues that trigger a comparison: 10 MB.


class QueueCount(NamedTuple):
    """The result of comparing a part of the log with one queue.

    Attributes:
        matched: Entries that match the part's records.
        missing: Records of the part that should have an entry and have none.
        first_missing: Queue offset of the first such record.
        missing_at: Physical offset of the first such record.
        last_missing_at: Physical offset of the last such record.
        dead: Records of the part that are known to belong to a deleted topic of the same name.
        last_dead_at: Physical offset of the last such record.
        undispatched: Records of the part without an entry yet, as after an unclean stop.
        first_undispatched: Queue offset of the first such record.
        undispatched_at: Physical offset of the first such record.
    """

    topic: str
    queue_id: int
    matched: int
    missing: int = 0
    first_missing: int = 0
    missing_at: int = 0
    last_missing_at: int = 0
    dead: int = 0
    last_dead_at: int = 0
    undispatched: int = 0
    first_undispatched: int = 0
    undispatched_at: int = 0

    def plus(self, later: "QueueCount") -> "QueueCount":
        """Return the sum with the count of the same queue for a later part of the log."""
        first = self if self.missing else later
        young = self if self.undispatched else later
        return QueueCount(
            self.topic,
            self.queue_id,
            self.matched + later.matched,
            self.missing + later.missing,
            first.first_missing,
            first.missing_at,
            max(self.last_missing_at, later.last_missing_at),
            self.dead + later.dead,
            max(self.last_dead_at, later.last_dead_at),
            self.undispatched + later.undispatched,
            young.first_undispatched,
            young.undispatched_at,
        )


class _UncheckedRun:
    """Entries of one queue that records require and that were not compared yet, with counts of the compared ones.

    Attributes:
        gathered: [queue offset after the last entry, the entries]; see `kernel.rows.Wanted`.
        counts: Counts of the entries that differ; `matched` has the number of the others.
        first: Oldest living entry of the queue's files, or None; read when an entry first differs.
        is_first_known: Whether it was read.
    """

    __slots__ = ("counts", "first", "gathered", "is_first_known", "matched", "queue")

    def __init__(self, queue: ConsumeQueue, offset: int) -> None:
        self.queue = queue
        self.gathered: list[Any] = [offset, bytearray()]
        self.matched = 0
        self.counts = QueueCount(queue.topic, queue.queue_id, 0)
        self.first: FirstEntry | None = None
        self.is_first_known = False


class QueueCheck:
    """Compares consume queues with the entries that records of a part of the log require; the kernel may collect most."""

    def __init__(self, store: FoundStore, findings: Findings) -> None:
        self._store = store
        self._findings = findings
        self._loader, self._files = queue_loader(store)
        progress = store.checkpoints.progress
        known = min(progress.dispatched, progress.flushed) if progress is not None else 0
        self._dispatched = _EVERYTHING if store.is_clean else known
        self._extended = ExtendedQueues(store.disk, store.root)
        self._levels_ms = store.settings.delay_levels_ms
        self._runs: dict[tuple[str, int], _UncheckedRun] = {}
        self._gathered = 0  # Records since the last comparison.
        self.wanted: Wanted = {}

    def take(self, record: Record) -> None:
        """Collect the queue entries of a record that the kernel has not processed."""
        for topic, queue_id, offset, code in places_of(record, self._levels_ms):
            gathered = self._run_at(topic, queue_id, offset).gathered
            gathered[1] += QUEUE_ENTRY.pack(record.physical_offset, record.store_size, code)
            gathered[0] = offset + 1
        # Entries of that topic contain a time in place of the hash of a tag.
        if record.topic != SCHEDULE_TOPIC:
            self.wanted.setdefault(record.topic.encode(), {})

    def _run_at(self, topic: str, queue_id: int, offset: int) -> _UncheckedRun:
        run = self._runs.get((topic, queue_id))
        if run is None:
            run = _UncheckedRun(ConsumeQueue(topic, queue_id), offset)
            self._runs[topic, queue_id] = run
            if topic != SCHEDULE_TOPIC:
                self.wanted.setdefault(topic.encode(), {})[queue_id] = run.gathered
        elif run.gathered[0] != offset:
            self._compare(run)
            run.gathered[0] = offset
        return run

    def compare_many(self, count: int) -> None:
        """Count records whose expected queue entries were collected since the last call, here or by the kernel.

        Once 500,000 are counted, compares their entries with the queue files, counts or reports differences, and starts
        a new count.
        """
        self._gathered += count
        if self._gathered >= _GATHERED_MAX:
            self._compare_all()
            self._gathered = 0

    def finish(self) -> list[QueueCount]:
        """Compare the remaining entries and return the counts of this part of the log for each queue."""
        self._compare_all()
        return [
            run.counts._replace(matched=run.matched + run.counts.matched)
            for run in self._runs.values()
        ]

    def _compare_all(self) -> None:
        for run in self._runs.values():
            if run.gathered[1]:
                self._compare(run)

    def _compare(self, run: _UncheckedRun) -> None:
        end, entries = run.gathered
        count = len(entries) // QUEUE_ENTRY_SIZE
        start = end - count
        stored = read_entries(self._files, run.queue, start, count)
        if stored == entries:
            run.matched += count
        else:
            for place in range(count):
                piece = slice(place * QUEUE_ENTRY_SIZE, (place + 1) * QUEUE_ENTRY_SIZE)
                self._compare_one(run, start + place, entries[piece], stored[piece])
        entries.clear()

    def _compare_one(
        self, run: _UncheckedRun, offset: int, wanted: Buffer, stored: Buffer
    ) -> None:
        if stored == wanted:
            run.matched += 1
            return
        wanted_at, wanted_size, wanted_code = QUEUE_ENTRY.unpack(wanted)
        at, size, code = QUEUE_ENTRY.unpack(stored)
        if is_extended_address(code):
            code = self._extended.tags_code(run.queue.topic, run.queue.queue_id, code)
        if (at, size, code) == (wanted_at, wanted_size, wanted_code):
            run.matched += 1
            return
        if self._is_dead(run, offset, wanted_at):
            run.counts = run.counts.plus(_one(run, dead=1, last_dead_at=wanted_at))
        elif size == 0 or stored == BLANK_ENTRY or code == GAP_CODE:
            run.counts = run.counts.plus(self._lacking(run, offset, wanted_at))
        else:
            self._findings.add(
                "queue",
                f"{run.queue.topic}/{run.queue.queue_id} at {offset}",
                f"has (offset {at}, size {size}, code {code}); its record has "
                f"({wanted_at}, {wanted_size}, {wanted_code})",
            )

    def _lacking(self, run: _UncheckedRun, offset: int, place: int) -> QueueCount:
        if place >= self._dispatched:
            return _one(run, undispatched=1, first_undispatched=offset, undispatched_at=place)
        return _one(
            run, missing=1, first_missing=offset, missing_at=place, last_missing_at=place
        )

    def _is_dead(self, run: _UncheckedRun, offset: int, place: int) -> bool:
        if not run.is_first_known:
            run.is_first_known = True
            queue, start = run.queue, self._store.log.chain.start
            loaded = self._loader.load_queue(
                queue.topic, queue.queue_id, log_start=start, dispatched=None
            )
            run.first = first_entry(self._store, loaded, self._files)
        return run.first is not None and run.first.outlives(offset, place)


def _one(run: _UncheckedRun, **counts: int) -> QueueCount:
    return QueueCount(run.queue.topic, run.queue.queue_id, 0, **counts)


def read_entries(files: QueueFiles, queue: ConsumeQueue, start: int, count: int) -> bytes:
    """Return the bytes of queue entries from offset `start` on, zeros where a file is missing or short.

    Raises:
        OSError: The disk failed.
    """
    pieces = []
    end = start + count
    while start < end:
        left = files.entries_per_file - start % files.entries_per_file
        wanted = min(end - start, left)
        try:
            piece = files.read(queue, start, wanted)
        except FileNotFoundError:
            piece = b""
        pieces.append(piece.ljust(wanted * QUEUE_ENTRY_SIZE, b"\0"))
        start += wanted
    return b"".join(pieces)
