"""Checkpoints, which record what is certainly on the device: RocketMQ's `checkpoint` and our own exact one.

`checkpoint` contains times (cometmq.codec.checkpoint), which Java uses for its recovery. `checkpoint.cometmq`
contains offsets, so that after a kill usually only the last seconds of the log are checked and not its whole last file:

| mark "CMQ1" 4 | CRC-32 of the rest 4 | dispatched 8 | flushed 8 | entries 8 |
| index file 8 | index count 8 | log time 8 |

The fields are those of `Progress`. The log time is normally that of the `checkpoint` file beside it. If that file has
another one, a Java broker has probably used the directory since. CometMQ lowers the values before it undoes anything
that they cover.

Both files are written in place: the values of each are in one sector, which a disk writes atomically. If our own file
is torn all the same, it fails its CRC and counts as missing.
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
from cometmq.store.disk import NO_DESCRIPTOR, Disk, opened, read_file, write_whole

CHECKPOINT_FILE = "checkpoint"
PROGRESS_FILE = "checkpoint.cometmq"

_MARK = b"CMQ1"
_PROGRESS_HEAD = Struct(">4sI")
_PROGRESS = Struct(">qqqqqq")
PROGRESS_SIZE = _PROGRESS_HEAD.size + _PROGRESS.size  # 56


class Progress(NamedTuple):
    """Content of `checkpoint.cometmq`.

    Attributes:
        dispatched: Physical offset before which all writable queue and index entries are on the device.
        flushed: Physical offset up to which the log is on the device.
        entries: Sum of the max offsets at `dispatched`, without batch queues and unwritable entries.
        index_file: Name of the newest index file as a number; 0 if there is none.
        index_count: Number of the next entry in that file; all earlier ones are on the device.
        log_ms: Log timestamp in RocketMQ's checkpoint as of CometMQ's last regular checkpoint, ms; 0 if unknown.
    """

    dispatched: int
    flushed: int
    entries: int
    index_file: int = 0
    index_count: int = 0
    log_ms: int = 0

    def without(self, entries: int) -> "Progress":
        """Return the progress after queues with this many entries were deleted."""
        return self._replace(entries=max(self.entries - entries, 0))


NOTHING_DONE = Progress(0, 0, 0)


def encode_progress(progress: Progress) -> bytes:
    """Encode a progress to the 56 bytes of `checkpoint.cometmq`."""
    content = _PROGRESS.pack(*progress)
    return _PROGRESS_HEAD.pack(_MARK, crc32(content)) + content


def decode_progress(content: bytes) -> Progress | None:
    """Decode `checkpoint.cometmq`; return None if it is too short, torn or something else."""
    if len(content) < PROGRESS_SIZE:
        return None
    mark, crc = _PROGRESS_HEAD.unpack_from(content)
    body = content[_PROGRESS_HEAD.size : PROGRESS_SIZE]
    if mark != _MARK or crc != crc32(body):
        return None
    return Progress._make(_PROGRESS.unpack(body))


class CheckpointFiles:
    """The two checkpoint files of a store.

    Attributes:
        times: Content of RocketMQ's checkpoint as last read or written.
        progress: Content of our own checkpoint; None if there is no valid one.
        master_flushed: Physical offset to which a slave's master has flushed; written with the next checkpoint.
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
        """Read both checkpoint files; missing or torn ones are ignored."""
        with suppress(FileNotFoundError, CodecError):
            self.times = decode_checkpoint(read_file(self.disk, self._times_path))
            self.master_flushed = self.times.master_flushed_offset
        with suppress(FileNotFoundError):
            self.progress = decode_progress(read_file(self.disk, self._progress_path))

    def write(self, times: Checkpoint, progress: Progress) -> None:
        """Write and sync `checkpoint` (times) and `checkpoint.cometmq` (offsets); raise OSError if that fails. Any thread."""
        times = replace(times, master_flushed_offset=self.master_flushed)
        self._overwrite(self._times_path, encode_checkpoint(times))
        self._overwrite(self._progress_path, encode_progress(progress))
        self.times, self.progress = times, progress

    def _overwrite(self, path: str, content: bytes) -> None:
        is_new = not self.disk.exists(path)
        with opened(self.disk, path, create=True) as fd:
            write_whole(self.disk, fd, content, 0)
            self.disk.fdatasync(fd)
        if is_new:
            self.disk.sync_directory(path.rpartition("/")[0])


class CheckpointJob:
    """Makes one checkpoint, in a thread that may block: syncs changes of queues and index, then records the progress.

    Attributes:
        progress: Progress to record.
        error: Why it failed; None if it succeeded or has not ended.
        is_synced: Whether all syncs have succeeded.
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
        """Whether the job failed for lack of a descriptor; nothing is lost then, and it can be run again."""
        return self.error is not None and self.error.errno in NO_DESCRIPTOR

    def run(self) -> None:
        """Make the checkpoint, or retry a postponed one; an OSError is kept in `error`, not raised. Any thread."""
        self.error, self.is_synced = None, False
        try:
            for sync in self._syncs:
                sync.run()
            self.is_synced = True
            self._files.write(self._times, self.progress)
        except OSError as error:
            self.error = error

    def done(self) -> None:
        """Notify the jobs that synced parts for this checkpoint that it has been made."""
        for sync in self._syncs:
            sync.done()
