"""Settings of a broker for its files: mostly RocketMQ's keys, and their conversion to settings of the store."""

from enum import Enum
from pathlib import Path

from cometmq.broker.settings.delay_keys import DelayKeys
from cometmq.codec.index_file import ENTRIES_DEFAULT, SLOTS_DEFAULT
from cometmq.model.delay_levels import delay_levels_ms
from cometmq.model.errors import SettingsError
from cometmq.model.frozen import dataclass
from cometmq.model.numbers import whole_number
from cometmq.model.settings import setting
from cometmq.store.retention import Retention
from cometmq.store.settings import IndexSettings, StoreSettings

_INT_MAX = 0x7FFFFFFF
_LOG_FILE_SIZE = 1 << 30
_HOUR_MS = 3_600_000
_HOURS = 24


class FlushDiskType(Enum):
    """The state of a message when its send is confirmed (unless WAIT=false): in memory or written (ASYNC_FLUSH), or flushed."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


@dataclass(frozen=True, slots=True)
class StoreKeys(DelayKeys):
    """Settings of a broker's files: keys of RocketMQ 5.3.3, as far as supported, and archiveGuard of CometMQ only.

    Attributes:
        store_path: the store directory.
        commitlog_path: the log, if it is not `commitlog` in the store directory; several directories are separated by
            commas and get new files in turn.
        read_only_commitlog_paths: further directories of the log that get no new files.
        commitlog_file_size: size of a log file, bytes.
        queue_file_size: size of a queue file, bytes; 20 per entry.
        flush_disk_type: ASYNC_FLUSH, or SYNC_FLUSH: a send is answered when it is flushed.
        flush_interval_ms: pause between asynchronous flushes, ms.
        flush_least_pages: least number of dirty pages (4 KiB) for a flush.
        is_flush_timed: asynchronous flushes keep their pause; otherwise enough dirty pages are flushed at once.
        flush_thorough_interval_ms: after this time any dirty byte is flushed, ms.
        sync_flush_timeout_ms: a send that waits longer for a flush is answered FLUSH_DISK_TIMEOUT, ms.
        checkpoint_interval_ms: least pause between checkpoints, ms.
        flush_offsets_interval_ms: pause between saves of consumer offsets, ms.
        is_warmed: write every page of a log file before it is used, and keep it in memory.
        warm_flush_pages: with SYNC_FLUSH, number of pages to flush at once while a file is warmed.
        is_read_ahead: let the system read the log ahead; without it old messages use less of the page cache, but
            reading many of them takes longer.
        is_whole_crc_written: each record gets a CRC of all its bytes, as its last property.
        is_whole_crc_checked: after an unclean stop a record's CRC must match, if it has one.
        is_pool_used: with ASYNC_FLUSH a send is answered before it is written: faster if the page cache is busy, but
            the death of the process loses the latest sends; not on a slave.
        pool_buffers: memory for answered sends that are not written yet, in buffers of 4 MiB.
        commit_interval_ms: longest time until an answered send is written from that memory, ms.
        disk_warning_ratio: per cent of the disk used above which sends are refused, until it is 2 below.
        reserved_hours: a log file expires this long after its last write, hours.
        delete_when: hours of the day, local time, at which expired files are deleted; `04;16` is both.
        disk_max_ratio: per cent of the disk used above which expired files are deleted at once.
        disk_forced_ratio: per cent of the disk used above which other files are deleted, too, if
            `cleanFileForciblyEnable` is true; a log directory above it gets no new files while another has room.
        is_clean_forced: delete files that have not expired when the disk is full; differs: true in RocketMQ.
        delete_batch_max: most log files deleted per round.
        clean_interval_ms: pause between rounds of deleting files, ms.
        delete_pause_ms: pause between the deletions of two log files, ms.
        queue_delete_pause_ms: pause between deletions of queue files, 256 queues at a time, ms.
        delete_retry_ms: a failed deletion is retried after this time, ms.
        is_archive_guarded: only delete log files that an archive of `cometmq store archive` or `pipeline archive` has,
            even when the disk is full; differs: RocketMQ has nothing like it.
        access_in_memory_ratio: per cent of the memory that recent messages are assumed to fill.
        transfer_bytes_in_memory: most bytes of a pull of recent messages, if it gets several.
        transfer_count_in_memory: most messages of a pull of recent messages.
        transfer_bytes_on_disk: most bytes of a pull of older messages, if it gets several.
        transfer_count_on_disk: most messages of a pull of older messages.
        is_index_built: the keys of new messages are indexed.
        is_index_safe: after an unclean stop of a Java broker, recovery begins as early as the index needs; after one of
            this broker, the index lacks nothing.
        index_slots: number of slots of an index file.
        index_entries: number of entries of an index file, the first of which is not used.
        query_count_max: most messages that a query returns.
        query_count_unique: most messages that a query by unique key returns, whatever it requests.
    """

    store_path: str = setting("~/store", key="storePathRootDir")
    commitlog_path: str | None = setting(None, key="storePathCommitLog")
    read_only_commitlog_paths: str = setting("", key="readOnlyCommitLogStorePaths")
    commitlog_file_size: int = setting(
        _LOG_FILE_SIZE,
        key="mappedFileSizeCommitLog",
        aliases=("mapedFileSizeCommitLog",),
        least=4096,
    )
    queue_file_size: int = setting(
        6_000_000,
        key="mappedFileSizeConsumeQueue",
        aliases=("mapedFileSizeConsumeQueue",),
        least=20,
    )
    flush_disk_type: FlushDiskType = setting(FlushDiskType.ASYNC_FLUSH)
    flush_interval_ms: int = setting(500, key="flushIntervalCommitLog", least=1)
    flush_least_pages: int = setting(4, key="flushCommitLogLeastPages", least=0)
    is_flush_timed: bool = setting(default=True, key="flushCommitLogTimed")
    flush_thorough_interval_ms: int = setting(
        10_000, key="flushCommitLogThoroughInterval", least=1
    )
    sync_flush_timeout_ms: int = setting(5_000, key="syncFlushTimeout", least=1)
    checkpoint_interval_ms: int = setting(1_000, key="flushIntervalConsumeQueue", least=1)
    flush_offsets_interval_ms: int = setting(5_000, key="flushConsumerOffsetInterval", least=1)
    is_warmed: bool = setting(default=False, key="warmMapedFileEnable")
    warm_flush_pages: int = setting(4096, key="flushLeastPagesWhenWarmMapedFile", least=1)
    is_read_ahead: bool = setting(default=True, key="dataReadAheadEnable", is_remote=True)
    is_whole_crc_written: bool = setting(default=False, key="enabledAppendPropCRC")
    is_whole_crc_checked: bool = setting(
        default=False,
        key="forceVerifyPropCRC",
        differs="in RocketMQ a record without one is invalid, too",
    )
    is_pool_used: bool = setting(default=False, key="transientStorePoolEnable")
    pool_buffers: int = setting(
        5,
        key="transientStorePoolSize",
        least=1,
        differs="RocketMQ's have the size of a log file",
    )
    commit_interval_ms: int = setting(200, key="commitIntervalCommitLog", least=1)
    disk_warning_ratio: int = setting(90, key="diskSpaceWarningLevelRatio", least=1, most=100)
    reserved_hours: int = setting(72, key="fileReservedTime", least=1, is_remote=True)
    delete_when: str = setting("04", is_remote=True)
    disk_max_ratio: int = setting(75, key="diskMaxUsedSpaceRatio", least=1, most=100)
    disk_forced_ratio: int = setting(85, key="diskSpaceCleanForciblyRatio", least=1, most=100)
    is_clean_forced: bool = setting(default=False, key="cleanFileForciblyEnable")
    delete_batch_max: int = setting(10, key="deleteFileBatchMax", least=1)
    clean_interval_ms: int = setting(10_000, key="cleanResourceInterval", least=1)
    delete_pause_ms: int = setting(100, key="deleteCommitLogFilesInterval", least=0)
    queue_delete_pause_ms: int = setting(100, key="deleteConsumeQueueFilesInterval", least=0)
    delete_retry_ms: int = setting(120_000, key="redeleteHangedFileInterval", least=1)
    is_archive_guarded: bool = setting(default=False, key="archiveGuard")
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
    is_index_built: bool = setting(default=True, key="messageIndexEnable")
    is_index_safe: bool = setting(default=False, key="messageIndexSafe")
    index_slots: int = setting(SLOTS_DEFAULT, key="maxHashSlotNum", least=1, most=_INT_MAX)
    index_entries: int = setting(ENTRIES_DEFAULT, key="maxIndexNum", least=2, most=_INT_MAX)
    query_count_max: int = setting(64, key="maxMsgsNumBatch", least=1)
    query_count_unique: int = setting(32, key="defaultQueryMaxNum", least=1)

    @property
    def store_directory(self) -> str:
        """The absolute path of the store directory (storePathRootDir), with ~ expanded."""
        return _absolute(self.store_path)

    def store_settings(self) -> StoreSettings:
        """Return the settings of the store.

        Raises:
            SettingsError: A delay level or an hour is invalid, or all named log directories are set read-only.
        """
        is_sync = self.flush_disk_type is FlushDiskType.SYNC_FLUSH
        paths = _paths(self.commitlog_path or "")
        read_only = _paths(self.read_only_commitlog_paths)
        if paths and set(paths) <= set(read_only):
            raise SettingsError(
                f"readOnlyCommitLogStorePaths={self.read_only_commitlog_paths}: at least one directory of "
                f"storePathCommitLog={self.commitlog_path} must be writable, for new files"
            )
        return StoreSettings(
            commitlog_paths=paths,
            read_only_commitlog_paths=read_only,
            commitlog_file_size=self.commitlog_file_size,
            queue_file_size=self.queue_file_size,
            flush_sync=is_sync,
            flush_interval_ms=self.flush_interval_ms,
            flush_least_pages=self.flush_least_pages,
            flush_timed=self.is_flush_timed,
            flush_thorough_interval_ms=self.flush_thorough_interval_ms,
            sync_flush_timeout_ms=self.sync_flush_timeout_ms,
            checkpoint_interval_ms=self.checkpoint_interval_ms,
            disk_warning_ratio=self.disk_warning_ratio,
            transfer_bytes_in_memory=self.transfer_bytes_in_memory,
            transfer_count_in_memory=self.transfer_count_in_memory,
            transfer_bytes_on_disk=self.transfer_bytes_on_disk,
            transfer_count_on_disk=self.transfer_count_on_disk,
            access_in_memory_ratio=self.access_in_memory_ratio,
            delay_levels_ms=delay_levels_ms(self.delay_levels),
            index=self._index(),
            warm_files=self.is_warmed,
            warm_flush_pages=self.warm_flush_pages,
            read_ahead=self.is_read_ahead,
            append_property_crc=self.is_whole_crc_written,
            verify_property_crc=self.is_whole_crc_checked,
            # As in MessageStoreConfig.isTransientStorePoolEnable.
            pool_buffers=0 if is_sync or not self.is_pool_used else self.pool_buffers,
            commit_interval_ms=self.commit_interval_ms,
            retention=self._retention(),
        )

    def _index(self) -> IndexSettings:
        return IndexSettings(
            is_built=self.is_index_built,
            is_safe=self.is_index_safe,
            slots=self.index_slots,
            entries=self.index_entries,
            answer_count_max=self.query_count_max,
        )

    def _retention(self) -> Retention:
        return Retention(
            reserved_ms=self.reserved_hours * _HOUR_MS,
            delete_hours=_delete_hours(self.delete_when),
            max_used_ratio=self.disk_max_ratio,
            forced_ratio=self.disk_forced_ratio,
            is_forced=self.is_clean_forced,
            batch_max=self.delete_batch_max,
            interval_ms=self.clean_interval_ms,
            pause_ms=self.delete_pause_ms,
            queue_pause_ms=self.queue_delete_pause_ms,
            retry_ms=self.delete_retry_ms,
            is_archive_guarded=self.is_archive_guarded,
        )


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())


def _paths(text: str) -> tuple[str, ...]:
    """Return the directories of a comma-separated list, as RocketMQ's MULTI_PATH_SPLITTER does."""
    return tuple(_absolute(part.strip()) for part in text.split(",") if part.strip())


def _delete_hours(text: str) -> frozenset[int]:
    hours = frozenset(part.strip() for part in text.split(";") if part.strip())
    for hour in hours:
        if whole_number(hour) not in range(_HOURS):
            raise SettingsError(
                f"deleteWhen={text}: {hour} is not an hour; write 00 to 23, several separated by ;"
            )
    return frozenset(map(int, hours))
