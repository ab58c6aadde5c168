"""Compares a part of a log with the queues and the index; parts can be checked in any order.

A part is a range of physical offsets and owns the records that start in it. Its check starts at the first valid record
in the range, or at its start if a file begins there, so the code that sums up the parts (`verify`) checks that none
begins before the end of the previous one.
"""

from typing import Any, NamedTuple

from cometmq.codec.other_queues import BatchEntry
from cometmq.offline.batch_check import BatchCheck, BatchWanted
from cometmq.offline.findings import Finding, Findings
from cometmq.offline.found import FoundStore
from cometmq.offline.index_check import IndexCheck, IndexCount
from cometmq.offline.log_scan import OnProgress, PieceScan
from cometmq.offline.queue_check import QueueCheck, QueueCount
from cometmq.offline.wanted_walk import WantedWalk


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
        (
            start,
            stop,
            begin,
            end,
            records,
            tail,
            findings,
            errors,
            notes,
            queues,
            keys,
            batches,
        ) = row
        return cls(
            start,
            stop,
            begin,
            end,
            records,
            tail,
            [Finding(*each) for each in findings],
            errors,
            notes,
            [QueueCount(*each) for each in queues],
            IndexCount(*keys),
            [BatchWanted(topic, queue, BatchEntry(*entry)) for topic, queue, entry in batches],
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
    walk = WantedWalk(queues, batches, is_whole_checked=store.settings.verify_property_crc)
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
