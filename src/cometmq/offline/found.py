"""Finds the parts of a store directory: log files, queues, index, and whether the last stop was clean."""

from dataclasses import dataclass, replace

from cometmq.codec.index_file import INDEX_HEADER_SIZE, decode_header
from cometmq.codec.queue_entry import QUEUE_ENTRY_SIZE
from cometmq.model.errors import StoreDamaged
from cometmq.model.text import plural
from cometmq.offline import unfinished
from cometmq.offline.delay_levels import find_delay_levels
from cometmq.offline.index_shape import find_shape
from cometmq.offline.known_queues import QueueId
from cometmq.store.checkpoint import CheckpointFiles
from cometmq.store.commitlog import CommitLog
from cometmq.store.directory import StoreDirectory
from cometmq.store.disk import Disk, file_size, opened
from cometmq.store.file_chain import NAME_DIGITS, FileChain
from cometmq.store.index_file import IndexShape
from cometmq.store.opening import check_kind
from cometmq.store.real_disk import RealDisk
from cometmq.store.settings import StoreSettings

INDEX_NAME_DIGITS = 17  # yyyyMMddHHmmssSSS


@dataclass(frozen=True, slots=True)
class FoundStore:
    """A store directory opened for reading.

    Attributes:
        root: The directory (storePathRootDir).
        settings: The given settings, or derived ones, with the file sizes that were found.
        log: The log; its end was not searched.
        queues: Queues that have a directory in `consumequeue`.
        index_paths: Index files, oldest first.
        checkpoints: The loaded checkpoint files.
        is_clean: Whether there is no `abort` file: no broker has the store open, and the last stop was clean.
    """

    root: str
    disk: Disk
    settings: StoreSettings
    log: CommitLog
    queues: list[QueueId]
    index_paths: list[str]
    checkpoints: CheckpointFiles
    is_clean: bool

    def close(self) -> None:
        """Close the files of the log."""
        self.log.close()


def find_store(
    root: str,
    settings: StoreSettings | None,
    disk: Disk | None = None,
    *,
    log_paths: tuple[str, ...] = (),
) -> FoundStore:
    """Examine a store directory and open its log for reading.

    Args:
        root: The directory (storePathRootDir).
        settings: The broker's settings, for values that the files do not show. None if they are unknown: delay levels
            are then derived from the delay topic's queues, as far as these show them.
        disk: File system; None for the one of this machine.
        log_paths: Directories of the log if `settings` is None; empty means `commitlog` in the root.

    Raises:
        StoreDamaged: There is no log file, one is missing between others, log files differ in size, or a part is in an
            unsupported form.
        OSError: The disk failed.
    """
    disk = disk or RealDisk()
    check_kind(disk, root, is_for_messages=True)
    elsewhere = replace(StoreSettings(), commitlog_paths=log_paths) if log_paths else None
    found = with_found_sizes(root, settings or elsewhere, disk)
    directory = StoreDirectory(root, found, disk=disk, read_only=True)
    directory.log.chain.load(read_only=True)
    directory.checkpoints.load()
    files = directory.queues.files
    if settings is None:
        levels_ms = find_delay_levels(disk, files, directory.log, found.delay_levels_ms)
        found = replace(found, delay_levels_ms=levels_ms)
    index = f"{root}/index"
    return FoundStore(
        root,
        disk,
        found,
        directory.log,
        _queue_ids(disk, files.directory),
        [f"{index}/{name}" for name in _numbers(disk, index, INDEX_NAME_DIGITS)],
        directory.checkpoints,
        not directory.abort.is_set(),
    )


def with_found_sizes(root: str, settings: StoreSettings | None, disk: Disk) -> StoreSettings:
    """Return the settings, or RocketMQ's defaults, with a store's file sizes; raises StoreDamaged without a log file.

    During a repair and after an aborted one, sizes of queue and index files, and delay levels, are as it recorded them.
    """
    settings = settings or StoreSettings()
    chain = StoreDirectory(root, settings, disk=disk, read_only=True).log.chain
    log_size = _log_file_size(disk, chain)
    queue_size = _queue_file_size(disk, f"{root}/consumequeue") or settings.queue_file_size
    if log_size is None:
        raise StoreDamaged(
            f"{' and '.join(chain.directories)} {plural(len(chain.directories), 'has', 'have')} no log file, so "
            f"{root} is not a store; name storePathRootDir, and pass the broker.conf if the log is elsewhere"
        )
    left = unfinished.known(disk, root, settings)
    if left is not None:
        return replace(left, commitlog_file_size=log_size)
    shape = _index_shape(disk, f"{root}/index")
    index = settings.index
    if shape is not None:
        index = replace(index, slots=shape.slots, entries=shape.entries)
    return replace(
        settings, commitlog_file_size=log_size, queue_file_size=queue_size, index=index
    )


def _log_file_size(disk: Disk, chain: FileChain) -> int | None:
    """Return the size of the first non-empty log file in bytes, or None."""
    for directory in chain.directories:
        for name in _numbers(disk, directory, NAME_DIGITS):
            size = file_size(disk, f"{directory}/{name}")
            if size:
                return size
    return None


def _queue_file_size(disk: Disk, root: str) -> int | None:
    """Return the size in bytes of the first queue file that is not empty and has only whole entries, or None."""
    for topic, queue_id in _queue_ids(disk, root):
        directory = f"{root}/{topic}/{queue_id}"
        for name in _numbers(disk, directory, NAME_DIGITS):
            size = file_size(disk, f"{directory}/{name}")
            if size and size % QUEUE_ENTRY_SIZE == 0:
                return size
    return None


def _index_shape(disk: Disk, directory: str) -> IndexShape | None:
    for name in _numbers(disk, directory, INDEX_NAME_DIGITS):
        with opened(disk, f"{directory}/{name}", write=False) as fd:
            head = disk.pread(fd, INDEX_HEADER_SIZE, 0)
            shape = None
            if len(head) == INDEX_HEADER_SIZE:
                shape = find_shape(disk, fd, decode_header(head))
        if shape is not None:
            return shape
    return None


def _queue_ids(disk: Disk, root: str) -> list[QueueId]:
    return [
        QueueId(topic, int(name))
        for topic in disk.list_names(root)
        for name in disk.list_names(f"{root}/{topic}")
        if name.isdigit()
    ]


def _numbers(disk: Disk, directory: str, digits: int) -> list[str]:
    names = disk.list_names(directory)
    return [name for name in names if len(name) == digits and name.isdigit()]
