"""Repairs a store: wraps or cuts damage in the log, and rebuilds queues and index.

1. The whole log is walked, so that all work is known before any is done.
2. Damaged bytes are copied to `cut/` (unless all are zero), then wrapped: they become bodies of rolled-back records, which
   no broker puts into queues or the index. Damage up to a file's end becomes its end mark. `is_cut` cuts at the first damage.
3. The queues with messages in the log are deleted, and the index. Then the store is opened as after an unclean stop,
   which rebuilds them (cometmq.store.recovery).

After an aborted repair, another one can continue.
"""

from collections.abc import Iterator
from typing import NamedTuple

from cometmq.codec.checkpoint import Checkpoint
from cometmq.codec.record import BLANK_TAIL_SIZE, Record, blank_tail, encode_record, record_size
from cometmq.model.clock import Clock
from cometmq.model.errors import StoreDamaged
from cometmq.model.flags import TRANSACTION_ROLLBACK
from cometmq.offline import unfinished
from cometmq.offline.damage import Damage
from cometmq.offline.found import FoundStore, find_store
from cometmq.offline.known_queues import QueueId
from cometmq.offline.log_scan import LogScan, OnProgress
from cometmq.store.checkpoint import NOTHING_DONE, CheckpointFiles
from cometmq.store.commitlog import CommitLog
from cometmq.store.directory import StoreDirectory
from cometmq.store.disk import Disk
from cometmq.store.lock import AbortMarker, DirectoryLock
from cometmq.store.log_end import LogEnd, record_at
from cometmq.store.log_file import LogFile
from cometmq.store.message_store import MessageStore
from cometmq.store.queue_files import remove_tree
from cometmq.store.settings import StoreSettings
from cometmq.store.stored_record import places_of

DAMAGED_TOPIC = "CometMQ_DAMAGED"
_SHORT_TOPIC = "D"  # If there is no room for the long one.
_WRAP_SIZE_MAX = 4 << 20  # RocketMQ's maxMessageSize.


class RepairPlan(NamedTuple):
    """The plan of a repair.

    Attributes:
        damages: Damaged bytes that are followed by records.
        is_cut: End the log at the first damage; otherwise all damages are wrapped.
        log_end: Physical offset at which the repaired log ends.
        tail: Number of bytes after the last record, up to the last non-zero one of its file, which are cut.
        queues: Queues with messages in the log before the repair; their files are deleted and rebuilt from the repaired log.
        index_files: Number of index files before the repair; the index is rebuilt.
        records: Number of valid records in the log before the repair.
    """

    damages: list[Damage]
    is_cut: bool
    log_end: int
    tail: int
    queues: list[QueueId]
    index_files: int
    records: int


def plan_repair(
    store: FoundStore, *, is_cut: bool = False, on_progress: OnProgress | None = None
) -> RepairPlan:
    """Walk the log and return what has to be done, without changing anything; raises OSError if the disk fails.

    `is_cut` ends the log at the first damage. Calls `on_progress` with the number of bytes walked.
    """
    scan = LogScan(store, on_progress=on_progress)
    queues: dict[QueueId, None] = {}
    for records in scan:
        for record in records:
            for topic, queue_id, _, _ in places_of(record, store.settings.delay_levels_ms):
                queues[QueueId(topic, queue_id)] = None
    end = scan.damages[0].start if is_cut and scan.damages else scan.end
    return RepairPlan(
        scan.damages,
        is_cut,
        end,
        scan.tail,
        sorted(queues),
        len(store.index_paths),
        scan.records,
    )


