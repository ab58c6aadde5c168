"""Compares queues with the log: every record has its entry, every entry its record.

The entries that the log asks for are gathered as bytes, queue by queue (`wanted_walk`), and
compared with the files a run at a time; only where bytes differ are entries looked at one by one. That no entry
stands there without a record shows in their number.

Next: cometmq.offline.index_check
"""

from collections.abc import Iterator
from typing import Any

from cometmq.codec.other_queues import is_extended_address
from cometmq.codec.queue_entry import BLANK_ENTRY, GAP_CODE, QUEUE_ENTRY, QUEUE_ENTRY_SIZE
from cometmq.codec.record import Record
from cometmq.kernel.rows import Wanted
from cometmq.model.names import SCHEDULE_TOPIC
from cometmq.offline.findings import Findings
from cometmq.offline.found import FoundStore, QueueId
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.consume_queues import ConsumeQueues
from cometmq.store.disk import Buffer
from cometmq.store.extended_queues import ExtendedQueues
from cometmq.store.log_end import record_at
from cometmq.store.queue_files import QueueFiles
from cometmq.store.queue_loading import LoadedQueue, QueueLoader
from cometmq.store.queue_table import QueueTable
from cometmq.store.stored_record import places_of

_GATHERED_MAX = 500_000  # Entries of all queues that wait to be compared: 10 MB.
_RUN_ENTRIES_MAX = 3200  # Entries of a queue are looked at one by one in runs of so many.


class _Run:
    """Entries of one queue that the log asks for and nobody has compared yet.

    Attributes:
        gathered: [queue offset behind the last of them, the entries]; see `kernel.rows.Wanted`.
    """

    __slots__ = ("first_missing", "gathered", "matched", "missing", "queue", "stale")

    def __init__(self, queue: ConsumeQueue, offset: int) -> None:
        self.queue = queue
        self.gathered: list[Any] = [offset, bytearray()]
        self.matched = 0
        self.stale = 0  # Records of a topic that was deleted and made again since.
        self.missing = 0
        self.first_missing = (0, 0)  # Its queue offset and physical offset.


