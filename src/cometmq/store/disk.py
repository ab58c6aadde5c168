"""Interface of a disk: all file system calls of the store.

The store reads and writes all bytes through a `Disk`. A test can therefore pass one that forgets unsynced data, is
full, or fails at the nth call (tests/support/fake_disk.py). File names are absolute strings, open files are ints;
errors are OSError with the system's errno. Nothing is written through a map: on a full disk that raises SIGBUS and
kills the process, whereas a failed `pwrite` can be reported to the sender (docs/design/0002).
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple, Protocol

from cometmq.store.page_lock import Unlock

Buffer = bytes | bytearray | memoryview

# Errors caused by one path: a name that is too long, or something else at its place.
_OF_ONE_PATH = frozenset(
    (
        errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY,
        errno.ELOOP, errno.EACCES, errno.EPERM,
    )
)  # fmt: skip


def is_of_one_path(error: OSError) -> bool:
    """Return whether an error probably concerns one path only, so that other paths can still be used."""
    return error.errno in _OF_ONE_PATH


# Temporary lacks of the disk or the process: the same call succeeds once the resource is available.
NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT))
NO_DESCRIPTOR = frozenset((errno.EMFILE, errno.ENFILE))
_LACKS = {
    errno.ENOSPC: "disk full",
    errno.EDQUOT: "disk full",
    errno.EMFILE: "this process has no file descriptors left",
    errno.ENFILE: "this machine has no file descriptors left",
    errno.ENOMEM: "no memory is left",
}


def lack_of(error: OSError) -> str | None:
    """Return a description of the resource that a call lacked for now, such as room; None for other errors.

    Only for calls that open, create or write a file. A failed sync may have lost data, whatever its error is.
    """
    return _LACKS.get(error.errno or 0)


def failed(what: str, error: OSError) -> str:
    """Return the message for a failed call, beginning with the lacking resource if there is one."""
    lack = lack_of(error)
    said = f"{what} ({error.strerror or error})"
    return said if lack is None else f"{lack}: {said}"


class Space(NamedTuple):
    """Space of a file system, as `df` counts it.

    Attributes:
        used: Bytes in use.
        available: Bytes that a normal user can still allocate.
        inodes: Files that a normal user can still create; 1 if the file system does not count them.
    """

    used: int
    available: int
    inodes: int = 1

    @property
    def total(self) -> int:
        """Bytes that are in use or available to a normal user."""
        return self.used + self.available

    @property
    def used_percent(self) -> int:
        """Used percentage of `total`, rounded up as `df` does; 100 if `total` is 0."""
        return -(-100 * self.used // self.total) if self.total else 100


class Disk(Protocol):
    """File system calls; `RealDisk` and the fake disk of the tests pass tests/unit/store/test_disk.py."""

    def open(
        self, path: str, *, create: bool = False, write: bool = True, is_new: bool = False
    ) -> int:
        """Open a file and return its descriptor.

        Args:
            path: Path of the file.
            create: Create it if it is missing, with access for its owner only.
            write: Open it for writing, too.
            is_new: With `create`: fail if the name exists, also as a link.
        """

    def close(self, fd: int) -> None:
        """Close a file."""

    def size(self, fd: int) -> int:
        """Return the size of a file in bytes."""

    def modified_ms(self, fd: int) -> int:
        """Return the time of the file's last write, ms since 1970."""

    def resize(self, fd: int, size: int) -> None:
        """Set the size of a file; an added part is a hole."""

    def allocate(self, fd: int, size: int) -> None:
        """Allocate the first `size` bytes of a file; raise OSError (for example ENOSPC) if there is no room."""

    def pwrite(self, fd: int, piece: Buffer, offset: int) -> int:
        """Write at an offset and return the number of bytes written, which may be smaller."""

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Read at an offset; returns fewer bytes only at the end of the file."""

    def pread_nowait(self, fd: int, size: int, offset: int) -> Buffer | None:
        """Read at an offset; return None if that may block on the device; at the file's end return None or fewer bytes."""

    def will_need(self, fd: int, offset: int, size: int) -> None:
        """Let the system read a range of a file ahead, because it will be read next."""

    def read_randomly(self, fd: int) -> None:
        """Turn off the system's read-ahead for reads through this descriptor."""

    def read_normally(self, fd: int) -> None:
        """Turn on the system's read-ahead for reads through this descriptor."""

    def written(self, fd: int, offset: int) -> list[tuple[int, int]]:
        """Return the (start, end) ranges from an offset on that are not holes; they may contain zeros."""

    def clear_from(self, fd: int, offset: int) -> None:
        """Zero a file from an offset to its end, keeping its size."""

    def begin_writing(self, fd: int, offset: int, size: int) -> None:
        """Start writing the dirty part of a range to the device; `fdatasync` waits for it and reports errors."""

    def fdatasync(self, fd: int) -> None:
        """Wait until all bytes written to the file are on the device; raise OSError if writing them failed."""

    def sync_all(self, path: str) -> None:
        """Sync the whole file system of a directory to the device, including names."""

    def map_readonly(self, fd: int, size: int, *, is_random: bool = False) -> memoryview:
        """Return a live view of the file's bytes; with `is_random`, the system does not read ahead."""

    def lock_pages(self, fd: int, size: int) -> Unlock:
        """Keep a file in memory until the returned function is called."""

    def lock(self, fd: int) -> bool:
        """Lock byte 0 against other processes, including Java; return False if another process holds it."""

    def exists(self, path: str) -> bool:
        """Return whether a file or directory has this name."""

    def list_names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; empty if there is no such directory."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents if they are missing."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""

    def sync_directory(self, path: str) -> None:
        """Sync a directory's names to the device."""

    def rename(self, source: str, target: str) -> None:
        """Rename a file, replacing an existing target."""

    def unlink(self, path: str) -> None:
        """Remove a file from its directory; its content stays until the last descriptor is closed."""

    def space(self, path: str) -> Space:
        """Return the space of the file system that contains a directory."""

    def real_path(self, path: str) -> str:
        """Return the path of a directory with all links resolved."""


