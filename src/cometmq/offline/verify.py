"""Verifies a store: checks that its files agree with each other.

A walk over each part of the log checks every record (sizes, offset, CRC of the body) and compares the entries that
records require with queues and index (`part_check`). This module judges what only the whole shows. `cometmq store
verify` uses one part, the Spark job one for each 128 MiB of a log file.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from cometmq.model.errors import StoreDamaged
from cometmq.offline.batch_check import judge_batches
from cometmq.offline.config_table import config_table
from cometmq.offline.findings import Finding, Findings
from cometmq.offline.found import FoundStore
from cometmq.offline.index_check import judge_index
from cometmq.offline.log_scan import OnProgress
from cometmq.offline.part_check import PartVerdict, check_part, whole
from cometmq.offline.queue_verdict import QueueVerdict


@dataclass(frozen=True, slots=True)
class StoreVerdict:
    """The result of a verification.

    Attributes:
        records: Valid records in the log.
        log_start: Physical offset of the oldest file.
        log_end: Physical offset at which the log ends.
        queue_entries: Queue entries that match the log.
        index_entries: Index entries that match the log.
        errors: Number of errors.
        notes: Number of other findings: what a start may repair, or deleted topics have left.
        findings: The first thousand of both.
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
        """Whether the store has no errors."""
        return not self.errors


def verify(store: FoundStore, *, on_progress: OnProgress | None = None) -> StoreVerdict:
    """Check log, queues and index of a store on one core; return the verdict. Calls `on_progress` with the bytes checked so far.

    Raises:
        OSError: The disk failed.
    """
    check = StoreCheck(store)
    part = check_part(store, whole(store), has_queues=check.has_queues, on_progress=on_progress)
    return check.finish([part])


class StoreCheck:
    """One verification: the checks of the whole store, to which the results of parts of the log are added.

    `has_queues` is whether queues can be compared.
    """

    def __init__(self, store: FoundStore) -> None:
        """Load the queues of the store; raises OSError if the disk fails."""
        self._store = store
        self._findings = Findings()
        self._topics = frozenset(
            config_table(store.disk, store.root, "topics.json", "topicConfigTable")
        )
        self._queues = self._queue_verdict()
        self.has_queues = self._queues is not None

    def _queue_verdict(self) -> QueueVerdict | None:
        try:
            return QueueVerdict(self._store, self._findings, topics=self._topics)
        except StoreDamaged as error:
            self._findings.add("queue", "files", str(error))
            return None

    def finish(self, parts: Iterable[PartVerdict]) -> StoreVerdict:
        """Sum up the findings of all parts of the log, which must be in order, and judge the whole.

        Raises:
            OSError: The disk failed.
        """
        store, findings = self._store, self._findings
        joined = list(self._joined(parts))
        for part in joined:
            findings.add_all(part.findings, part.errors, part.notes)
        chain = store.log.chain
        log_end = max(
            (part.end for part in joined if part.begin is not None), default=chain.start
        )
        queue_entries = 0
        if self._queues is not None:
            counts = (count for part in joined for count in part.queues)
            queue_entries = self._queues.finish(counts, log_end)
        wanted = (each for part in joined for each in part.batches)
        queue_entries += judge_batches(store, wanted, findings, topics=self._topics)
        index_entries = judge_index(store, [part.keys for part in joined], findings, log_end)
        return StoreVerdict(
            sum(part.records for part in joined),
            chain.start,
            log_end,
            queue_entries,
            index_entries,
            findings.errors,
            findings.notes,
            findings.kept,
        )

    def _joined(self, parts: Iterable[PartVerdict]) -> Iterator[PartVerdict]:
        """Yield the parts so that none begins before the previous one ended.

        A sender that knows where a message will be stored could put a record into its body. A part that began inside
        such a body is checked again, from its true first record.
        """
        at = self._store.log.chain.start
        for part in parts:
            found = part
            if part.begin is not None and part.begin < at:
                again = range(min(at, part.stop), part.stop)
                found = check_part(self._store, again, has_queues=self.has_queues)
            if found.begin is not None:
                at = found.end
            yield found