class QueueCheck:
    """One comparison of all queues of a store.

    Attributes:
        entries: how many entries are as the log has them.
        wanted: where the kernel appends what plain records ask for.
    """

    def __init__(
        self, store: FoundStore, findings: Findings, *, topics: frozenset[str]
    ) -> None:
        """Load the queues.

        Args:
            store: the directory.
            findings: what is found goes there.
            topics: topics that exist, by the broker's configuration.

        Raises:
            StoreDamaged: a queue file has a wrong size.
        """
        self._store = store
        self._findings = findings
        self._topics = topics
        self._extended = ExtendedQueues(store.disk, store.root)
        self._levels_ms = store.settings.delay_levels_ms
        root = f"{store.root}/consumequeue"
        self._files = QueueFiles(store.disk, root, store.settings.queue_entries_per_file)
        queues = ConsumeQueues(QueueTable(), self._files, read_only=True)
        loader = QueueLoader(store.disk, queues)
        loaded = loader.load(log_start=store.log.chain.start, dispatched=None)
        loader.check_sizes()
        self._loaded = {QueueId(one.queue.topic, one.queue.queue_id): one for one in loaded}
        self._runs: dict[tuple[str, int], _Run] = {}
        self._gathered = 0  # Records since everything was compared.
        self.wanted: Wanted = {}
        self.entries = 0

    def take(self, record: Record) -> None:
        """A record that is not plain, or not the next of a known queue."""
        for topic, queue_id, offset, code in places_of(record, self._levels_ms):
            gathered = self._run_at(topic, queue_id, offset).gathered
            gathered[1] += QUEUE_ENTRY.pack(record.physical_offset, record.store_size, code)
            gathered[0] = offset + 1
        if record.topic != SCHEDULE_TOPIC:  # Its entries hold a time for the hash of a tag.
            self.wanted.setdefault(record.topic.encode(), {})

    def _run_at(self, topic: str, queue_id: int, offset: int) -> _Run:
        """The run of a queue that goes on at an offset."""
        run = self._runs.get((topic, queue_id))
        if run is None:
            run = _Run(ConsumeQueue(topic, queue_id), offset)
            self._runs[topic, queue_id] = run
            if topic != SCHEDULE_TOPIC:
                self.wanted.setdefault(topic.encode(), {})[queue_id] = run.gathered
        elif run.gathered[0] != offset:
            self._compare(run)
            run.gathered[0] = offset
        return run

    def compare_many(self, count: int) -> None:
        """So many records more have been taken, by the kernel or here; compare when it is time."""
        self._gathered += count
        if self._gathered >= _GATHERED_MAX:
            self._compare_all()
            self._gathered = 0

    def _compare_all(self) -> None:
        for run in self._runs.values():
            if run.gathered[1]:
                self._compare(run)

    def _compare(self, run: _Run) -> None:
        """Compare what has been gathered with the files."""
        end, entries = run.gathered
        count = len(entries) // QUEUE_ENTRY_SIZE
        start = end - count
        stored = _read(self._files, run.queue, start, count)
        if stored == entries:
            run.matched += count
        else:
            for place in range(count):
                piece = slice(place * QUEUE_ENTRY_SIZE, (place + 1) * QUEUE_ENTRY_SIZE)
                self._compare_one(run, start + place, entries[piece], stored[piece])
        entries.clear()

    def _compare_one(self, run: _Run, offset: int, wanted: Buffer, stored: Buffer) -> None:
        """The same for one entry."""
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
        if size == 0 or stored == BLANK_ENTRY or code == GAP_CODE:
            if not run.missing:
                run.first_missing = offset, wanted_at
            run.missing += 1
        elif at > wanted_at:
            run.stale += 1
        else:
            self._findings.add(
                "queue",
                f"{run.queue.topic}/{run.queue.queue_id} at {offset}",
                f"has (offset {at}, size {size}, code {code}); its record says "
                f"({wanted_at}, {wanted_size}, {wanted_code})",
            )

    def finish(self, log_end: int) -> None:
        """The log has been walked: judge what is missing, and what is too much.

        Args:
            log_end: physical offset at which it ends.
        """
        self._compare_all()
        for key, run in self._runs.items():
            self.entries += run.matched
            if run.missing:
                self._judge_missing(QueueId(*key), run)
        for queue_id, loaded in self._loaded.items():
            if loaded.has_gap:
                self._findings.add(
                    "queue", str(queue_id), "a file, or entries, are missing between others"
                )
            found = self._runs.get(queue_id)
            matched = found.matched if found is not None else 0
            if loaded.queue.max_offset - loaded.queue.min_offset != matched:
                self._look_for_strays(queue_id, loaded, log_end)

    def _judge_missing(self, queue_id: QueueId, run: _Run) -> None:
        """Say whether missing entries are an error."""
        offset, physical = run.first_missing
        what = f"{run.missing} entries from {offset} on are missing (log: {physical})"
        is_deleted = queue_id not in self._loaded and queue_id.topic not in self._topics
        if is_deleted:
            self._findings.add(
                "queue",
                str(queue_id),
                f"{run.missing} records of a deleted topic",
                is_error=False,
            )
            return
        progress = self._store.checkpoints.progress
        is_young = progress is None or physical >= min(progress.dispatched, progress.flushed)
        if not self._store.is_clean and is_young:
            what += "; the next start builds them"
            self._findings.add("queue", str(queue_id), what, is_error=False)
        else:
            self._findings.add("queue", str(queue_id), what)

    def _look_for_strays(self, queue_id: QueueId, loaded: LoadedQueue, log_end: int) -> None:
        """Entries that point to no record of their queue, one by one."""
        behind: list[tuple[int, int, int]] = []  # At the queue's end a start drops such.
        for entry in _entries(self._files, loaded.queue):
            offset, at, size = entry
            if at >= log_end and not self._store.is_clean:
                behind.append(entry)
            elif not self._is_its_record(queue_id, offset, at, size):
                self._note_stray(queue_id, entry)
            elif behind:
                for stray in behind:
                    self._note_stray(queue_id, stray)
                behind.clear()
        for stray in behind:
            self._note_stray(queue_id, stray, is_error=False)

    def _note_stray(
        self, queue_id: QueueId, entry: tuple[int, int, int], *, is_error: bool = True
    ) -> None:
        offset, at, size = entry
        what = f"points to {size} bytes at {at}, where no record of this queue is"
        if not is_error:
            what += "; the next start drops it"
        self._findings.add("queue", f"{queue_id} at {offset}", what, is_error=is_error)

    def _is_its_record(self, queue_id: QueueId, offset: int, at: int, size: int) -> bool:
        """Whether an entry's record is there and says so, too."""
        file = self._store.log.chain.find(at)
        record = record_at(file, at) if file is not None else None
        if record is None or record.store_size != size:
            return False
        places = places_of(record, self._levels_ms)
        return any((*queue_id, offset) == place[:3] for place in places)


_BLANK = QUEUE_ENTRY.unpack(BLANK_ENTRY)[:2]


def _entries(files: QueueFiles, queue: ConsumeQueue) -> Iterator[tuple[int, int, int]]:
    """(queue offset, physical offset, size) of every entry of a queue that stands for a message."""
    for start in range(queue.min_offset, queue.max_offset, _RUN_ENTRIES_MAX):
        count = min(_RUN_ENTRIES_MAX, queue.max_offset - start)
        content = _read(files, queue, start, count)
        for place, (at, size, code) in enumerate(QUEUE_ENTRY.iter_unpack(content)):
            if (at, size) != _BLANK and code != GAP_CODE:
                yield start + place, at, size


def _read(files: QueueFiles, queue: ConsumeQueue, start: int, count: int) -> bytes:
    """Entries from a queue offset on; zeros where there is no file, or a short one."""
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
