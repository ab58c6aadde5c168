"""Summarizes a store: files, queues, times, and how it was stopped."""

from typing import NamedTuple

from cometmq.codec.index_file import INDEX_HEADER_SIZE, decode_header
from cometmq.codec.record import Record
from cometmq.offline.found import FoundStore
from cometmq.offline.lives import loaded_queues
from cometmq.offline.log_scan import LogScan
from cometmq.store.disk import file_size, opened
from cometmq.store.log_end import record_at


class QueueSummary(NamedTuple):
    """A queue with its first and its next queue offset.

    Attributes:
        topic: Topic of the queue.
        queue: Queue id.
        first: Offset of its first message.
        next: Offset of its next message.
    """

    topic: str
    queue: int
    first: int
    next: int

    @property
    def messages(self) -> int:
        """Number of entries in the queue (next - first), including filler."""
        return self.next - self.first


class Summary(NamedTuple):
    """A store in numbers; physical offsets and sizes in bytes, times in ms.

    Attributes:
        path: The directory (storePathRootDir).
        stopped_cleanly: Whether there is no `abort` file: the last stop was clean, and no broker is running.
        log_files: Number of log files.
        log_file_size: Size of a log file.
        log_start: Physical offset of the oldest log file.
        log_end: Physical offset at which the log ends.
        no_records: Bytes of the walked part that are damaged, or follow the end of the log up to the last non-zero one.
        first_ms: Store time of the record at the start of the log; None if there is none.
        last_ms: Store time of the last record; None if there is none.
        queue_file_size: Size of a queue file.
        index_files: Number of index files.
        index_keys: Number of keys in them.
        known_flushed_ms: Store time up to which the log is on the device, by RocketMQ's checkpoint.
        cut_copies: Number of files in `cut`: copies of parts that starts and repairs have cut or overwritten.
        queues: All queues, except batch queues.
    """

    path: str
    stopped_cleanly: bool
    log_files: int
    log_file_size: int
    log_start: int
    log_end: int
    no_records: int
    first_ms: int | None
    last_ms: int | None
    queue_file_size: int
    index_files: int
    index_keys: int
    known_flushed_ms: int
    cut_copies: int
    queues: list[QueueSummary]


def summarize(store: FoundStore) -> Summary:
    """Return a summary of a store; the log is walked from the newest file on that begins with a valid record, if any.

    Raises:
        StoreDamaged: A queue file has a wrong size.
        OSError: The disk failed.
    """
    chain = store.log.chain
    loaded, _ = loaded_queues(store)
    queues = [
        QueueSummary(
            one.queue.topic, one.queue.queue_id, one.queue.min_offset, one.queue.max_offset
        )
        for one in loaded
    ]
    first = record_at(chain.files[0], chain.start) if chain.files else None
    end, last, no_records = _log_end(store)
    return Summary(
        path=store.root,
        stopped_cleanly=store.is_clean,
        log_files=len(chain.files),
        log_file_size=chain.file_size,
        log_start=chain.start,
        log_end=end,
        no_records=no_records,
        first_ms=first.store_timestamp if first is not None else None,
        last_ms=last.store_timestamp if last is not None else None,
        queue_file_size=store.settings.queue_file_size,
        index_files=len(store.index_paths),
        index_keys=sum(_key_count(store, path) for path in store.index_paths),
        known_flushed_ms=store.checkpoints.times.log_timestamp,
        cut_copies=len(store.disk.list_names(f"{store.root}/cut")),
        queues=queues,
    )


def _log_end(store: FoundStore) -> tuple[int, Record | None, int]:
    """Return the log's end (its start without records), its newest record, and the number of bytes for `Summary.no_records`."""
    chain = store.log.chain
    begun = (
        file.start for file in reversed(chain.files) if record_at(file, file.start) is not None
    )
    scan, last = LogScan(store, start=next(begun, chain.start)), None
    for records in scan:
        last = records[-1]
    damaged = sum(damage.end - damage.start for damage in scan.damages)
    return scan.end if last is not None else chain.start, last, damaged + scan.tail


def _key_count(store: FoundStore, path: str) -> int:
    if file_size(store.disk, path) < INDEX_HEADER_SIZE:
        return 0
    with opened(store.disk, path, write=False) as fd:
        header = decode_header(store.disk.pread(fd, INDEX_HEADER_SIZE, 0))
    return max(header.index_count - 1, 0)
