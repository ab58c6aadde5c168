"""Rules for deleting log files: their age, the hour of the day, disk usage, or a request.

The rules are CleanCommitLogService's of RocketMQ 5.3.3; for differences see docs/design/0007.
"""

from datetime import UTC, datetime
from enum import StrEnum

from cometmq.model.frozen import dataclass
from cometmq.model.settings import setting


class DeletionCause(StrEnum):
    """Reason for deleting log files now: HOUR, SPACE, ASKED (for expired files) or FORCED."""

    HOUR = "it has expired, and it is the hour of deleteWhen"
    SPACE = "it has expired, and the disk usage is above diskMaxUsedSpaceRatio"
    ASKED = "it has expired, and an administrator requested the cleanup"
    FORCED = "the disk usage is above diskSpaceCleanForciblyRatio"


@dataclass(frozen=True)
class CleaningKeys:
    """Settings for the deletion of old files that a broker and its store have in common: keys of RocketMQ 5.3.3.

    Attributes:
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
    """

    __slots__ = ()

    disk_max_ratio: int = setting(75, key="diskMaxUsedSpaceRatio", least=1, most=100)
    disk_forced_ratio: int = setting(85, key="diskSpaceCleanForciblyRatio", least=1, most=100)
    is_clean_forced: bool = setting(default=False, key="cleanFileForciblyEnable")
    delete_batch_max: int = setting(10, key="deleteFileBatchMax", least=1)
    clean_interval_ms: int = setting(10_000, key="cleanResourceInterval", least=1)
    delete_pause_ms: int = setting(100, key="deleteCommitLogFilesInterval", least=0)
    queue_delete_pause_ms: int = setting(100, key="deleteConsumeQueueFilesInterval", least=0)
    delete_retry_ms: int = setting(120_000, key="redeleteHangedFileInterval", least=1)
    is_archive_guarded: bool = setting(default=False, key="archiveGuard")


@dataclass(frozen=True, slots=True)
class Retention(CleaningKeys):
    """Settings for the deletion of old files.

    Attributes:
        reserved_ms: Time after its last write when a file expires (fileReservedTime).
        delete_hours: Hours of the day, local time, at which expired files are deleted (deleteWhen).
    """

    reserved_ms: int = 72 * 3_600_000
    delete_hours: frozenset[int] = frozenset({4})

    def cause(self, *, now_ms: int, used_percent: int, is_asked: bool) -> DeletionCause | None:
        """Return the reason why expired files are deleted now; None if they are not.

        Args:
            now_ms: Wall time, ms since 1970.
            used_percent: Used percentage of the disk, as `df` shows it.
            is_asked: Whether an administrator requested it.
        """
        if is_asked:
            return DeletionCause.ASKED
        if used_percent > self.disk_max_ratio:
            return DeletionCause.SPACE
        hour = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone().hour
        return DeletionCause.HOUR if hour in self.delete_hours else None

    def has_expired(self, modified_ms: int, now_ms: int) -> bool:
        """Return whether a file whose last write was at `modified_ms` has expired (times in ms since 1970)."""
        return modified_ms + self.reserved_ms <= now_ms
