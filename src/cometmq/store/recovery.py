"""Recovery at start: finds the end of the log and completes everything built from it.

1. Each `Derived` structure is loaded and returns the offset from which it lacks records, if it does.
2. The log is walked from the smallest of these offsets; each record there is checked and fed to all structures.
3. The log ends before the first invalid record (cometmq.store.log_end).
"""

from collections.abc import Sequence
from typing import NamedTuple

from cometmq.kernel import WalkEnd
from cometmq.model.errors import StoreDamaged
from cometmq.store.checkpoint import CheckpointFiles
from cometmq.store.commitlog import CommitLog
from cometmq.store.derived import Derived, truncate_now
from cometmq.store.disk import Disk
from cometmq.store.log_end import PLAIN_ENDS, LogEnd
from cometmq.store.log_walk import read_piece
from cometmq.store.settings import StoreSettings
from cometmq.store.whole_records import check_of


class RecoveryResult(NamedTuple):
    """The result of a recovery.

    Attributes:
        end: Physical offset of the end of the last valid record; 0 for a log without files.
        store_ms: Store time of the last checked record, ms; 0 if none was checked.
        damage: Why the store must stay read-only, such as damage, for people; None if it need not.
        start: Physical offset from which the log was checked.
        is_cut: Whether bytes after the end were removed; the folder `cut` has a copy.
    """

    end: int
    store_ms: int
    damage: str | None
    start: int = 0
    is_cut: bool = False


class Recovery:
    """One recovery of a directory that is locked or opened read-only; `derived` must begin with the consume queues."""

    def __init__(
        self,
        disk: Disk,
        settings: StoreSettings,
        *,
        log: CommitLog,
        checkpoints: CheckpointFiles,
        derived: Sequence[Derived],
        read_only: bool,
    ) -> None:
        self._disk = disk
        self._log = log
        self._checkpoints = checkpoints
        self._derived = derived
        self._read_only = read_only
        self._is_whole_checked = settings.is_whole_crc_checked
        self._check = check_of(settings)
        self._store_ms = 0

    def run(self, *, is_clean: bool) -> RecoveryResult:
        """Bring the log and everything built from it into agreement; `is_clean` if the last stop was clean.

        Nothing is removed from a log that is damaged or read-only.

        Raises:
            StoreDamaged: All queue files, or all index files, more than one, have the same wrong size; or log files are
                missing at the log's end.
            OSError: The disk failed.
        """
        chain = self._log.chain
        if chain.files:
            self._check_end()
        lacked = self._load(is_clean=is_clean)
        if not chain.files:
            truncate_now(self._derived, 0)
            return RecoveryResult(0, 0, None)
        start = min(lacked)
        end, why = self._walk(start)
        log_end = LogEnd(
            self._disk, self._log, self._checkpoints, is_whole_checked=self._is_whole_checked
        )
        damage = log_end.damage_behind(end, why, is_clean=is_clean)
        if damage is None and not self._read_only:
            is_torn = not is_clean or why not in PLAIN_ENDS
            damage = log_end.cut(end, walked_from=lacked[-1], is_torn=is_torn)
            truncate_now(self._derived, end)
        return RecoveryResult(end, self._store_ms, damage, start, log_end.is_cut)

    def _load(self, *, is_clean: bool) -> list[int]:
        """Load everything built from the log; return the offsets from which each lacks records, the queues last.

        What lacks none is left out.
        """
        log_start = self._log.chain.start
        # The queues last, because forgetting them resets the checkpoint.
        lacked = [
            derived.load(is_clean=is_clean, log_start=log_start)
            for derived in reversed(self._derived)
        ]
        return [max(offset, log_start) for offset in lacked if offset is not None]

    def _check_end(self) -> None:
        """Raise StoreDamaged if the log had been flushed beyond the end of its newest file, so that files are missing."""
        progress, chain = self._checkpoints.progress, self._log.chain
        if progress is not None and progress.flushed > chain.end:
            raise StoreDamaged(
                f"{chain.directories[0]}: log files are missing at the end: the newest ends at "
                f"{chain.end}, but the log was flushed up to {progress.flushed}; put them "
                "back, or let `cometmq store repair` rebuild queues and index from the remaining files"
            )

    def _walk(self, start: int) -> tuple[int, WalkEnd]:
        """Check records up to the first invalid one, and feed all structures; return where the log ends, and why."""
        chain, position = self._log.chain, start
        why = WalkEnd.EMPTY
        while (file := chain.find(position)) is not None:
            is_last = False
            while not is_last:
                position, batch, why, is_last = read_piece(
                    self._check, file, position, file.end
                )
                if batch is not None:
                    self._store_ms = batch.store_ms
                    for derived in self._derived:
                        derived.feed(batch)
            if why is not WalkEnd.BLANK or chain.find(file.end) is None:
                break
            position = file.end
        return position, why
