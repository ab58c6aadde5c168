"""Free space of the disks, and the refusal of sends while they are too full.

Of the log's directories the least used one counts, and the queues' directory. Sends are refused above
diskSpaceWarningLevelRatio, or after a needed log file could not be created or written. A check ends the refusal once
there is room; a level that was above the limit must first fall to 2 percentage points below it, to avoid flapping.
"""

import logging

from cometmq.store.derived import holds_of
from cometmq.store.directory import StoreDirectory
from cometmq.store.disk import NO_DESCRIPTOR, Space
from cometmq.store.running_flags import RunningFlag, RunningFlags
from cometmq.store.settings import StoreSettings

logger = logging.getLogger(__name__)

CLEARED_BELOW_LEVEL = 2  # Per cent below the warning level at which sends are accepted again.


class DiskRoom:
    """Space of the file systems of a store when it was last read.

    Attributes:
        spaces: Space by writable log directory.
        log: Space of the least used of them.
        queues: Space of the queues' directory.
    """

    def __init__(
        self, directory: StoreDirectory, settings: StoreSettings, flags: RunningFlags
    ) -> None:
        self._disk = directory.checkpoints.disk
        self._settings = settings
        self._flags = flags
        self._chain = directory.log.chain
        self._derived = directory.derived
        self._queue_directory = directory.queues.files.directory
        self._needs_file = False
        self._is_over_level = False
        self.spaces: dict[str, Space] = {}
        self.log = self.queues = Space(0, 1)

    @property
    def directories(self) -> dict[str, Space]:
        """Space by directory of the store, for those of the log that get new files and that of the queues."""
        return {**self.spaces, self._queue_directory: self.queues} if self.spaces else {}

    @property
    def used_percent(self) -> int:
        """Used percentage of `log` or `queues`, whichever is fuller, rounded up as `df` does."""
        return max(self.log.used_percent, self.queues.used_percent)

    def look(self) -> bool:
        """Read the current space, and note the log directories above the forced ratio (`FileChain.full_directories`).

        Return True; if the system does not report the space, change nothing and return False.
        """
        try:
            spaces = {path: self._disk.space(path) for path in self._chain.writable_directories}
            self.queues = self._disk.space(self._queue_directory)
        except OSError as error:
            logger.warning("The free disk space cannot be read: %s", error)
            return False
        self.spaces = spaces
        self.log = min(spaces.values(), key=lambda space: space.used_percent)
        full_ratio = self._settings.retention.disk_forced_ratio
        self._chain.full_directories = {
            path for path, space in spaces.items() if space.used_percent > full_ratio
        }
        return True

    def file_failed(self, reason: str) -> None:
        """Refuse sends at least until `judge` finds room for a log file, because one could not be created or written."""
        self._needs_file = True
        self._flags.raise_flag(RunningFlag.DISK_FULL, f"{reason}{self._holders()}")

    def _holders(self) -> str:
        """Return words about the features that still need log files older than the newest; empty if none does."""
        last = self._chain.files[-1].start if self._chain.files else 0
        return "".join(
            f"; {hold.name} still needs the log from {hold.offset} on"
            for hold in holds_of(self._derived)
            if hold.offset < last
        )

    def _has_descriptor(self) -> bool:
        try:
            self._disk.close(self._disk.open(self._queue_directory, write=False))
        except OSError as error:
            return error.errno not in NO_DESCRIPTOR
        return True

    def judge(self) -> None:
        """Check the space; set the flag DISK_FULL above the warning level, and clear it when there is room again."""
        if not self.look():
            return
        level = self._settings.disk_warning_ratio
        limit = level - CLEARED_BELOW_LEVEL if self._is_over_level else level
        self._is_over_level = self.used_percent > limit
        if self._needs_file:
            size = self._settings.commitlog_file_size + self._settings.file_reserve
            is_room = self.log.available >= size and self.log.inodes > 0
            self._needs_file = not (is_room and self._has_descriptor())
        if self._is_over_level:
            self._flags.raise_flag(
                RunningFlag.DISK_FULL,
                f"disk full: {self.used_percent} % of the disk is used, diskSpaceWarningLevelRatio is {level}; "
                f"sending continues when space is free{self._holders()}",
            )
        elif not self._needs_file and self._flags.clear(RunningFlag.DISK_FULL):
            logger.warning("The disk has free space again; messages are accepted")
