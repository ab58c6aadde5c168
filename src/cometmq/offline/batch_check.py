"""Compares batch queues (BatchCQ) with the log: the entries must be those of the batches there."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from cometmq.codec.other_queues import BatchEntry
from cometmq.codec.record import Record
from cometmq.model.flags import INNER_BATCH
from cometmq.model.text import plural
from cometmq.offline.findings import Findings
from cometmq.offline.found import FoundStore
from cometmq.store.batch_queues import BatchQueues, entry_of
from cometmq.store.queue_table import QueueTable


class BatchWanted(NamedTuple):
    """The entry of a batch queue that a batch record of the log requires."""

    topic: str
    queue_id: int
    entry: BatchEntry


class BatchCheck:
    """Collects the batch-queue entries that the records of a part of the log require, in log order (`wanted`)."""

    def __init__(self) -> None:
        self.wanted: list[BatchWanted] = []

    def take(self, record: Record) -> None:
        """Add the batch-queue entry that a record requires, if any; must be called in log order."""
        if record.sys_flag & INNER_BATCH:
            entry = entry_of(record)
            if entry is not None:
                self.wanted.append(BatchWanted(record.topic, record.queue_id, entry))


def judge_batches(
    store: FoundStore,
    wanted: Iterable[BatchWanted],
    findings: Findings,
    *,
    topics: AbstractSet[str] = frozenset(),
) -> int:
    """Compare all batch queues with the entries that the log requires; return the number of matching entries.

    Adds differences to `findings`, as errors only if the store was closed cleanly, and records of deleted topics, never
    as errors. `topics` are those that exist by the broker's configuration. Raises OSError if the disk fails.
    """
    queues = BatchQueues(store.disk, store.root, store.log, QueueTable(), read_only=True)
    queues.load(is_clean=True, log_start=store.log.chain.start)
    asked: dict[tuple[str, int], _Asked] = {}
    for topic, queue_id, entry in wanted:
        asked.setdefault((topic, queue_id), _Asked([], [])).take(entry)
    # Physical offset of a record after which the topic was deleted.
    deleted: dict[str, int] = {}
    for (topic, _), of_log in asked.items():
        for entry in of_log.dead[-1:]:
            deleted[topic] = max(deleted.get(topic, 0), entry.physical_offset)
    count = 0
    names = {(queue.topic, queue.queue_id) for queue in queues}
    for key in sorted(names | asked.keys()):
        queue = queues.find(*key)
        stored = queues.living_entries(queue) if queue is not None else []
        living, dead = asked.get(key, _Asked([], []))
        where = f"{key[0]}/{key[1]} (batches)"
        if queue is None and living:
            is_over = living[-1].physical_offset < deleted.get(key[0], 0)
            if is_over or key[0] not in topics:
                living, dead = [], [*dead, *living]
        if dead:
            what = f"{len(dead)} {plural(len(dead), 'record')} of a deleted topic"
            findings.add("queue", where, what, is_error=False)
        count += len(set(stored) & set(living))
        if stored == living:
            continue
        lacking, strange = set(living) - set(stored), set(stored) - set(living)
        what = f"{len(lacking)} {plural(len(lacking), 'entry is', 'entries are')} missing, {len(strange)} {plural(len(strange), 'belongs', 'belong')} to no record"
        findings.add("queue", where, what, is_error=store.is_clean)
    return count


class _Asked(NamedTuple):
    """The entries that the log requires in one batch queue.

    Attributes:
        living: Entries of the messages since the queue last began at offset 0; all if it never did in the log.
        dead: Entries of a deleted topic of the same name (see `lives`).
    """

    living: list[BatchEntry]
    dead: list[BatchEntry]

    def take(self, entry: BatchEntry) -> None:
        """Add the next entry in log order; if it has queue offset 0, those before it become dead."""
        if self.living and not entry.first_offset:
            self.dead.extend(self.living)
            self.living.clear()
        self.living.append(entry)
