"""Checkpoints, which say what is on the device for certain: RocketMQ's `checkpoint`, and our exact one.

`checkpoint` has times (cometmq.codec.checkpoint); Java recovers by it. `checkpoint.cometmq` has
offsets, so that after a kill we look at the last second of the log and not at its last file:

| mark "CMQ1" 4 | CRC-32 of the rest 4 | dispatched 8 | flushed 8 | entries 8 |
| index file 8 | index count 8 | log time 8 |

`dispatched`: every record before it has its entries in queue and index on the device. `flushed`: so
is the log up to here. `entries`: sum of the queues' max offsets at `dispatched`; index file and
count: the newest index file, and how far it was. Log time: that of the `checkpoint` beside it; where
it has another, a Java broker had the directory since. Neither file ever passes an entry that is not
in its file. Both stay true then, for what they say is on the device is never taken back.

Both are written in place: one sector each, which a disk writes whole or not at all; a torn one
has a wrong CRC and counts as missing.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from struct import Struct
from typing import NamedTuple

from cometmq.codec.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from cometmq.kernel.crc import crc32
from cometmq.model.errors import CodecError
from cometmq.store.derived import Sync
from cometmq.store.disk import NO_DESCRIPTOR, Disk, read_file, write_whole

CHECKPOINT_FILE = "checkpoint"
PROGRESS_FILE = "checkpoint.cometmq"

_MARK = b"CMQ1"
_PROGRESS_HEAD = Struct(">4sI")
_PROGRESS = Struct(">qqqqqq")
PROGRESS_SIZE = _PROGRESS_HEAD.size + _PROGRESS.size  # 56


class Progress(NamedTuple):
    """Content of our own file; all in bytes or entries.

    Attributes:
        dispatched: physical offset up to which the queue entries are on the device.
        flushed: physical offset up to which the log is.
        entries: sum of the queues' max offsets at `dispatched`.
        index_file: the name of the newest index file as a number; 0: there is none.
        index_count: the number of the next entry there; all before it are on the device.
        log_ms: log timestamp of RocketMQ's checkpoint that was written with it.
    """

    dispatched: int
    flushed: int
    entries: int
    index_file: int = 0
    index_count: int = 0
    log_ms: int = 0

    def without(self, entries: int) -> "Progress":
        """The progress after a topic's queues, with so many entries, are deleted."""
        return self._replace(entries=max(self.entries - entries, 0))


NOTHING_DONE = Progress(0, 0, 0)


def encode_progress(progress: Progress) -> bytes:
    """The bytes of our file."""
    content = _PROGRESS.pack(*progress)
    return _PROGRESS_HEAD.pack(_MARK, crc32(content)) + content


def decode_progress(content: bytes) -> Progress | None:
    """Decode `checkpoint.cometmq`; None where it is torn or something else."""
    if len(content) < PROGRESS_SIZE:
        return None
    mark, crc = _PROGRESS_HEAD.unpack_from(content)
    body = content[_PROGRESS_HEAD.size : PROGRESS_SIZE]
    if mark != _MARK or crc != crc32(body):
        return None
    return Progress._make(_PROGRESS.unpack(body))


class CheckpointFiles:
    """The two files.

    Attributes:
        disk: where they are.
        root: the store directory.
        times: Java's, as last read or written. The index time is kept as it was found.
        progress: ours; None where there is none to be trusted.
        master_flushed: how far a slave's master had flushed, physical offset; goes into Java's with the next checkpoint.
    """

    def __init__(self, disk: Disk, root: str) -> None:
        self.disk = disk
        self.root = root
        self._times_path = f"{root}/{CHECKPOINT_FILE}"
        self._progress_path = f"{root}/{PROGRESS_FILE}"
        self.times = Checkpoint()
        self.progress: Progress | None = None
        self.master_flushed = 0

    def load(self) -> None:
        """Read what is there; a missing or torn file says nothing."""
        with suppress(FileNotFoundError, CodecError):
            self.times = decode_checkpoint(read_file(self.disk, self._times_path))
            self.master_flushed = self.times.master_flushed_offset
        with suppress(FileNotFoundError):
            self.progress = decode_progress(read_file(self.disk, self._progress_path))

    def write(self, times: Checkpoint, progress: Progress) -> None:
        """Write both, and bring them to the device. Any thread.

        Raises:
            OSError: one could not be written; what they said before is still true.
        """
        times = replace(times, master_flushed_offset=self.master_flushed)
        self._overwrite(self._times_path, encode_checkpoint(times))
        self._overwrite(self._progress_path, encode_progress(progress))
        self.times, self.progress = times, progress

    def _overwrite(self, path: str, content: bytes) -> None:
        is_new = not self.disk.exists(path)
        fd = self.disk.open(path, create=True)
        try:
            write_whole(self.disk, fd, content, 0)
            self.disk.fdatasync(fd)
        finally:
            self.disk.close(fd)
        if is_new:
            self.disk.sync_directory(path.rpartition("/")[0])


class CheckpointJob:
    """One checkpoint, for a lent thread: sync what is built from the log, then say so.

    Attributes:
        progress: what it will say.
        error: why it could not; None when it has.
        is_synced: whether all of it is on the device. What could not be synced
            never counts as synced again in this process.
    """

    def __init__(
        self,
        files: CheckpointFiles,
        *,
        times: Checkpoint,
        progress: Progress,
        syncs: Sequence[Sync],
    ) -> None:
        self._files = files
        self._times = times
        self._syncs = syncs
        self.progress = progress
        self.error: OSError | None = None
        self.is_synced = False

    @property
    def is_lacking(self) -> bool:
        """Whether a file could not be opened for want of a descriptor: nothing is lost, and it can be run again."""
        return self.error is not None and self.error.errno in NO_DESCRIPTOR

    def run(self) -> None:
        """Make the checkpoint, again where it was put off; any thread; raises nothing."""
        self.error = None
        try:
            for sync in self._syncs:
                sync.run()
            self.is_synced = True
            self._files.write(self._times, self.progress)
        except OSError as error:
            self.error = error

    def done(self) -> None:
        """Tell all that is built from the log that the checkpoint was made."""
        for sync in self._syncs:
            sync.done()