def repair(
    root: str,
    settings: StoreSettings | None,
    *,
    clock: Clock,
    disk: Disk,
    is_cut: bool = False,
    on_progress: OnProgress | None = None,
) -> RepairPlan:
    """Repair a store and return the completed plan; the broker must be stopped.

    Args:
        root: The directory (storePathRootDir).
        settings: The broker's settings; None to derive them from the files (see `find_store`).
        clock: Clock for the store that is opened at the end.
        disk: File system.
        is_cut: End the log at the first damage instead of wrapping it.
        on_progress: Called with the number of bytes of the log walked.

    Raises:
        StoreLocked: A program has the store open.
        StoreDamaged: A log file is missing or has a wrong size, a part is unsupported, damage is too short to be
            wrapped, or the log cannot be cut there.
        OSError: The disk failed; completed steps remain.
    """
    found = find_store(root, settings, disk)
    lock = DirectoryLock(disk, root)
    lock.take()
    try:
        plan = plan_repair(found, is_cut=is_cut, on_progress=on_progress)
        found.close()
        _mend(root, found.settings, plan, disk)
    finally:
        lock.release()
    MessageStore.open(root, found.settings, clock=clock, disk=disk).close()
    unfinished.forget(disk, root)
    return plan


def _mend(root: str, settings: StoreSettings, plan: RepairPlan, disk: Disk) -> None:
    """Carry out a repair's plan, but for what the next opening does: rebuild queues and index, cut the torn tail."""
    unfinished.note(disk, root, settings)
    AbortMarker(disk, root).set()
    checkpoints = CheckpointFiles(disk, root)
    checkpoints.write(Checkpoint(), NOTHING_DONE)
    log = StoreDirectory(root, settings, disk=disk, read_only=False).log
    try:
        log.chain.load(read_only=False)
        log_end = LogEnd(disk, log, checkpoints)
        if plan.is_cut and plan.damages:
            refusal = log_end.cut(plan.log_end, walked_from=plan.log_end, is_torn=True)
            if refusal is not None:
                raise StoreDamaged(refusal)
        else:
            for damage in plan.damages:
                log_end.keep_copies(damage.start, damage.end)
                _wrap(log, damage)
    finally:
        log.close()
    for topic, queue_id in plan.queues:
        remove_tree(disk, f"{root}/consumequeue/{topic}/{queue_id}")
    remove_tree(disk, f"{root}/index")


def _wrap(log: CommitLog, damage: Damage) -> None:
    """Overwrite damaged bytes with rolled-back records, or with an end mark if they reach the end of a file."""
    for file in log.files_between(damage.start, damage.end):
        start, end = max(damage.start, file.start), min(damage.end, file.end)
        if end == file.end:
            if end - start < BLANK_TAIL_SIZE:
                raise _too_short(file, start, end)
            file.write(blank_tail(end - start), start)
        else:
            store_ms = _store_time_behind(file, end)
            for first, stop in _wrap_ranges(start, end):
                file.write(_wrapping(file, first, stop, store_ms), first)
        file.flush()


def _wrap_ranges(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Divide damaged bytes into ranges of 4 MiB, each to become one record; the last range has up to 6 MiB."""
    while end - start > _WRAP_SIZE_MAX * 3 // 2:
        yield start, start + _WRAP_SIZE_MAX
        start += _WRAP_SIZE_MAX
    yield start, end


def _wrapping(file: LogFile, start: int, end: int, store_ms: int) -> bytes:
    """Return an encoded rolled-back record whose body has the damaged bytes, except those its own fields replace."""
    size = end - start
    topic = DAMAGED_TOPIC
    body_size = size - record_size(body=0, topic=len(topic), properties=0)
    if body_size < 0:
        topic = _SHORT_TOPIC
        body_size = size - record_size(body=0, topic=len(topic), properties=0)
    if body_size < 0:
        raise _too_short(file, start, end)
    head_size = record_size(body=0, topic=0, properties=0) - 3
    record = Record(
        physical_offset=start,
        sys_flag=TRANSACTION_ROLLBACK,
        born_timestamp=store_ms,
        store_timestamp=store_ms,
        body=file.read(start + head_size, body_size),
        topic=topic,
    )
    return encode_record(record)


def _store_time_behind(file: LogFile, offset: int) -> int:
    found = record_at(file, offset)
    return found.store_timestamp if found is not None else 0


def _too_short(file: LogFile, start: int, end: int) -> StoreDamaged:
    return StoreDamaged(
        f"{file.path}: the {end - start} damaged bytes at byte {start - file.start} are too few to "
        "be wrapped in a record; repair with --cut, which ends the log there"
    )
