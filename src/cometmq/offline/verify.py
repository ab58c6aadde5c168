"""Looks at everything in a store: is what the files say about each other true?

One walk over the log checks every record (sizes, offset, CRC of the body) and gathers the entries
that they ask for; the checks of queues and index compare these with their files.

Next: cometmq.offline.wanted_walk
"""

from dataclasses import dataclass, field

from cometmq.codec.fastjson import loads
from cometmq.model.errors import CodecError, StoreDamaged
from cometmq.offline.batch_check import BatchCheck
from cometmq.offline.findings import Finding, Findings
from cometmq.offline.found import FoundStore
from cometmq.offline.index_check import IndexCheck
from cometmq.offline.log_scan import OnProgress, PieceScan
from cometmq.offline.queue_check import QueueCheck
from cometmq.offline.wanted_walk import WantedWalk
from cometmq.store.disk import read_file


@dataclass(frozen=True, slots=True)
class Verdict:
    """What verification found.

    Attributes:
        records: valid records in the log.
        log_start: physical offset of the oldest file.
        log_end: physical offset at which the log ends.
        queue_entries: entries that are as the log has them.
        index_entries: the same of the index.
        errors: how many things are wrong.
        notes: how many things a start puts right, or deleted topics have left.
        findings: the first thousand of both.
    """

    records: int
    log_start: int
    log_end: int
    queue_entries: int
    index_entries: int
    errors: int
    notes: int
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.errors


def verify(store: FoundStore, *, on_progress: OnProgress | None = None) -> Verdict:
    """Look at everything in a store; nothing is changed.

    Args:
        store: the directory.
        on_progress: told how many bytes of the log have been walked.

    Raises:
        OSError: the disk failed.
    """
    findings = Findings()
    index = IndexCheck(store, findings)
    queues = _queue_check(store, findings)
    batches = BatchCheck(store, findings)
    walk = WantedWalk(queues, batches, is_whole_checked=store.settings.verify_property_crc)
    scan = PieceScan(store, walk.take, on_progress=on_progress)
    for piece in scan:
        index.take(piece.keys, piece.end)
    for damage in scan.damages:
        where = f"{damage.path} at {damage.at}"
        what = f"{damage.end - damage.start} bytes are no record: {damage.why}"
        findings.add("log", where, what)
    if scan.tail:
        what = f"{scan.tail} bytes stand behind the log's end"
        findings.add("log", f"offset {scan.end}", what, is_error=store.is_clean)
    if queues is not None:
        queues.finish(scan.end)
    batches.finish()
    index.finish(scan.end)
    return Verdict(
        scan.records,
        store.log.chain.start,
        scan.end,
        batches.entries + (queues.entries if queues is not None else 0),
        index.entries,
        findings.errors,
        findings.notes,
        findings.kept,
    )


def _queue_check(store: FoundStore, findings: Findings) -> QueueCheck | None:
    """The comparison of the queues; None where their files are such that there is none."""
    try:
        return QueueCheck(store, findings, topics=_known_topics(store))
    except StoreDamaged as error:
        findings.add("queue", "files", str(error))
        return None


def _known_topics(store: FoundStore) -> frozenset[str]:
    """The topics that the broker's configuration names."""
    for name in ("topics.json", "topics.json.bak"):
        try:
            table = loads(read_file(store.disk, f"{store.root}/config/{name}"))
        except (FileNotFoundError, CodecError):
            continue
        if isinstance(table, dict) and isinstance(table.get("topicConfigTable"), dict):
            return frozenset(table["topicConfigTable"])
    return frozenset()
