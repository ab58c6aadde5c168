"""A small ext4 of its own in a loop device: its power can be cut, it can break, and it is soon full.

It needs root and a kernel with loop devices; where one is missing this raises with the reason, for a
suite that cannot run must fail.
"""

import contextlib
import fcntl
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

# EXT4_IOC_SHUTDOWN of linux/fs/ext4, and its flag for going down without writing the journal.
_IOC_SHUTDOWN = 0x8004587D
_GOING_NOLOGFLUSH = 2
BUSY_TRIES, BUSY_SECONDS = 10, 0.5


class LoopDisk:
    """A mounted file system; leave the `with` block and nothing of it is left.

    Attributes:
        root: where it is mounted.
    """

    def __init__(self, folder: Path, *, megabytes: int, inodes: int | None = None) -> None:
        """Make the image below `folder`; `inodes`: how many files it can hold."""
        if os.geteuid() != 0:
            raise RuntimeError("the power cut needs a loop mount, and that needs root")
        folder.mkdir(parents=True, exist_ok=True)
        self.root = folder / "mounted"
        self.root.mkdir()
        self._image = folder / "ext4.img"
        with self._image.open("wb") as image:
            image.truncate(megabytes << 20)
        count = () if inodes is None else ("-N", str(inodes))
        _run("mkfs.ext4", "-q", "-F", "-m", "0", *count, str(self._image))
        # The number that it finds free may be somebody else's a moment later.
        self._device = _run_patiently("losetup", "--find", "--show", str(self._image)).strip()
        try:
            self.mount()
        except BaseException:
            _run("losetup", "--detach", self._device)
            raise

    def mount(self) -> None:
        """Mount it as a start of the machine would: the journal is played back."""
        _run("mount", "-t", "ext4", "-o", "errors=remount-ro", self._device, str(self.root))

    def cut_power(self) -> None:
        """From now on nothing reaches the device, and what had not is gone."""
        fd = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, _IOC_SHUTDOWN, struct.pack("I", _GOING_NOLOGFLUSH))
        finally:
            os.close(fd)

    def break_down(self) -> None:
        """Have ext4 meet an error, on which it makes itself read-only as it would on a bad disk."""
        device = self._device.rpartition("/")[2]
        Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("1")

    def unmount(self) -> None:
        """Unmount it; nobody may use it any more, but whoever looks at all disks of the machine may."""
        _run_patiently("umount", str(self.root))

    def start_again(self) -> None:
        """Unmount and mount it, as the next start of the machine does."""
        self.unmount()
        self.mount()

    def __enter__(self) -> "LoopDisk":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            # Lazily where a test has failed and left a program on it.
            _run_patiently("umount", *(("--lazy",) if error else ()), str(self.root))
        finally:
            _run("losetup", "--detach", self._device)


@contextlib.contextmanager
def full(root: Path, *, left: float = 0.0) -> Iterator[None]:
    """A file takes all room of a file system but a share `left` of the whole."""
    filler = root / "filler"
    with filler.open("wb") as file:
        space = os.statvfs(root)
        wanted = size = (space.f_bavail - int(left * space.f_blocks)) * space.f_frsize
        while size >= 4_096:
            try:
                os.posix_fallocate(file.fileno(), file.tell(), size)
            except OSError:
                size //= 2
            else:
                wanted -= size
                size = min(size, wanted)
                file.seek(0, os.SEEK_END)
    try:
        yield
    finally:
        filler.unlink()


def _run_patiently(*command: str) -> str:
    """The same as `_run`, for what others on this machine can be in the way of for a moment."""
    for _ in range(BUSY_TRIES):
        with contextlib.suppress(RuntimeError):
            return _run(*command)
        time.sleep(BUSY_SECONDS)
    return _run(*command)


def _run(*command: str) -> str:
    """A tool's output.

    Raises:
        RuntimeError: it is missing, or it failed.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        raise RuntimeError(f"no {command[0]} here: the fault suite needs it") from None
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
