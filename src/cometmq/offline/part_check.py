"""Compares a part of a log with everything that is made from it; parts are checked anywhere, in any order.

A part is a range of physical offsets and owns the records that start in it. It begins at the first valid record from
its begin on, so whoever adds up (`verify`) sees to it that it begins where the part before has ended.
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
    """The result of the check of a part of the log.

    Attributes:
        start: physical offset at which the part begins.
        stop: and before which it ends.
        begin: physical offset of its first record; None where it has none.
        end: physical offset behind its last record and the damage behind that.
        records: valid records.
        tail: bytes behind the log's end, where the log ends in the part.
        findings: the first of what is wrong.
        errors: how many errors there are in all.
        notes: how many others.
        queues: what it says of each queue.
        keys: what it says of the index.
        batches: entries that its batches ask for.
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
        """Rebuild a verdict that went through JSON, as a manifest keeps it."""
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
    """The whole log as one part."""
    return range(store.log.chain.start, store.log.chain.end)


def parts_of(store: FoundStore, part_bytes: int) -> list[range]:
    """The log in parts of at most so many bytes; none crosses the end of a file."""
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
    """Look at the records of a part, and at the entries of queues and index that they ask for.

    Args:
        store: the directory.
        part: physical offsets.
        has_queues: compare queues; False where their files are such that there is none.
        on_progress: told how many bytes of the part have been walked.

    Raises:
        OSError: the disk failed.
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
