"""Settings of a broker for its files: mostly RocketMQ's keys, and their conversion to settings of the store."""

from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

from cometmq.broker.settings.delay_keys import DelayKeys
from cometmq.codec.index_file import ENTRIES_DEFAULT, SLOTS_DEFAULT
from cometmq.model.delay_levels import delay_levels_ms
from cometmq.model.errors import SettingsError
from cometmq.model.frozen import dataclass
from cometmq.model.numbers import whole_number
from cometmq.model.settings import setting
from cometmq.store.retention import CleaningKeys, Retention
from cometmq.store.settings import IndexSettings, LogKeys, StoreSettings

_INT_MAX = 0x7FFFFFFF
_HOUR_MS = 3_600_000
_HOURS = 24


class FlushDiskType(Enum):
    """The state of a message when its send is confirmed (unless WAIT=false): in memory or written (ASYNC_FLUSH), or flushed."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


@dataclass(frozen=True, slots=True)
class StoreKeys(CleaningKeys, LogKeys, DelayKeys):
    """Settings of a broker's files: keys of RocketMQ 5.3.3, as far as supported, and archiveGuard of CometMQ only.

    Attributes:
        store_path: the store directory.
        commitlog_path: the log, if it is not `commitlog` in the store directory; several directories are separated by
            commas and get new files in turn.
        read_only_commitlog_paths: further directories of the log that get no new files.
        flush_disk_type: ASYNC_FLUSH, or SYNC_FLUSH: a send is answered when it is flushed.
        flush_offsets_interval_ms: pause between saves of consumer offsets, ms.
        is_pool_used: with ASYNC_FLUSH a send is answered before it is written: faster if the page cache is busy, but
            the death of the process loses the latest sends; not on a slave.
        pool_buffers: memory for answered sends that are not written yet, in buffers of 4 MiB.
        reserved_hours: a log file expires this long after its last write, hours.
        delete_when: hours of the day, local time, at which expired files are deleted; `04;16` is both.
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
    flush_disk_type: FlushDiskType = setting(FlushDiskType.ASYNC_FLUSH)
    flush_offsets_interval_ms: int = setting(5_000, key="flushConsumerOffsetInterval", least=1)
    is_pool_used: bool = setting(default=False, key="transientStorePoolEnable")
    pool_buffers: int = setting(
        5,
        key="transientStorePoolSize",
        least=1,
        differs="RocketMQ's have the size of a log file",
    )
    reserved_hours: int = setting(72, key="fileReservedTime", least=1, is_remote=True)
    delete_when: str = setting("04", is_remote=True)
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
            **_values(LogKeys, self),
            commitlog_paths=paths,
            read_only_commitlog_paths=read_only,
            flush_sync=is_sync,
            delay_levels_ms=delay_levels_ms(self.delay_levels),
            index=self._index(),
            # As in MessageStoreConfig.isTransientStorePoolEnable.
            pool_buffers=0 if is_sync or not self.is_pool_used else self.pool_buffers,
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
            **_values(CleaningKeys, self),
            reserved_ms=self.reserved_hours * _HOUR_MS,
            delete_hours=_delete_hours(self.delete_when),
        )


def _values(kind: type, settings: StoreKeys) -> dict[str, Any]:
    return {each.name: getattr(settings, each.name) for each in fields(kind)}


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
