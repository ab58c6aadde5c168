"""Compares queues with a part of the log: every record has its entry.

The entries that the log asks for are gathered as bytes, queue by queue (`wanted_walk`), and compared with the files a
run at a time; only where bytes differ are entries looked at one by one. That no entry stands there without a
record shows in their number, when all parts are through (`queue_verdict`).
"""

from typing import Any, NamedTuple

from cometmq.codec.other_queues import is_extended_address
from cometmq.codec.queue_entry import BLANK_ENTRY, GAP_CODE, QUEUE_ENTRY, QUEUE_ENTRY_SIZE
from cometmq.codec.record import Record
from cometmq.kernel.rows import Wanted
from cometmq.model.names import SCHEDULE_TOPIC
from cometmq.offline.findings import Findings
from cometmq.offline.found import FoundStore
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.disk import Buffer
from cometmq.store.extended_queues import ExtendedQueues
from cometmq.store.queue_files import QueueFiles
from cometmq.store.stored_record import places_of

_GATHERED_MAX = 500_000  # Entries of all queues that wait to be compared: 10 MB.


class QueueCount(NamedTuple):
    """The counts of a part of the log against one queue.

    Attributes:
        topic: of the queue.
        queue_id: its number.
        matched: entries that are as the records of the part ask for.
        missing: records of the part that have none.
        first_missing: queue offset of the first such record.
        missing_at: its physical offset.
    """

    topic: str
    queue_id: int
    matched: int
    missing: int = 0
    first_missing: int = 0
    missing_at: int = 0


class _UncheckedRun:
    """Entries of one queue that the log asks for and nobody has compared yet.

    Attributes:
        gathered: [queue offset behind the last of them, the entries]; see `kernel.rows.Wanted`.
    """

    __slots__ = ("first_missing", "gathered", "matched", "missing", "queue")

    def __init__(self, queue: ConsumeQueue, offset: int) -> None:
        self.queue = queue
        self.gathered: list[Any] = [offset, bytearray()]
        self.matched = 0
        self.missing = 0
        self.first_missing = (0, 0)  # Its queue offset and physical offset.


class QueueCheck:
    """One comparison of all queues of a store with a part of its log.

    Attributes:
        wanted: where the kernel appends what plain records ask for.
    """

    def __init__(self, store: FoundStore, findings: Findings) -> None:
        """Begin one.

        Args:
            store: the directory.
            findings: what is found goes there.
        """
        self._findings = findings
        self._extended = ExtendedQueues(store.disk, store.root)
        self._levels_ms = store.settings.delay_levels_ms
        root = f"{store.root}/consumequeue"
        self._files = QueueFiles(store.disk, root, store.settings.queue_entries_per_file)
        self._runs: dict[tuple[str, int], _UncheckedRun] = {}
        self._gathered = 0  # Records since everything was compared.
        self.wanted: Wanted = {}

    def take(self, record: Record) -> None:
        """A record that is not plain, or not the next of a known queue."""
        for topic, queue_id, offset, code in places_of(record, self._levels_ms):
            gathered = self._run_at(topic, queue_id, offset).gathered
            gathered[1] += QUEUE_ENTRY.pack(record.physical_offset, record.store_size, code)
            gathered[0] = offset + 1
        if record.topic != SCHEDULE_TOPIC:  # Its entries hold a time for the hash of a tag.
            self.wanted.setdefault(record.topic.encode(), {})

    def _run_at(self, topic: str, queue_id: int, offset: int) -> _UncheckedRun:
        """The run of a queue that goes on at an offset."""
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
        """Count records that were taken, by the kernel or here; compare when it is time."""
        self._gathered += count
        if self._gathered >= _GATHERED_MAX:
            self._compare_all()
            self._gathered = 0

    def finish(self) -> list[QueueCount]:
        """The part has been walked: what it says of each queue."""
        self._compare_all()
        return [
            QueueCount(*key, run.matched, run.missing, *run.first_missing)
            for key, run in self._runs.items()
        ]

    def _compare_all(self) -> None:
        for run in self._runs.values():
            if run.gathered[1]:
                self._compare(run)

    def _compare(self, run: _UncheckedRun) -> None:
        """Compare what has been gathered with the files."""
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
        """Compare one entry with the one that its record asks for."""
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
        elif at <= wanted_at:  # Else its topic was deleted and made again since.
            self._findings.add(
                "queue",
                f"{run.queue.topic}/{run.queue.queue_id} at {offset}",
                f"has (offset {at}, size {size}, code {code}); its record says "
                f"({wanted_at}, {wanted_size}, {wanted_code})",
            )


def read_entries(files: QueueFiles, queue: ConsumeQueue, start: int, count: int) -> bytes:
    """Entries from a queue offset on; zeros where there is no file, or a short one.

    Raises:
        OSError: the disk failed.
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
