"""The rules by which a log file may go: its age, the hour of the day, the disk, or a request.

The rules are CleanCommitLogService's of RocketMQ 5.3.3; where ours differ: docs/design/0007.
"""

from datetime import UTC, datetime
from enum import StrEnum

from cometmq.model.frozen import dataclass


class DeletionCause(StrEnum):
    """The reason why files may go now."""

    HOUR = "expired, and it is the hour of deleteWhen"
    SPACE = "expired, and the disk is used beyond diskMaxUsedSpaceRatio"
    ASKED = "expired, and an administrator asked"
    FORCED = "the disk is used beyond diskSpaceCleanForciblyRatio"


@dataclass(frozen=True, slots=True)
class Retention:
    """Settings of the deletion of old files.

    Attributes:
        reserved_ms: a file that was last written longer ago has expired (fileReservedTime).
        delete_hours: hours of the day, local time, at which expired files go (deleteWhen).
        max_used_ratio: per cent of the disk above which they go at once (diskMaxUsedSpaceRatio).
        forced_ratio: per cent above which others go, too, if that is allowed
            (diskSpaceCleanForciblyRatio).
        is_forced: whether it is (cleanFileForciblyEnable).
        batch_max: most log files of a round (deleteFileBatchMax).
        interval_ms: pause between rounds (cleanResourceInterval).
        pause_ms: pause between two log files (deleteCommitLogFilesInterval).
        queue_pause_ms: pause between two steps after the log (deleteConsumeQueueFilesInterval).
        retry_ms: pause after a file could not be removed (redeleteHangedFileInterval).
        is_archive_guarded: no log file goes that is not archived (archiveGuard; ours).
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
        """The reason why expired files go now; None: they do not.

        Args:
            now_ms: wall time.
            used_percent: of the disk, as `df` prints it.
            is_asked: an administrator wants it.
        """
        if is_asked:
            return DeletionCause.ASKED
        if used_percent > self.max_used_ratio:
            return DeletionCause.SPACE
        hour = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone().hour
        return DeletionCause.HOUR if hour in self.delete_hours else None

    def has_expired(self, modified_ms: int, now_ms: int) -> bool:
        """Whether a file that was last written then is kept no longer."""
        return modified_ms + self.reserved_ms <= now_ms
