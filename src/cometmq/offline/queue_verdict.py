"""Judges the queues after the whole log was compared with them: which entries are missing or superfluous."""

from collections.abc import Iterable, Iterator

from cometmq.codec.queue_entry import BLANK_ENTRY, GAP_CODE, QUEUE_ENTRY
from cometmq.model.text import plural
from cometmq.offline.findings import Findings
from cometmq.offline.found import FoundStore
from cometmq.offline.known_queues import QueueId
from cometmq.offline.lives import its_record, loaded_queues, queues_of
from cometmq.offline.queue_check import QueueCount, read_entries
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.queue_files import QueueFiles
from cometmq.store.queue_loading import LoadedQueue

_RUN_ENTRIES_MAX = 3200  # Entries of a queue read at once when they are checked one by one.


class QueueVerdict:
    """Loads the queues of a store and reports missing and superfluous entries."""

    def __init__(
        self, store: FoundStore, findings: Findings, *, topics: frozenset[str]
    ) -> None:
        """Load the consume queues of a store without changing files.

        Args:
            store: The store to check.
            findings: Receives what `finish` reports.
            topics: Topics in topics.json; of other topics, the records of a queue without files count as deleted.

        Raises:
            StoreDamaged: A queue file has a wrong size.
            OSError: The disk failed.
        """
        self._store = store
        self._findings = findings
        self._topics = topics
        loaded, self._files = loaded_queues(store)
        self._known = queues_of(store, loaded, self._files)
        self._loaded = {QueueId(one.queue.topic, one.queue.queue_id): one for one in loaded}

    def finish(self, counts: Iterable[QueueCount], log_end: int) -> int:
        """Report missing and superfluous entries, and records of deleted topics; return the number of matching entries.

        `counts` has the results of all parts of the log in log order, `log_end` is the physical offset of its end.
        Raises OSError if the disk fails.
        """
        queues = _added(counts)
        # Physical offset of a record after which the topic was deleted.
        deleted: dict[str, int] = {}
        for (topic, _), count in queues.items():
            deleted[topic] = max(deleted.get(topic, 0), count.last_dead_at)
        for queue_id, count in queues.items():
            self._judge(queue_id, count, deleted[queue_id.topic])
        for queue_id, loaded in self._loaded.items():
            if loaded.has_gap:
                self._findings.add(
                    "queue", str(queue_id), "a file or entries in the middle are missing"
                )
            found = queues.get(queue_id)
            matched = found.matched if found is not None else 0
            if loaded.queue.max_offset - loaded.queue.min_offset != matched:
                self._look_for_strays(queue_id, loaded, log_end)
        return sum(count.matched for count in queues.values())

    def _judge(self, queue_id: QueueId, count: QueueCount, deleted: int) -> None:
        """Report the entries that a queue lacks, and its records of deleted topics, by the sum of its counts.

        `deleted` is the physical offset of the last record of its topic that is known to be of a deleted topic.
        """
        dead, missing, undispatched = count.dead, count.missing, count.undispatched
        if queue_id not in self._loaded and queue_id.topic not in self._topics:
            dead, missing, undispatched = dead + missing + undispatched, 0, 0
        elif missing and self._are_dead(queue_id, count, deleted):
            dead, missing = dead + missing, 0
        if dead:
            what = f"{dead} {plural(dead, 'record')} of a deleted topic"
            if queue_id in self._loaded or queue_id.topic in self._topics:
                what += " of the same name"
            self._findings.add("queue", str(queue_id), what, is_error=False)
        if missing:
            what = (
                f"{missing} {plural(missing, 'entry', 'entries')} from {count.first_missing} on {plural(missing, 'is', 'are')} missing (log: "
                f"{count.missing_at})"
            )
            self._findings.add("queue", str(queue_id), what)
        if undispatched:
            what = (
                f"{undispatched} {plural(undispatched, 'entry', 'entries')} from {count.first_undispatched} on {plural(undispatched, 'is', 'are')} missing (log: "
                f"{count.undispatched_at}); the next start of the broker adds them"
            )
            self._findings.add("queue", str(queue_id), what, is_error=False)

    def _are_dead(self, queue_id: QueueId, count: QueueCount, deleted: int) -> bool:
        """Return whether a queue's records without entries are known to belong to a deleted topic."""
        loaded = self._loaded.get(queue_id)
        if loaded is not None and loaded.stored_end:
            return False
        if self._known is not None and count.last_missing_at < self._known.dispatched:
            return True
        return count.last_missing_at < deleted

    def _look_for_strays(self, queue_id: QueueId, loaded: LoadedQueue, log_end: int) -> None:
        """Report entries that point to no record of their queue, checking them one by one."""
        # Such entries at the queue's end are dropped by a start.
        behind: list[tuple[int, int, int]] = []
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
        what = f"points to {size} bytes at {at}, which are not a record of this queue"
        if not is_error:
            what += "; the next start of the broker removes it"
        self._findings.add("queue", f"{queue_id} at {offset}", what, is_error=is_error)

    def _is_its_record(self, queue_id: QueueId, offset: int, at: int, size: int) -> bool:
        record = its_record(self._store, queue_id, offset, at)
        return record is not None and record.store_size == size


def _added(counts: Iterable[QueueCount]) -> dict[QueueId, QueueCount]:
    queues: dict[QueueId, QueueCount] = {}
    for count in counts:
        key = QueueId(count.topic, count.queue_id)
        queues[key] = queues[key].plus(count) if key in queues else count
    return queues


_BLANK = QUEUE_ENTRY.unpack(BLANK_ENTRY)[:2]


def _entries(files: QueueFiles, queue: ConsumeQueue) -> Iterator[tuple[int, int, int]]:
    """Yield (queue offset, physical offset, size) of every entry of a queue that is not filler."""
    for start in range(queue.min_offset, queue.max_offset, _RUN_ENTRIES_MAX):
        count = min(_RUN_ENTRIES_MAX, queue.max_offset - start)
        content = read_entries(files, queue, start, count)
        for place, (at, size, code) in enumerate(QUEUE_ENTRY.iter_unpack(content)):
            if (at, size) != _BLANK and code != GAP_CODE:
                yield start + place, at, size
