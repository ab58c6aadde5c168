"""Rules for deleting log files: their age, the hour of the day, disk usage, or a request.

The rules are CleanCommitLogService's of RocketMQ 5.3.3; for differences see docs/design/0007.
"""

from datetime import UTC, datetime
from enum import StrEnum

from cometmq.model.frozen import dataclass


class DeletionCause(StrEnum):
    """Reason for deleting log files now: HOUR, SPACE, ASKED (for expired files) or FORCED."""

    HOUR = "it has expired, and it is the hour of deleteWhen"
    SPACE = "it has expired, and the disk usage is above diskMaxUsedSpaceRatio"
    ASKED = "it has expired, and an administrator requested the cleanup"
    FORCED = "the disk usage is above diskSpaceCleanForciblyRatio"


@dataclass(frozen=True, slots=True)
class Retention:
    """Settings for the deletion of old files.

    Attributes:
        reserved_ms: Time after its last write when a file expires (fileReservedTime).
        delete_hours: Hours of the day, local time, at which expired files are deleted (deleteWhen).
        max_used_ratio: Disk usage in per cent above which they are deleted at any hour (diskMaxUsedSpaceRatio).
        forced_ratio: Disk usage in per cent above which unexpired files may be deleted (diskSpaceCleanForciblyRatio).
        is_forced: Whether unexpired files may be deleted then (cleanFileForciblyEnable).
        batch_max: Maximum number of log files per round (deleteFileBatchMax).
        interval_ms: Usual time from the start of a round to that of the next (cleanResourceInterval).
        pause_ms: Pause between two log files (deleteCommitLogFilesInterval).
        queue_pause_ms: Pause between two steps after the log (deleteConsumeQueueFilesInterval).
        retry_ms: Pause after a file could not be removed (redeleteHangedFileInterval).
        is_archive_guarded: Whether only archived log files are deleted (archiveGuard; ours).
    """

    reserved_ms: int = 72 * 3_600_000
    delete_hours: frozenset[int] = frozenset({4})
    max_used_ratio: int = 75
    forced_ratio: int = 85
    is_forced: bool = False
    batch_max: int = 10
    interval_ms: int = 10_000
    pause_ms: int = 100
    queue_pause_ms: int = 100
    retry_ms: int = 120_000
    is_archive_guarded: bool = False

    def cause(self, *, now_ms: int, used_percent: int, is_asked: bool) -> DeletionCause | None:
        """Return the reason why expired files are deleted now; None if they are not.

        Args:
            now_ms: Wall time, ms since 1970.
            used_percent: Used percentage of the disk, as `df` shows it.
            is_asked: Whether an administrator requested it.
        """
        if is_asked:
            return DeletionCause.ASKED
        if used_percent > self.max_used_ratio:
            return DeletionCause.SPACE
        hour = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone().hour
        return DeletionCause.HOUR if hour in self.delete_hours else None

    def has_expired(self, modified_ms: int, now_ms: int) -> bool:
        """Return whether a file whose last write was at `modified_ms` has expired (times in ms since 1970)."""
        return modified_ms + self.reserved_ms <= now_ms
