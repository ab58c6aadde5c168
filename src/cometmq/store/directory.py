"""A store directory: locked (unless read-only), read and recovered at start, released at the end.

lock, abort            whether a process has it open, and whether the last stop was clean
checkpoint*            what is on the device for certain
commitlog/             the log, unless storePathCommitLog names other directories
consumequeue/          the queues
consumequeue_ext/      tags codes of some queues of a Java broker
batchconsumequeue/     queues of batch topics
index/                 keys to messages
config/                the broker's own files
timerwheel, timerlog/  messages that wait for their delivery time
cut/                   copies of invalid parts of the log that were cut or repaired, and of parts that a truncation removed
damaged/               files of queues, index and timer that could not be used
"""

import logging

from cometmq.model.errors import StoreDamaged
from cometmq.store.batch_queues import BatchQueues
from cometmq.store.checkpoint import CheckpointFiles
from cometmq.store.commitlog import CommitLog
from cometmq.store.consume_queues import ConsumeQueues
from cometmq.store.derived import Derived
from cometmq.store.derived_queues import DerivedQueues
from cometmq.store.disk import Disk
from cometmq.store.extended_queues import ExtendedQueues
from cometmq.store.lock import AbortMarker, DirectoryLock
from cometmq.store.opening import check_kind, check_log
from cometmq.store.queue_files import QueueFiles
from cometmq.store.queue_table import QueueTable
from cometmq.store.recovery import Recovery, RecoveryResult
from cometmq.store.settings import StoreSettings
from cometmq.store.staged_log import StagedLog

logger = logging.getLogger(__name__)


class StoreDirectory:
    """The parts of one store directory: log, queues and everything else built from the log.

    Attributes:
        path: The directory (storePathRootDir).
        read_only: Whether nothing is written or locked.
        log: The log; has no files before `recover`.
        table: Queues of all kinds; empty before `recover`.
        queues: The queues that are not batch queues.
        batches: Batch queues, whose records were written by a Java broker.
        extended: Tags codes that a Java broker keeps in separate files.
        checkpoints: Checkpoint files.
        abort: The abort file; one that exists at a start marks an unclean stop.
        was_clean: Whether the last stop was clean; True before `recover`.
        derived_queues: Builds the queues, except batch queues, from the log.
        derived: Everything built from the log; queues and index must be in it before `recover`.
    """

    def __init__(
        self, path: str, settings: StoreSettings, *, disk: Disk, read_only: bool
    ) -> None:
        self.path = path
        self._settings = settings
        self._disk = disk
        self.read_only = read_only
        self.was_clean = True
        self._lock = DirectoryLock(disk, path)
        self.abort = AbortMarker(disk, path)
        self.checkpoints = CheckpointFiles(disk, path)
        kind = StagedLog if settings.pool_buffers and not read_only else CommitLog
        self.log = kind(disk, settings.commitlog_paths or (f"{path}/commitlog",), settings)
        files = QueueFiles(
            disk, f"{path}/consumequeue", settings.queue_entries_per_file, read_only=read_only
        )
        self.table = QueueTable()
        self.queues = ConsumeQueues(self.table, files, read_only=read_only)
        self.batches = BatchQueues(disk, path, self.log, self.table, read_only=read_only)
        self.extended = ExtendedQueues(disk, path)
        self.derived_queues = DerivedQueues(
            disk,
            settings,
            log=self.log,
            queues=self.queues,
            extended=self.extended,
            checkpoints=self.checkpoints,
            read_only=read_only,
        )
        self.derived: list[Derived] = [self.derived_queues, self.batches]

    def recover(self) -> RecoveryResult:
        """Lock the directory, unless it is read-only, recover or create its content and return the result.

        Raises:
            StoreLocked: The store is already open for writing, in this process or another.
            StoreDamaged: The sizes of log files (or of all queue or index files) do not fit the settings, a log file is
                missing or there twice, a part is unsupported, or there is no store and it is opened read-only.
            OSError: The disk failed.
        """
        # Checked before anything is created or locked, so that a refused directory is not touched.
        self.checkpoints.load()
        check_kind(self._disk, self.path, is_for_messages=self.read_only)
        check_log(self._disk, self.path, self.log.chain.directories, self.checkpoints)
        self._take()
        self.was_clean = is_clean = not self.abort.is_set()
        self.checkpoints.load()
        self.log.chain.load(read_only=self.read_only)
        if not self.read_only:
            self.abort.set()
        recovery = Recovery(
            self._disk,
            self._settings,
            log=self.log,
            checkpoints=self.checkpoints,
            derived=self.derived,
            read_only=self.read_only,
        )
        found = recovery.run(is_clean=is_clean)
        self.derived_queues.say_unqueued()
        log = self.log
        log.warm_start = found.end
        log.positions.begin_at(found.end)
        if found.damage is not None:
            logger.error("%s", found.damage)
        return found

    def _take(self) -> None:
        """Create missing directories and lock the store; if read-only, only check that a directory of the log exists."""
        chain = self.log.chain
        if self.read_only:
            if not any(self._disk.exists(path) for path in chain.directories):
                raise StoreDamaged(
                    f"{chain.directories[0]} does not exist, so {self.path} is not a store"
                )
            return
        for name in ("consumequeue", "config"):
            self._disk.make_directory(f"{self.path}/{name}")
        for path in chain.writable_directories:
            self._disk.make_directory(path)
        self._disk.sync_directory(self.path)
        self._lock.take()

    def release(self) -> None:
        """Close the files of queues and log, and release the directory; the owner of the index closes that."""
        try:
            self.queues.files.close()
            self.log.close()
        finally:
            self._lock.release()
