"""The interface of a disk: all calls of the store to the file system.

Every byte that the store reads or writes goes through a `Disk`, so that a test can lend one that
forgets what was not synced, is full, or fails at the nth call (tests/support/fake_disk.py). File
names are absolute strings, files are small ints; errors are OSError with the system's errno.

There is no write through a map: on a full disk that is SIGBUS, the death of the process, where a
`pwrite` is an error that a sender can be told (docs/design/0002).
"""

import errno
import os
from contextlib import suppress
from typing import NamedTuple, Protocol

from cometmq.store.page_lock import Unlock

Buffer = bytes | bytearray | memoryview

# What only one path has: its name is too long, or something else lies where it should.
_OF_ONE_PATH = frozenset(
    (
        errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY,
        errno.ELOOP, errno.EACCES, errno.EPERM,
    )
)  # fmt: skip


def is_of_one_path(error: OSError) -> bool:
    """Whether an error tells of one path alone, so that what has another name is well."""
    return error.errno in _OF_ONE_PATH


# What is missing for the moment, of the disk or of the process: the same call works when it is there again.
NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT))
NO_DESCRIPTOR = frozenset((errno.EMFILE, errno.ENFILE))
_LACKS = {
    errno.ENOSPC: "disk full",
    errno.EDQUOT: "disk full",
    errno.EMFILE: "no file descriptor is left to this process",
    errno.ENFILE: "no file descriptor is left on this machine",
    errno.ENOMEM: "no memory is left",
}


def lack_of(error: OSError) -> str | None:
    """The thing that a call lacked for the moment, such as room, in words; None for any other failure.

    Of what opens, makes or writes a file. A sync that fails has lost something, whatever it says.
    """
    return _LACKS.get(error.errno or 0)


def failed(what: str, error: OSError) -> str:
    """The message for a call that failed, with what is lacking in front."""
    lack = lack_of(error)
    said = f"{what} ({error.strerror or error})"
    return said if lack is None else f"{lack}: {said}"


class Space(NamedTuple):
    """Room of a file system as `df` counts it.

    Attributes:
        used: bytes in use.
        available: bytes that a normal user may still take.
        inodes: files that he may still make; 1 where the file system does not count them.
    """

    used: int
    available: int
    inodes: int = 1

    @property
    def total(self) -> int:
        """Bytes that a normal user could have at most."""
        return self.used + self.available

    @property
    def used_percent(self) -> int:
        """Used part of it, rounded up, as `df` prints it."""
        return -(-100 * self.used // self.total) if self.total else 100


class Disk(Protocol):
    """The calls; every implementation passes tests/unit/store/test_disk.py."""

    def open(
        self, path: str, *, create: bool = False, write: bool = True, is_new: bool = False
    ) -> int:
        """Open a file and return its descriptor.

        Args:
            path: of the file.
            create: make it where it is missing, for its owner alone.
            write: also for writing.
            is_new: with `create`: fail where the name is taken, by a link too.
        """
        ...

    def close(self, fd: int) -> None:
        """Close a file."""
        ...

    def size(self, fd: int) -> int:
        """Bytes of the file."""
        ...

    def modified_ms(self, fd: int) -> int:
        """The time of the file's last write, ms since 1970."""
        ...

    def resize(self, fd: int, size: int) -> None:
        """Set the size of a file; what is added is a hole."""
        ...

    def allocate(self, fd: int, size: int) -> None:
        """Give a file `size` bytes that really exist; ENOSPC when they do not."""
        ...

    def pwrite(self, fd: int, piece: Buffer, offset: int) -> int:
        """Write at an offset; gives the bytes written, which may be fewer."""
        ...

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Read at an offset; fewer bytes only at the end of the file."""
        ...

    def pread_nowait(self, fd: int, size: int, offset: int) -> Buffer | None:
        """Read from a file if that need not wait for the device, else None."""
        ...

    def will_need(self, fd: int, offset: int, size: int) -> None:
        """Tell the system what will be read next."""
        ...

    def read_randomly(self, fd: int) -> None:
        """Have the system read no more of the file than is asked for."""
        ...

    def read_normally(self, fd: int) -> None:
        """Let the system read ahead in a file again."""
        ...

    def written(self, fd: int, offset: int) -> list[tuple[int, int]]:
        """(start, end) of what lies behind an offset and is more than a hole; maybe zeros."""
        ...

    def clear_from(self, fd: int, offset: int) -> None:
        """Make everything from an offset to the end read as zeros; the size stays."""
        ...

    def begin_writing(self, fd: int, offset: int, size: int) -> None:
        """Send what is dirty in a range on its way to the device; `fdatasync` waits, and tells of errors."""
        ...

    def fdatasync(self, fd: int) -> None:
        """Bring the file's bytes to the device."""
        ...

    def sync_all(self, path: str) -> None:
        """Bring all that the file system of a directory holds to the device, names too."""
        ...

    def map_readonly(self, fd: int, size: int, *, is_random: bool = False) -> memoryview:
        """The file's bytes as they are at each moment; nothing is read around what `is_random`."""
        ...

    def lock_pages(self, fd: int, size: int) -> Unlock:
        """Keep a file in memory until the function that this gives is called."""
        ...

    def lock(self, fd: int) -> bool:
        """Lock byte 0 against other processes, Java's too; False when one holds it."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this name."""
        ...

    def list_names(self, path: str) -> list[str]:
        """Names in a directory, sorted; none where there is no directory of this name."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents, if they are missing."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        ...

    def sync_directory(self, path: str) -> None:
        """Bring a directory's names to the device."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, replacing what had it."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a file's name."""
        ...

    def space(self, path: str) -> Space:
        """Room of the file system that holds a directory."""
        ...

    def real_path(self, path: str) -> str:
        """The one name of a directory, whatever links lead there."""
        ...


def write_whole(disk: Disk, fd: int, piece: Buffer, offset: int) -> None:
    """Write all of a piece, in as many calls as the disk takes.

    Raises:
        OSError: the disk failed; part of the piece may be written.
    """
    count = disk.pwrite(fd, piece, offset)
    if count < len(piece):
        write_rest(disk, fd, piece, offset, count)


def write_rest(disk: Disk, fd: int, piece: Buffer, offset: int, count: int) -> None:
    """Write what is left of a piece of which the disk has taken so many bytes, as `write_whole`.

    Raises:
        OSError: the disk failed; part of the piece may be written.
    """
    view = memoryview(piece)
    while True:
        if count <= 0:
            raise OSError(errno.EIO, "a write took no byte")
        view = view[count:]
        offset += count
        if not view:
            return
        count = disk.pwrite(fd, view, offset)


def open_anew(disk: Disk, path: str) -> int:
    """Make an empty file in the place of what has its name, and return its descriptor; a link is replaced, never followed.

    Raises:
        OSError: it could not be made.
    """
    with suppress(FileNotFoundError):
        disk.unlink(path)
    return disk.open(path, create=True, is_new=True)


def write_file(disk: Disk, path: str, content: bytes) -> None:
    """Replace a small file so that it has the old content or the new one, never a piece.

    Raises:
        OSError: it could not be written; the old content stands.
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
    """Return the size of a file, bytes.

    Raises:
        FileNotFoundError: there is none.
    """
    fd = disk.open(path, write=False)
    try:
        return disk.size(fd)
    finally:
        disk.close(fd)


def read_file(disk: Disk, path: str) -> bytes:
    """The content of a small file.

    Raises:
        FileNotFoundError: there is none.
    """
    fd = disk.open(path, write=False)
    try:
        return disk.pread(fd, disk.size(fd), 0)
    finally:
        disk.close(fd)