def write_whole(disk: Disk, fd: int, piece: Buffer, offset: int) -> None:
    """Write all bytes, in as many calls as needed; if the disk fails, raise OSError, and a part may be written."""
    count = disk.pwrite(fd, piece, offset)
    if count < len(piece):
        write_rest(disk, fd, piece, offset, count)


def write_rest(disk: Disk, fd: int, piece: Buffer, offset: int, count: int) -> None:
    """Write the rest of a piece, of which a call has written `count` bytes at `offset`.

    Raises:
        OSError: The disk failed, or a call has written no byte.
    """
    view = memoryview(piece)
    while True:
        if count <= 0:
            raise OSError(errno.EIO, "a write stored no byte")
        view = view[count:]
        offset += count
        if not view:
            return
        count = disk.pwrite(fd, view, offset)


@contextmanager
def opened(disk: Disk, path: str, *, write: bool = True, create: bool = False) -> Iterator[int]:
    """Open a file (arguments as for `Disk.open`), provide its descriptor to a `with` block, and close it afterwards."""
    fd = disk.open(path, write=write, create=create)
    try:
        yield fd
    finally:
        disk.close(fd)


def open_anew(disk: Disk, path: str) -> int:
    """Create an empty file, replacing a file or link of that name, and return its descriptor."""
    with suppress(FileNotFoundError):
        disk.unlink(path)
    return disk.open(path, create=True, is_new=True)


def write_file(disk: Disk, path: str, content: bytes) -> None:
    """Create or replace a small file atomically: it has either the old content or the new.

    Raises:
        OSError: The disk failed; the file has the old content, or the new one that may not survive a power failure.
    """
    fresh = path + ".tmp"
    fd = open_anew(disk, fresh)
    try:
        write_whole(disk, fd, content, 0)
        disk.fdatasync(fd)
    except OSError:
        with suppress(OSError):
            disk.unlink(fresh)
        raise
    finally:
        disk.close(fd)
    disk.rename(fresh, path)
    disk.sync_directory(os.path.dirname(path))  # noqa: PTH120  # paths are strings here


def file_size(disk: Disk, path: str) -> int:
    """Return the size of a file in bytes; raise FileNotFoundError if it does not exist."""
    with opened(disk, path, write=False) as fd:
        return disk.size(fd)


def read_file(disk: Disk, path: str) -> bytes:
    """Return the content of a small file; raise FileNotFoundError if it does not exist."""
    with opened(disk, path, write=False) as fd:
        return disk.pread(fd, disk.size(fd), 0)
