"""Settings of a store; most fields name their RocketMQ key.

A broker fills them from its own settings (cometmq.broker.settings.broker_settings).
"""

import os
from dataclasses import field

from cometmq.codec.index_file import ENTRIES_DEFAULT, SLOTS_DEFAULT
from cometmq.codec.queue_entry import QUEUE_ENTRY_SIZE
from cometmq.model.frozen import dataclass
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


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Settings of the store; most defaults are those of RocketMQ 5.3.3's MessageStoreConfig.

    Attributes:
        commitlog_paths: Directories of the log (storePathCommitLog); empty means commitlog in the root.
        read_only_commitlog_paths: Directories in which no file is created (readOnlyCommitLogStorePaths).
        commitlog_file_size: Bytes of a log file (mappedFileSizeCommitLog).
        queue_file_size: Bytes of a queue file (mappedFileSizeConsumeQueue).
        flush_sync: Whether the answer to a send waits for its flush, unless WAIT=false (flushDiskType=SYNC_FLUSH).
        flush_interval_ms: Usual pause between asynchronous flushes (flushIntervalCommitLog).
        flush_least_pages: Minimum number of dirty 4 KiB pages for a flush (flushCommitLogLeastPages).
        flush_timed: Keep the pause between flushes; if False, flush once enough pages are dirty (flushCommitLogTimed).
        flush_thorough_interval_ms: Pause after which any dirty byte is flushed (flushCommitLogThoroughInterval).
        sync_flush_timeout_ms: Maximum wait for a synchronous flush (syncFlushTimeout).
        checkpoint_interval_ms: Minimum pause between checkpoints (flushIntervalConsumeQueue).
        disk_warning_ratio: Disk usage (per cent, as in df) above which sends are refused (diskSpaceWarningLevelRatio).
        disk_reserve: Bytes left free when a log file is created, for queue files and configuration; a smaller
            `commitlog_file_size` is used instead.
        transfer_bytes_in_memory: Maximum bytes of a pull of recent messages (maxTransferBytesOnMessageInMemory).
        transfer_count_in_memory: Maximum records of a pull of recent messages (maxTransferCountOnMessageInMemory).
        transfer_bytes_on_disk: Maximum bytes of a pull of old messages (maxTransferBytesOnMessageInDisk). In both cases,
            the first message may be longer.
        transfer_count_on_disk: Maximum records of a pull of old messages (maxTransferCountOnMessageInDisk).
        access_in_memory_ratio: Per cent of `memory_bytes` that recent messages fill (accessMessageInMemoryMaxRatio).
        filter_scan_bytes: Maximum bytes of queue entries that a filtered read examines, if it wants no more messages than
            that (maxFilterMessageSize).
        memory_bytes: Memory of this machine, bytes.
        warm_tail_bytes: Bytes at the log's end that are read through the map if this process has written them.
        delay_levels_ms: Delay of each level, beginning with level 1 (messageDelayLevel).
        warm_files: Write all pages of a log file before use, and lock them in memory if possible (warmMapedFileEnable).
        warm_flush_pages: With synchronous flush, pages per flush while warming (flushLeastPagesWhenWarmMapedFile).
        read_ahead: Let the system read ahead in the log (dataReadAheadEnable).
        append_property_crc: Append a CRC of the whole record as its last property (enabledAppendPropCRC).
        verify_property_crc: Records with such a CRC are only valid if it is right (forceVerifyPropCRC).
        pool_buffers: Number of 4 MiB buffers in which batches wait before they are written (transientStorePoolEnable,
            transientStorePoolSize); 0 to write them at once.
        commit_interval_ms: Pause between writes of these buffers, unless they are full (commitIntervalCommitLog).
        retention: Rules for deleting old files.
        index: Settings of the index.
    """

    commitlog_paths: tuple[str, ...] = ()
    read_only_commitlog_paths: tuple[str, ...] = ()
    commitlog_file_size: int = 1 << 30
    queue_file_size: int = 300_000 * QUEUE_ENTRY_SIZE
    flush_sync: bool = False
    flush_interval_ms: int = 500
    flush_least_pages: int = 4
    flush_timed: bool = True
    flush_thorough_interval_ms: int = 10_000
    sync_flush_timeout_ms: int = 5_000
    checkpoint_interval_ms: int = 1_000
    disk_warning_ratio: int = 90
    disk_reserve: int = 64 << 20
    transfer_bytes_in_memory: int = 262_144
    transfer_count_in_memory: int = 32
    transfer_bytes_on_disk: int = 65_536
    transfer_count_on_disk: int = 8
    access_in_memory_ratio: int = 40
    filter_scan_bytes: int = 16_000
    memory_bytes: int = _memory_bytes()
    warm_tail_bytes: int = _memory_bytes() // 8
    delay_levels_ms: tuple[int, ...] = DELAY_LEVELS_MS
    warm_files: bool = False
    warm_flush_pages: int = 4096
    read_ahead: bool = True
    append_property_crc: bool = False
    verify_property_crc: bool = False
    pool_buffers: int = 0
    commit_interval_ms: int = 200
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
