"""Compares a part of a log with the queues and the index; parts can be checked in any order.

A part is a range of physical offsets and owns the records that start in it. Its check starts at the first valid record
in the range, or at its start if a file begins there, so the code that sums up the parts (`verify`) checks that none
begins before the end of the previous one.

The kernel processes simple records (none if property CRCs are checked, or queues are not compared); each other record
is read by `valid_record` and passed to the checks individually. `QueueCheck` collects and compares the queue entries.
"""

from typing import Any, NamedTuple

from cometmq.codec.other_queues import BatchEntry
from cometmq.codec.record import Record
from cometmq.kernel import WalkEnd, record_keys, wanted_entries
from cometmq.kernel.rows import Wanted
from cometmq.kernel.wanted import KEY, index_hash
from cometmq.offline.batch_check import BatchCheck, BatchWanted
from cometmq.offline.findings import Finding, Findings
from cometmq.offline.found import FoundStore
from cometmq.offline.index_check import IndexCheck, IndexCount
from cometmq.offline.log_scan import OnProgress, PieceScan
from cometmq.offline.queue_check import QueueCheck, QueueCount
from cometmq.store.record_walk import why_not_further
from cometmq.store.stored_record import valid_record


class WantedPiece(NamedTuple):
    """The index keys that the records of a piece of the log require.

    Attributes:
        records: Number of records.
        end: Physical offset of the end of the last record.
        keys: Index keys in log order, each packed as `kernel.wanted.KEY`.
    """

    records: int
    end: int
    keys: bytearray


class WantedWalk:
    """One walk over a log that is compared with its queues, batch queues and index."""

    def __init__(
        self, queues: QueueCheck | None, batches: BatchCheck, *, is_whole_checked: bool
    ) -> None:
        """Create a walk; without `queues` these are not compared. `is_whole_checked`: check property CRCs, too."""
        self._queues = queues
        self._batches = batches
        self._wanted: Wanted = queues.wanted if queues is not None else {}
        self._is_whole_checked = is_whole_checked

    def take(self, chunk: bytes, offset: int) -> tuple[WantedPiece, int, int, WalkEnd]:
        """Process the valid records at the start of a piece of the log.

        Returns their index keys, their number, their end position in the piece, and why the walk ended there.
        """
        keys = bytearray()
        position = count = 0
        while True:
            if not self._is_whole_checked:
                position, plain = wanted_entries(chunk, position, offset, self._wanted, keys)
                count += plain
            record = self._valid_record(chunk, position, offset + position)
            if record is None:
                break
            self._take_one(record, keys)
            position += record.store_size
            count += 1
        if self._queues is not None:
            self._queues.compare_many(count)
        piece = WantedPiece(count, offset + position, keys)
        return piece, count, position, why_not_further(chunk, position)

    def _valid_record(self, chunk: bytes, position: int, offset: int) -> Record | None:
        return valid_record(chunk, position, offset, is_whole_checked=self._is_whole_checked)

    def _take_one(self, record: Record, keys: bytearray) -> None:
        if self._queues is not None:
            self._queues.take(record)
        self._batches.take(record)
        found = record_keys((record,))
        for code, offset in zip(found[0::3], found[1::3], strict=True):
            keys += KEY.pack(offset, index_hash(code))


class PartVerdict(NamedTuple):
    """The result of checking a part of the log.

    Attributes:
        start: Physical offset at which the part begins.
        stop: Physical offset at which the part ends.
        begin: Physical offset at which its check began: its first record, or the start of a file; None if it has no
            valid record.
        end: Physical offset of the end of its last record and of damage after that.
        records: Number of valid records.
        tail: Bytes after the log's end, if the log ends in this part.
        findings: The first findings.
        errors: Total number of errors.
        notes: Total number of other findings.
        queues: Counts for each queue.
        keys: Counts for the index.
        batches: Entries that its batches require.
    """

    start: int
    stop: int
    begin: int | None
    end: int
    records: int
    tail: int
    findings: list[Finding]
    errors: int
    notes: int
    queues: list[QueueCount]
    keys: IndexCount
    batches: list[BatchWanted]

    @classmethod
    def of(cls, row: list[Any]) -> "PartVerdict":
        """Restore a verdict from a row of JSON, as a manifest stores it."""
        found = cls(*row)
        return found._replace(
            findings=[Finding(*each) for each in found.findings],
            queues=[QueueCount(*each) for each in found.queues],
            keys=IndexCount(*found.keys),
            batches=[
                BatchWanted(topic, queue, BatchEntry(*entry))
                for topic, queue, entry in found.batches
            ],
        )


def whole(store: FoundStore) -> range:
    """Return the range of physical offsets of the whole log, as one part."""
    return range(store.log.chain.start, store.log.chain.end)


def parts_of(store: FoundStore, part_bytes: int) -> list[range]:
    """Return the log divided into ranges (parts) of at most `part_bytes`, none of which crosses the end of a file."""
    return [
        range(start, min(start + part_bytes, file.end))
        for file in store.log.chain.files
        for start in range(file.start, file.end, part_bytes)
    ]


def check_part(
    store: FoundStore,
    part: range,
    *,
    has_queues: bool = True,
    on_progress: OnProgress | None = None,
) -> PartVerdict:
    """Check the records of a part of the log, and the entries of queues and index that they require; return the result.

    Args:
        store: The store.
        part: Physical offsets.
        has_queues: Whether to compare queues; False if the state of their files makes it impossible.
        on_progress: Called with the number of bytes checked so far.

    Raises:
        OSError: The disk failed.
    """
    findings = Findings()
    index = IndexCheck(store, findings, part)
    queues = QueueCheck(store, findings) if has_queues else None
    batches = BatchCheck()
    walk = WantedWalk(queues, batches, is_whole_checked=store.settings.is_whole_crc_checked)
    scan = PieceScan(store, walk.take, part=part, on_progress=on_progress)
    for piece in scan:
        index.take(piece.keys, piece.end)
    for finding in scan.passed_over():
        findings.take(finding)
    counts = queues.finish() if queues is not None else []
    keys = index.finish()
    return PartVerdict(
        part.start,
        part.stop,
        scan.begin,
        scan.end,
        scan.records,
        scan.tail,
        findings.kept,
        findings.errors,
        findings.notes,
        counts,
        keys,
        batches.wanted,
    )
