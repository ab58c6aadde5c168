"""Settings of a store; most fields name their RocketMQ key.

A broker fills them from its own settings (cometmq.broker.settings.broker_settings).
"""

import os
from dataclasses import field

from cometmq.codec.index_file import ENTRIES_DEFAULT, SLOTS_DEFAULT
from cometmq.codec.queue_entry import QUEUE_ENTRY_SIZE
from cometmq.model.frozen import dataclass
from cometmq.model.settings import setting
from cometmq.store.retention import Retention

_MINUTE_MS = 60_000

# Default of RocketMQ's messageDelayLevel: 1s 5s 10s 30s 1m ... 10m 20m 30m 1h 2h.
DELAY_LEVELS_MS = (
    1_000,
    5_000,
    10_000,
    30_000,
    *(minutes * _MINUTE_MS for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120)),
)


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Settings of the index; the defaults are those of RocketMQ 5.3.3's MessageStoreConfig.

    Attributes:
        is_built: Whether keys of new messages are indexed (messageIndexEnable).
        is_safe: If only Java's checkpoint can be used, begin recovery as early as the index needs (messageIndexSafe).
        slots: Slots of an index file (maxHashSlotNum).
        entries: Entries of an index file, including the unused first one (maxIndexNum).
        answer_count_max: Maximum number of messages that a search by key returns (maxMsgsNumBatch).
    """

    is_built: bool = True
    is_safe: bool = False
    slots: int = SLOTS_DEFAULT
    entries: int = ENTRIES_DEFAULT
    answer_count_max: int = 64


@dataclass(frozen=True)
class LogKeys:
    """Settings of the log and of reading it that a broker and its store have in common: keys of RocketMQ 5.3.3.

    Attributes:
        commitlog_file_size: size of a log file, bytes.
        queue_file_size: size of a queue file, bytes; 20 per entry.
        flush_interval_ms: pause between asynchronous flushes, ms.
        flush_least_pages: least number of dirty pages (4 KiB) for a flush.
        is_flush_timed: asynchronous flushes keep their pause; otherwise enough dirty pages are flushed at once.
        flush_thorough_interval_ms: after this time any dirty byte is flushed, ms.
        sync_flush_timeout_ms: a send that waits longer for a flush is answered FLUSH_DISK_TIMEOUT, ms.
        checkpoint_interval_ms: least pause between checkpoints, ms.
        is_warmed: write every page of a log file before it is used, and keep it in memory.
        warm_flush_pages: with SYNC_FLUSH, number of pages to flush at once while a file is warmed.
        is_read_ahead: let the system read the log ahead; without it old messages use less of the page cache, but
            reading many of them takes longer.
        is_whole_crc_written: each record gets a CRC of all its bytes, as its last property.
        is_whole_crc_checked: after an unclean stop a record's CRC must match, if it has one.
        commit_interval_ms: with transientStorePoolEnable, longest time until an answered send is in its file, ms.
        disk_warning_ratio: per cent of the disk used above which sends are refused, until it is 2 below.
        access_in_memory_ratio: per cent of the memory that recent messages are assumed to fill.
        transfer_bytes_in_memory: most bytes of a pull of recent messages, if it gets several.
        transfer_count_in_memory: most messages of a pull of recent messages.
        transfer_bytes_on_disk: most bytes of a pull of older messages, if it gets several.
        transfer_count_on_disk: most messages of a pull of older messages.
    """

    __slots__ = ()

    commitlog_file_size: int = setting(
        1 << 30,
        key="mappedFileSizeCommitLog",
        aliases=("mapedFileSizeCommitLog",),
        least=4096,
    )
    queue_file_size: int = setting(
        300_000 * QUEUE_ENTRY_SIZE,
        key="mappedFileSizeConsumeQueue",
        aliases=("mapedFileSizeConsumeQueue",),
        least=20,
    )
    flush_interval_ms: int = setting(500, key="flushIntervalCommitLog", least=1)
    flush_least_pages: int = setting(4, key="flushCommitLogLeastPages", least=0)
    is_flush_timed: bool = setting(default=True, key="flushCommitLogTimed")
    flush_thorough_interval_ms: int = setting(
        10_000, key="flushCommitLogThoroughInterval", least=1
    )
    sync_flush_timeout_ms: int = setting(5_000, key="syncFlushTimeout", least=1)
    checkpoint_interval_ms: int = setting(1_000, key="flushIntervalConsumeQueue", least=1)
    is_warmed: bool = setting(default=False, key="warmMapedFileEnable")
    warm_flush_pages: int = setting(4096, key="flushLeastPagesWhenWarmMapedFile", least=1)
    is_read_ahead: bool = setting(default=True, key="dataReadAheadEnable", is_remote=True)
    is_whole_crc_written: bool = setting(default=False, key="enabledAppendPropCRC")
    is_whole_crc_checked: bool = setting(
        default=False,
        key="forceVerifyPropCRC",
        differs="in RocketMQ a record without one is invalid, too",
    )
    commit_interval_ms: int = setting(200, key="commitIntervalCommitLog", least=1)
    disk_warning_ratio: int = setting(90, key="diskSpaceWarningLevelRatio", least=1, most=100)
    access_in_memory_ratio: int = setting(
        40, key="accessMessageInMemoryMaxRatio", least=0, most=100
    )
    transfer_bytes_in_memory: int = setting(
        262_144, key="maxTransferBytesOnMessageInMemory", least=1, is_remote=True
    )
    transfer_count_in_memory: int = setting(
        32, key="maxTransferCountOnMessageInMemory", least=1, is_remote=True
    )
    transfer_bytes_on_disk: int = setting(
        65_536, key="maxTransferBytesOnMessageInDisk", least=1, is_remote=True
    )
    transfer_count_on_disk: int = setting(
        8, key="maxTransferCountOnMessageInDisk", least=1, is_remote=True
    )


@dataclass(frozen=True, slots=True)
class StoreSettings(LogKeys):
    """Settings of the store; most defaults are those of RocketMQ 5.3.3's MessageStoreConfig.

    Attributes:
        commitlog_paths: Directories of the log (storePathCommitLog); empty means commitlog in the root.
        read_only_commitlog_paths: Directories in which no file is created (readOnlyCommitLogStorePaths).
        flush_sync: Whether the answer to a send waits for its flush, unless WAIT=false (flushDiskType=SYNC_FLUSH).
        disk_reserve: Bytes left free when a log file is created, for queue files and configuration; a smaller
            `commitlog_file_size` is used instead.
        filter_scan_bytes: Maximum bytes of queue entries that a filtered read examines, if it wants no more messages than
            that (maxFilterMessageSize).
        memory_bytes: Memory of this machine, bytes.
        warm_tail_bytes: Bytes at the log's end that are read through the map if this process has written them.
        delay_levels_ms: Delay of each level, beginning with level 1 (messageDelayLevel).
        pool_buffers: Number of 4 MiB buffers in which batches wait before they are written (transientStorePoolEnable,
            transientStorePoolSize); 0 to write them at once.
        retention: Rules for deleting old files.
        index: Settings of the index.
    """

    commitlog_paths: tuple[str, ...] = ()
    read_only_commitlog_paths: tuple[str, ...] = ()
    flush_sync: bool = False
    disk_reserve: int = 64 << 20
    filter_scan_bytes: int = 16_000
    memory_bytes: int = _memory_bytes()
    warm_tail_bytes: int = _memory_bytes() // 8
    delay_levels_ms: tuple[int, ...] = DELAY_LEVELS_MS
    pool_buffers: int = 0
    retention: Retention = field(default_factory=Retention)
    index: IndexSettings = field(default_factory=IndexSettings)

    @property
    def queue_entries_per_file(self) -> int:
        """Entries of a queue file; a file size is rounded up to whole entries, as in MessageStoreConfig."""
        return -(-self.queue_file_size // QUEUE_ENTRY_SIZE)

    @property
    def in_memory_bytes(self) -> int:
        """Distance from the log's end, in bytes, within which a record counts as in memory."""
        return self.memory_bytes * self.access_in_memory_ratio // 100

    @property
    def file_reserve(self) -> int:
        """Bytes that stay free when a log file is created."""
        return min(self.disk_reserve, self.commitlog_file_size)
