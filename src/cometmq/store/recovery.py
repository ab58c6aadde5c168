"""After a stop, clean or not: where the log ends, and what is built from it still lacks.

1. Whatever is `Derived` from the log is loaded, and says from where on it lacks records.
2. The log is walked from the first of these places, every record checked, and fed to all of them.
3. Where no valid record follows the log ends (cometmq.store.log_end).
"""

from collections.abc import Sequence
from typing import NamedTuple

from cometmq.kernel import WalkEnd
from cometmq.model.errors import StoreDamaged
from cometmq.store.batch import RawRecords, raw_batch
from cometmq.store.checkpoint import CheckpointFiles
from cometmq.store.commitlog import CommitLog
from cometmq.store.derived import Derived, truncate_now
from cometmq.store.disk import Disk
from cometmq.store.log_end import PLAIN_ENDS, LogEnd
from cometmq.store.log_file import LogFile
from cometmq.store.settings import StoreSettings
from cometmq.store.whole_records import check_of

_CHUNK_SIZE = 1 << 20


class RecoveryResult(NamedTuple):
    """The result of a recovery.

    Attributes:
        end: physical offset behind the last record.
        store_ms: store time of the last record walked over; 0 if none was.
        damage: what is wrong, for people; None when the store may be written.
    """

    end: int
    store_ms: int
    damage: str | None


class Recovery:
    """One recovery of a directory that is locked, or opened for reading only."""

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
        """`derived`: the queues first."""
        self._disk = disk
        self._log = log
        self._checkpoints = checkpoints
        self._derived = derived
        self._read_only = read_only
        self._is_whole_checked = settings.verify_property_crc
        self._check = check_of(settings)
        self._store_ms = 0

    def run(self, *, is_clean: bool) -> RecoveryResult:
        """Bring the log and what is built from it into step.

        Args:
            is_clean: the last stop was clean.

        Raises:
            StoreDamaged: files of a wrong size, or missing at the log's end.
            OSError: the disk failed.
        """
        chain = self._log.chain
        if chain.files:
            self._check_end()
        lacked = self._load(is_clean=is_clean)
        if not chain.files:
            truncate_now(self._derived, 0)
            return RecoveryResult(0, 0, None)
        end, why = self._walk(min(lacked))
        log_end = LogEnd(
            self._disk, self._log, self._checkpoints, is_whole_checked=self._is_whole_checked
        )
        damage = log_end.damage_behind(end, why, is_clean=is_clean)
        if damage is None and not self._read_only:
            is_torn = not is_clean or why not in PLAIN_ENDS
            damage = log_end.cut(end, walked_from=lacked[-1], is_torn=is_torn)
            truncate_now(self._derived, end)
        return RecoveryResult(end, self._store_ms, damage)

    def _load(self, *, is_clean: bool) -> list[int]:
        """Load what is built from the log; gives from where on each lacks records, the queues last.

        The queues come last, for forgetting them takes back what the checkpoint says.
        """
        log_start = self._log.chain.start
        lacked = [
            derived.load(is_clean=is_clean, log_start=log_start)
            for derived in reversed(self._derived)
        ]
        return [max(offset, log_start) for offset in lacked if offset is not None]

    def _check_end(self) -> None:
        """Refuse a log whose newest files are missing.

        Raises:
            StoreDamaged: it was on the device beyond the end of the newest file.
        """
        progress, chain = self._checkpoints.progress, self._log.chain
        if progress is not None and progress.flushed > chain.end:
            raise StoreDamaged(
                f"{chain.directories[0]}: log files are missing at the end: the newest ends at "
                f"{chain.end}, and the log was on the device up to {progress.flushed}; put them "
                "back, or let `cometmq store repair` build queues and index from what is left"
            )

    def _walk(self, start: int) -> tuple[int, WalkEnd]:
        """Check every record from an offset on; gives where the log ends, and how."""
        chain, position = self._log.chain, start
        why = WalkEnd.EMPTY
        while (file := chain.find(position)) is not None:
            position, why = self._walk_file(file, position)
            if why is not WalkEnd.BLANK or chain.find(file.end) is None:
                break
            position = file.end
        return position, why

    def _walk_file(self, file: LogFile, position: int) -> tuple[int, WalkEnd]:
        """Check the rest of one file; gives where the records end in it, and how."""
        size = _CHUNK_SIZE
        while True:
            chunk = file.read(position, min(size, file.end - position))
            walked, why = self._take_chunk(chunk, position)
            position += walked
            if why not in (WalkEnd.WHOLE, WalkEnd.SHORT):
                return position, why
            # The chunk's end cut a record: read on from its start, at least all of it.
            left = chunk[walked : walked + 4]
            size = max(_CHUNK_SIZE, int.from_bytes(left) if len(left) == 4 else 0)
            if size > file.end - position and len(chunk) - walked == file.end - position:
                return position, WalkEnd.SHORT

    def _take_chunk(self, chunk: bytes, offset: int) -> tuple[int, WalkEnd]:
        """Feed the records of a piece; gives the bytes walked over, and why not further."""
        walked, kinds, store_ms, why = self._check(chunk, offset)
        if walked:
            batch = raw_batch(RawRecords(offset, chunk[:walked], kinds), store_ms)
            self._store_ms = store_ms
            for derived in self._derived:
                derived.feed(batch)
        return walked, why
