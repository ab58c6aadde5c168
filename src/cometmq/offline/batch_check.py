"""Compares batch queues with the log: every batch has its entry, and nothing else has one.

Next: cometmq.store.batch_queues
"""

from cometmq.codec.other_queues import BatchEntry
from cometmq.codec.record import Record
from cometmq.model.flags import INNER_BATCH
from cometmq.offline.findings import Findings
from cometmq.offline.found import FoundStore
from cometmq.store.batch_queues import BatchQueues, entry_of
from cometmq.store.queue_table import QueueTable


class BatchCheck:
    """One comparison of all batch queues of a store.

    Attributes:
        entries: how many entries are as the log has them.
    """

    def __init__(self, store: FoundStore, findings: Findings) -> None:
        self._store = store
        self._findings = findings
        self._queues = BatchQueues(
            store.disk, store.root, store.log, QueueTable(), read_only=True
        )
        self._queues.load(is_clean=True, log_start=store.log.chain.start)
        self._wanted: dict[tuple[str, int], list[BatchEntry]] = {}
        self.entries = 0

    def take(self, record: Record) -> None:
        """A record of the log; they come in their order."""
        if record.sys_flag & INNER_BATCH:
            entry = entry_of(record)
            if entry is not None:
                self._wanted.setdefault((record.topic, record.queue_id), []).append(entry)

    def finish(self) -> None:
        """The log has been walked: compare queue by queue."""
        names = {(queue.topic, queue.queue_id) for queue in self._queues}
        for key in sorted(names | self._wanted.keys()):
            queue = self._queues.find(*key)
            stored = self._queues.living_entries(queue) if queue is not None else []
            wanted = self._wanted.get(key, [])
            self.entries += len(set(stored) & set(wanted))
            if stored == wanted:
                continue
            lacking, strange = set(wanted) - set(stored), set(stored) - set(wanted)
            what = f"{len(lacking)} entries are missing, {len(strange)} are of no record"
            where = f"{key[0]}/{key[1]} (batches)"
            self._findings.add("queue", where, what, is_error=self._store.is_clean)
