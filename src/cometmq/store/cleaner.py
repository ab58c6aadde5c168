"""Deletes old files: first of the log, then of queues and index.

A round is a generator. The steps that it yields run in a thread that may block; the code between them runs on the
thread that owns the store, so no lock is needed. The store can be opened after a stop at any step: a file leaves the
chain, then its name is removed, and only then the next file follows. Entries that point before the log's start are
skipped by all readers and by the next start (docs/design/0007).
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple
from weakref import WeakSet

from cometmq.model.clock import Clock
from cometmq.model.text import plural
from cometmq.store.archive_mark import ReadLog, guarded_to
from cometmq.store.clock_watch import ClockWatch
from cometmq.store.derived import Derived, Step, holds_of
from cometmq.store.directory import StoreDirectory
from cometmq.store.disk import Disk
from cometmq.store.disk_room import DiskRoom
from cometmq.store.log_file import LogFile
from cometmq.store.retention import DeletionCause, Retention
from cometmq.store.settings import StoreSettings

logger = logging.getLogger(__name__)

ASKED_ROUNDS = 20  # CleanCommitLogService.MAX_MANUAL_DELETE_FILE_TIMES


class DeletableFile(NamedTuple):
    """A file that cleaning would delete, and the reason for deleting it."""

    path: str
    cause: str


class Cleaner:
    """Rounds of deleting old files of one store.

    Attributes:
        pause_ms: Time for the caller to wait before the next step, ms.
        is_step_out: Whether a step was returned and has not ended.
        next_round_at: Monotonic time in seconds at which the next round is due.
        clock_watch: Decides whether the wall clock can be trusted, so that files may be deleted for their age.
    """

    def __init__(
        self,
        directory: StoreDirectory,
        settings: StoreSettings,
        clock: Clock,
        room: DiskRoom,
    ) -> None:
        self._disk = disk = directory.checkpoints.disk
        self._rules = settings.retention
        self._clock = clock
        self._log = directory.log
        self._derived = directory.derived
        self._checkpoints = directory.checkpoints
        self._room = room
        self._guard = _Guard(disk, directory.path, directory.log.read)
        self.pause_ms = 0
        self.is_step_out = False
        self._round: Iterator[Step] | None = None
        self.next_round_at = clock.monotonic() + self._rules.clean_interval_ms / 1000
        self.clock_watch = ClockWatch(clock)
        self._asked_rounds = 0
        self._hanged: LogFile | None = None  # File whose name could not be removed.
        self._retry_at = 0.0
        self._held: WeakSet[LogFile] = WeakSet()  # Deleted files that readers still use.
        self._followed_to = -1  # Start of the log that the derived structures have followed.

    @property
    def is_at_rest(self) -> bool:
        """Whether no round has anything to do until the log gets another file or an operator requests one (`ask`)."""
        chain = self._log.chain
        is_over = self._round is None and self._hanged is None and not self._asked_rounds
        return is_over and len(chain.files) < 2 and chain.start == self._followed_to

    def wake_with(self, wake: Callable[[], None]) -> None:
        """Set the callback for a new log file, after which another one may be deletable."""
        self._log.chain.on_append = wake

    def change_rules(self, rules: Retention) -> None:
        """Set the retention rules."""
        self._rules = rules

    def ask(self) -> None:
        """Let the next 20 rounds delete expired files at any hour; the first of them is due immediately."""
        self._asked_rounds = ASKED_ROUNDS
        self.next_round_at = self._clock.monotonic()

    def due(self) -> Step | None:
        """Return the next step of deleting files, for a thread that may block; None if none is due or the round ends.

        The previous step must have ended.
        """
        if self._round is None:
            now = self._clock.monotonic()
            if now < self.next_round_at:
                return None
            self.next_round_at = now + self._rules.clean_interval_ms / 1000
            self._round = self._clean()
        step = next(self._round, None)
        if step is None:
            self._round = None
            return None
        self.is_step_out = True
        return partial(self._take, step)

    def _take(self, step: Step) -> None:
        try:
            step()
        finally:
            self.is_step_out = False

    def _clean(self) -> Iterator[Step]:
        self._room.look()
        self.pause_ms = self._rules.delete_pause_ms
        yield from self._log_files()
        self.pause_ms = self._rules.queue_delete_pause_ms
        start = self._log.chain.start
        if start == self._followed_to:
            return
        failures: list[OSError] = []
        for derived in self._derived:
            yield from self._follow(derived, start, failures)
        if failures:
            count, first = len(failures), failures[0]
            logger.warning(
                "%d %s of the cleanup failed and will be repeated in the next round; the first error is: %s",
                count,
                plural(count, "step"),
                first,
            )
        else:
            self._followed_to = start

    # --- the log

    def _log_files(self) -> Iterator[Step]:
        """Yield steps that delete up to `delete_batch_max` log files, oldest first, until one must stay."""
        if self._hanged is not None:
            if self._clock.monotonic() < self._retry_at:
                return
            yield from self._unlink(self._hanged)
        is_asked = self._asked_rounds > 0
        self._asked_rounds = max(self._asked_rounds - 1, 0)
        known = self._checkpoints.progress
        settled = min(known.dispatched, self._log.positions.flushed) if known is not None else 0
        settled = self._released(settled)
        most = self._rules.delete_batch_max
        # While the wall clock is wrong, ages of files mean nothing.
        cause = self._cause(is_asked=is_asked) if self.clock_watch.trusts() else None
        doomed = self._doomed(most, settled=settled, cause=cause)
        if doomed and self._rules.is_archive_guarded:
            end = doomed[-1][0].end
            yield partial(self._guard.look, self._log.chain.start, end)
            settled = min(settled, self._guard.settled)
        for file, why in self._doomed(most, settled=settled, cause=cause):
            files = self._log.chain.files
            if self._hanged is not None or file is not files[0] or file is files[-1]:
                return  # In the last two cases a truncation came between.
            logger.info("%s is deleted: %s", file.path, why)
            self._log.chain.drop_first()
            self._held.add(file)
            yield from self._unlink(file)

    def _unlink(self, file: LogFile) -> Iterator[Step]:
        """Yield a step that removes a file's name; if it fails, the file is remembered for a retry."""
        failures: list[OSError] = []
        yield partial(_try, failures, file.unlink)
        self._hanged = None
        if failures:
            self._hanged = file
            pause_ms = self._rules.delete_retry_ms
            self._retry_at = self._clock.monotonic() + pause_ms / 1000
            logger.error(
                "%s cannot be deleted (%s); newer files are kept until then, next attempt in %d s",
                file.path,
                failures[0],
                pause_ms // 1000,
            )

    def _cause(self, *, is_asked: bool) -> DeletionCause | None:
        return self._rules.cause(
            now_ms=self._clock.now_ms(),
            used_percent=self._room.used_percent,
            is_asked=is_asked,
        )

    def _released(self, end: int) -> int:
        """Return the physical offset, at most `end`, before which no structure or feature needs the log."""
        return min([end, *(hold.offset for hold in holds_of(self._derived))])

    def _doomed(
        self, most: int, *, settled: int, cause: DeletionCause | None
    ) -> list[tuple[LogFile, DeletionCause]]:
        """Return log files to delete, of the `most` oldest and never the newest, with the reason for each.

        Args:
            most: Maximum number of files.
            settled: Physical offset; only files that end at or before it are deleted.
            cause: Reason for deleting expired files; None if only a disk above the forced ratio is a reason.
        """
        now_ms, rules = self._clock.now_ms(), self._rules
        forced = self._forced_count()
        doomed: list[tuple[LogFile, DeletionCause]] = []
        for file in self._log.chain.files[:-1][:most]:
            if file.end > settled:
                break
            if cause is not None and rules.has_expired(file.modified_ms, now_ms):
                doomed.append((file, cause))
            elif len(doomed) < forced:
                doomed.append((file, DeletionCause.FORCED))
            else:
                break
        return doomed

    def _forced_count(self) -> int:
        """Return the number of files to delete, expired or not, to reach the forced ratio; 0 if that is turned off."""
        if not self._rules.is_clean_forced:
            return 0
        ratio, file_size = self._rules.disk_forced_ratio, self._log.chain.file_size
        over = 0
        for space in (self._room.log, self._room.queues):
            if space.used_percent > ratio:
                over = max(over, space.used - space.total * ratio // 100)
        # Files that are still being read free their space later without further deletions.
        over -= len(self._held) * file_size
        return max(-(-over // file_size), 0)

    def _follow(self, derived: Derived, start: int, failures: list[OSError]) -> Iterator[Step]:
        steps = derived.delete_before(start)
        while True:
            try:
                step = next(steps, None)
            except OSError as error:
                failures.append(error)
                return
            if step is None:
                return
            yield partial(_try, failures, step)

    # --- what would go

    def plan(self) -> list[DeletableFile]:
        """List the files that cleaning would delete, at present ages, if this were its hour and all were checkpointed.

        Raises:
            OSError: The disk failed.
        """
        self._room.look()
        most, end = len(self._log.chain.files), self._released(self._log.positions.written)
        if self._rules.is_archive_guarded:
            self._guard.look(self._log.chain.start, end)
            end = min(end, self._guard.settled)
        cause = self._cause(is_asked=False) or DeletionCause.HOUR
        files = self._doomed(most, settled=end, cause=cause)
        doomed = [DeletableFile(file.path, cause) for file, cause in files]
        start = files[-1][0].end if files else self._log.chain.start
        behind = f"the log then starts at {start}"
        for derived in self._derived:
            doomed.extend(DeletableFile(path, behind) for path in derived.files_before(start))
        return doomed


class _Guard:
    """Finds the part of a log that an archive holds, up to the physical offset `settled`, so that it may be deleted."""

    def __init__(self, disk: Disk, root: str, read: ReadLog) -> None:
        self.settled = 0
        self._disk = disk
        self._root = root
        self._read = read
        self._reasons: Mapping[str, str] = {}

    def look(self, start: int, end: int) -> None:
        """Set `settled` to where an archive's copy of the log from `start` ends: `start` if none has it, 0 on OSError."""
        self.settled = 0
        try:
            found = guarded_to(self._disk, self._root, (start, end), self._read)
        except OSError as error:
            logger.warning(
                "archiveGuard: %s cannot be read, so no log file is deleted: %s",
                self._root,
                error,
            )
            return
        self.settled = found.settled
        for place, why in found.reasons.items():
            if self._reasons.get(place) != why:
                logger.warning(
                    "archiveGuard: the archive %.300s is ignored: %.300s; archive into it again",
                    place,
                    why,
                )
        self._reasons = found.reasons


def _try(failures: list[OSError], do: Callable[..., object], *arguments: object) -> None:
    try:
        do(*arguments)
    except OSError as error:
        failures.append(error)
