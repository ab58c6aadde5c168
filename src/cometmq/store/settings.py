"""Settings of a store; each field names the RocketMQ key it comes from.

The broker reads `broker.conf` and fills this in (cometmq.broker.settings.broker_settings).
"""

import os
from dataclasses import field

from cometmq.codec.index_file import ENTRIES_DEFAULT, SLOTS_DEFAULT
from cometmq.codec.queue_entry import QUEUE_ENTRY_SIZE
from cometmq.model.frozen import dataclass
from cometmq.store.retention import Retention

_MINUTE_MS = 60_000

# messageDelayLevel of RocketMQ: 1s 5s 10s 30s 1m ... 10m 20m 30m 1h 2h.
DELAY_LEVELS_MS = (
    1_000,
    5_000,
    10_000,
    30_000,
    *(minutes * _MINUTE_MS for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120)),
)


def _memory_bytes() -> int:
    """The machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Settings of the index; the defaults are those of RocketMQ 5.3.3's MessageStoreConfig.

    Attributes:
        is_built: keys of new messages are entered (messageIndexEnable).
        is_safe: recovery begins as early as the index needs where only Java's checkpoint is there
            (messageIndexSafe).
        slots: of an index file (maxHashSlotNum).
        entries: of an index file, the first of which is not used (maxIndexNum).
        answer_count_max: most messages of an answer (maxMsgsNumBatch).
    """

    is_built: bool = True
    is_safe: bool = False
    slots: int = SLOTS_DEFAULT
    entries: int = ENTRIES_DEFAULT
    answer_count_max: int = 64


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Settings of the store; the defaults are those of RocketMQ 5.3.3's MessageStoreConfig.

    Attributes:
        commitlog_paths: the log's directories (storePathCommitLog); none: commitlog in the root.
        read_only_commitlog_paths: directories that get no new file (readOnlyCommitLogStorePaths).
        commitlog_file_size: bytes of a log file (mappedFileSizeCommitLog).
        queue_file_size: bytes of a queue file (mappedFileSizeConsumeQueue).
        flush_sync: a send is answered when it is on disk (flushDiskType=SYNC_FLUSH).
        flush_interval_ms: pause between asynchronous flushes (flushIntervalCommitLog).
        flush_least_pages: 4 KiB pages that make one worth it (flushCommitLogLeastPages).
        flush_timed: asynchronous flushes keep their pause; else enough pages are flushed at once
            (flushCommitLogTimed).
        flush_thorough_interval_ms: after this long any dirty byte is (flushCommitLogThoroughInterval).
        sync_flush_timeout_ms: longest wait for a synchronous flush (syncFlushTimeout).
        checkpoint_interval_ms: least pause between checkpoints (flushIntervalConsumeQueue).
        disk_warning_ratio: per cent used, as df shows it, above which sends are refused
            (diskSpaceWarningLevelRatio; Java allows 35 to 90).
        disk_reserve: bytes left free when a file is made, for queue files and configuration;
            a smaller `commitlog_file_size` counts instead.
        transfer_bytes_in_memory: most bytes of a pull (maxTransferBytesOnMessageInMemory).
        transfer_count_in_memory: most records of a pull (maxTransferCountOnMessageInMemory).
        transfer_bytes_on_disk: the same for old messages (maxTransferBytesOnMessageInDisk).
        transfer_count_on_disk: the same for old messages (maxTransferCountOnMessageInDisk).
        access_in_memory_ratio: per cent of the memory that recent messages are taken to
            fill (accessMessageInMemoryMaxRatio).
        filter_scan_bytes: most queue bytes looked at for one pull (maxFilterMessageSize).
        memory_bytes: what the ratio above is taken of.
        warm_tail_bytes: how much of what this process wrote is read through the map.
        delay_levels_ms: delay of each level, the first is level 1 (messageDelayLevel).
        warm_files: write every page of a log file before it is used, and keep it in memory
            (warmMapedFileEnable).
        warm_flush_pages: with synchronous flush so many of them are flushed at once
            (flushLeastPagesWhenWarmMapedFile).
        read_ahead: let the system read more of the log than is asked for (dataReadAheadEnable).
        append_property_crc: records get a CRC of the whole as their last property
            (enabledAppendPropCRC).
        verify_property_crc: one that a record has must be right for it to be valid
            (forceVerifyPropCRC).
        pool_buffers: of 4 MiB, in which batches wait for `commit_interval_ms` before they are
            written (transientStorePoolEnable, transientStorePoolSize); 0: none, they are written
            at once.
        commit_interval_ms: how long they wait at most (commitIntervalCommitLog).
        retention: when old files go.
        index: of the keys of messages.
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
        """Entries of a queue file: as MessageStoreConfig, its size is rounded up to whole ones."""
        return -(-self.queue_file_size // QUEUE_ENTRY_SIZE)

    @property
    def in_memory_bytes(self) -> int:
        """Distance from the log's end within which a record counts as in memory."""
        return self.memory_bytes * self.access_in_memory_ratio // 100

    @property
    def file_reserve(self) -> int:
        """Bytes that stay free when a log file is made."""
        return min(self.disk_reserve, self.commitlog_file_size)
