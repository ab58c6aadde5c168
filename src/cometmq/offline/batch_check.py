"""Compares batch queues with the log: every batch has its entry, and nothing else has one."""

from collections.abc import Iterable
from typing import NamedTuple

from cometmq.codec.other_queues import BatchEntry
from cometmq.codec.record import Record
from cometmq.model.flags import INNER_BATCH
from cometmq.offline.findings import Findings
from cometmq.offline.found import FoundStore
from cometmq.store.batch_queues import BatchQueues, entry_of
from cometmq.store.queue_table import QueueTable


class BatchWanted(NamedTuple):
    """The entry that a batch of the log asks for.

    Attributes:
        topic: of its queue.
        queue_id: its number.
        entry: what stands there.
    """

    topic: str
    queue_id: int
    entry: BatchEntry


class BatchCheck:
    """Collects the entries that the batches of a part of the log need.

    Attributes:
        wanted: their entries, in the order of the log.
    """

    def __init__(self) -> None:
        self.wanted: list[BatchWanted] = []

    def take(self, record: Record) -> None:
        """A record of the log; they come in their order."""
        if record.sys_flag & INNER_BATCH:
            entry = entry_of(record)
            if entry is not None:
                self.wanted.append(BatchWanted(record.topic, record.queue_id, entry))


def judge_batches(store: FoundStore, wanted: Iterable[BatchWanted], findings: Findings) -> int:
    """Compare all batch queues with what the whole log asks for; gives how many entries are right.

    Raises:
        OSError: the disk failed.
    """
    queues = BatchQueues(store.disk, store.root, store.log, QueueTable(), read_only=True)
    queues.load(is_clean=True, log_start=store.log.chain.start)
    asked: dict[tuple[str, int], list[BatchEntry]] = {}
    for topic, queue_id, entry in wanted:
        asked.setdefault((topic, queue_id), []).append(entry)
    count = 0
    names = {(queue.topic, queue.queue_id) for queue in queues}
    for key in sorted(names | asked.keys()):
        queue = queues.find(*key)
        stored = queues.living_entries(queue) if queue is not None else []
        of_log = asked.get(key, [])
        count += len(set(stored) & set(of_log))
        if stored == of_log:
            continue
        lacking, strange = set(of_log) - set(stored), set(stored) - set(of_log)
        what = f"{len(lacking)} entries are missing, {len(strange)} are of no record"
        where = f"{key[0]}/{key[1]} (batches)"
        findings.add("queue", where, what, is_error=store.is_clean)
    return count
