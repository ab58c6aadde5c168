"""Settings of a broker that concern its files: RocketMQ's keys, and what the store makes of them.

Next: cometmq.store.settings
"""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from cometmq.model.errors import SettingsError
from cometmq.model.settings import setting
from cometmq.store.settings import StoreSettings

_LOG_FILE_SIZE = 1 << 30
_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class FlushDiskType(Enum):
    """When a send is answered: once written, or once it is on the device."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


@dataclass(frozen=True, slots=True)
class StoreKeys:
    """MessageStoreConfig of RocketMQ 5.3.3, as far as used.

    Attributes:
        store_path: the store directory.
        commitlog_path: the log, where it is not `commitlog` in the store directory; one directory.
        commitlog_file_size: bytes of a log file.
        queue_file_size: bytes of a queue file, 20 an entry.
        flush_disk_type: ASYNC_FLUSH, or SYNC_FLUSH: a send is answered when it is on the device.
        flush_interval_ms: pause between asynchronous flushes, ms.
        flush_least_pages: pages of 4 KiB that make one worth it.
        flush_thorough_interval_ms: after this long any dirty byte is flushed, ms.
        sync_flush_timeout_ms: after this long a send is answered FLUSH_DISK_TIMEOUT, ms.
        checkpoint_interval_ms: least pause between checkpoints, ms.
        flush_offsets_interval_ms: pause between saves of consumer offsets, ms.
        disk_warning_ratio: per cent of the disk used above which sends are refused; differs:
            nothing is ever deleted for it.
        access_in_memory_ratio: per cent of the memory that recent messages are taken to fill.
        transfer_bytes_in_memory: most bytes of a pull of recent messages.
        transfer_count_in_memory: most messages of it.
        transfer_bytes_on_disk: most bytes of a pull of older messages.
        transfer_count_on_disk: most messages of it.
        delay_levels: the delay levels, from level 1.
    """

    store_path: str = setting("~/store", key="storePathRootDir")
    commitlog_path: str | None = setting(None, key="storePathCommitLog")
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
    flush_thorough_interval_ms: int = setting(
        10_000, key="flushCommitLogThoroughInterval", least=1
    )
    sync_flush_timeout_ms: int = setting(5_000, key="syncFlushTimeout", least=1)
    checkpoint_interval_ms: int = setting(1_000, key="flushIntervalConsumeQueue", least=1)
    flush_offsets_interval_ms: int = setting(5_000, key="flushConsumerOffsetInterval", least=1)
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
    delay_levels: str = setting(_DELAY_LEVELS, key="messageDelayLevel")

    @property
    def store_directory(self) -> str:
        """The root (storePathRootDir) with the home directory in place of ~."""
        return _absolute(self.store_path)

    def store_settings(self) -> StoreSettings:
        """What the store wants to know.

        Raises:
            SettingsError: a delay level that means nothing, or a log in several directories.
        """
        return StoreSettings(
            commitlog_path=self._commitlog_directory(),
            commitlog_file_size=self.commitlog_file_size,
            queue_file_size=self.queue_file_size,
            flush_sync=self.flush_disk_type is FlushDiskType.SYNC_FLUSH,
            flush_interval_ms=self.flush_interval_ms,
            flush_least_pages=self.flush_least_pages,
            flush_thorough_interval_ms=self.flush_thorough_interval_ms,
            sync_flush_timeout_ms=self.sync_flush_timeout_ms,
            checkpoint_interval_ms=self.checkpoint_interval_ms,
            disk_warning_ratio=self.disk_warning_ratio,
            transfer_bytes_in_memory=self.transfer_bytes_in_memory,
            transfer_count_in_memory=self.transfer_count_in_memory,
            transfer_bytes_on_disk=self.transfer_bytes_on_disk,
            transfer_count_on_disk=self.transfer_count_on_disk,
            access_in_memory_ratio=self.access_in_memory_ratio,
            delay_levels_ms=_delay_levels_ms(self.delay_levels),
        )

    def _commitlog_directory(self) -> str | None:
        """The log's directory, where it is not in the root."""
        if self.commitlog_path is None:
            return None
        if "," in self.commitlog_path:
            # Taking the first silently would begin an empty log beside somebody's data.
            raise SettingsError(
                f"storePathCommitLog={self.commitlog_path}: a log in several directories is not "
                "supported yet; name one"
            )
        return _absolute(self.commitlog_path)


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())


def _delay_levels_ms(text: str) -> tuple[int, ...]:
    levels = []
    for word in text.split():
        if word[-1] not in _UNITS_MS or not word[:-1].isdecimal():
            raise SettingsError(
                f"messageDelayLevel: {word} is no delay; write a number and s, m, h or d"
            )
        levels.append(int(word[:-1]) * _UNITS_MS[word[-1]])
    return tuple(levels)
