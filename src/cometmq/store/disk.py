"""What the store asks of a disk, and the real one.

Every byte that the store reads or writes goes through a `Disk`, so that a test can lend one that
forgets what was not synced, is full, or fails at the nth call (tests/support/fake_disk.py). File
names are absolute strings, files are small ints; errors are OSError with the system's errno.

There is no write through a map: on a full disk that is SIGBUS, the death of the process, where a
`pwrite` is an error that a sender can be told (docs/design/0002).

Next: cometmq.store.log_file
"""

import ctypes
import errno
import fcntl
import mmap
import os
from contextlib import suppress
from typing import NamedTuple, Protocol

from cometmq.store.page_lock import Unlock, lock_pages

Buffer = bytes | bytearray | memoryview

_libc = ctypes.CDLL(None, use_errno=True)
_ZEROS = bytes(1 << 20)


class Space(NamedTuple):
    """Room of a file system as `df` counts it.

    Attributes:
        used: bytes in use.
        available: bytes that a normal user may still take.
    """

    used: int
    available: int

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

    def open(self, path: str, *, create: bool = False, write: bool = True) -> int:
        """Open a file; `create` makes a missing one. Gives its descriptor."""
        ...

    def close(self, fd: int) -> None:
        """Close it."""
        ...

    def size(self, fd: int) -> int:
        """Bytes of the file."""
        ...

    def modified_ms(self, fd: int) -> int:
        """When the file was last written, ms since 1970."""
        ...

    def resize(self, fd: int, size: int) -> None:
        """Set its size; what is added is a hole."""
        ...

    def allocate(self, fd: int, size: int) -> None:
        """Give it `size` bytes that really exist; ENOSPC when they do not."""
        ...

    def pwrite(self, fd: int, piece: Buffer, offset: int) -> int:
        """Write at an offset; gives the bytes written, which may be fewer."""
        ...

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Read at an offset; fewer bytes only at the end of the file."""
        ...

    def pread_nowait(self, fd: int, size: int, offset: int) -> Buffer | None:
        """The same if it need not wait for the device, else None."""
        ...

    def will_need(self, fd: int, offset: int, size: int) -> None:
        """Tell the system what will be read next."""
        ...

    def read_randomly(self, fd: int) -> None:
        """Have the system read no more of the file than is asked for."""
        ...

    def read_normally(self, fd: int) -> None:
        """Let it read ahead again."""
        ...

    def written(self, fd: int, offset: int) -> list[tuple[int, int]]:
        """(start, end) of what lies behind an offset and is more than a hole; maybe zeros."""
        ...

    def clear_from(self, fd: int, offset: int) -> None:
        """Make everything from an offset to the end read as zeros; the size stays."""
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
        """Names in a directory, sorted; none when it does not exist."""
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


class RealDisk:
    """The disk of this machine."""

    def open(self, path: str, *, create: bool = False, write: bool = True) -> int:
        """Open a file; a new one belongs to its user, and its group may read."""
        flags = os.O_CLOEXEC | (os.O_RDWR if write else os.O_RDONLY)
        return os.open(path, flags | (os.O_CREAT if create else 0), 0o644)

    def close(self, fd: int) -> None:
        """Close it."""
        os.close(fd)

    def size(self, fd: int) -> int:
        """Bytes of the file."""
        # A fifth of the time of `fstat`, which makes an object of twenty; no read or write here goes by
        # the position that this moves.
        return os.lseek(fd, 0, os.SEEK_END)

    def modified_ms(self, fd: int) -> int:
        """When it was last written."""
        return os.fstat(fd).st_mtime_ns // 1_000_000

    def resize(self, fd: int, size: int) -> None:
        """Set its size."""
        os.ftruncate(fd, size)

    def allocate(self, fd: int, size: int) -> None:
        """Reserve its blocks."""
        os.posix_fallocate(fd, 0, size)

    # Without a frame of its own: each message that comes alone goes through here.
    pwrite = staticmethod(os.pwrite)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Read at an offset."""
        piece = os.pread(fd, size, offset)
        while 0 < len(piece) < size:
            more = os.pread(fd, size - len(piece), offset + len(piece))
            if not more:
                break
            piece += more
        return piece

    def pread_nowait(self, fd: int, size: int, offset: int) -> Buffer | None:
        """Read from the page cache alone."""
        piece = bytearray(size)
        try:
            count = os.preadv(fd, [piece], offset, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:  # A file system that lives in memory.
                return self.pread(fd, size, offset)
            raise
        if count == size:
            return piece
        # The rest may be not cached, or behind the end of the file; only a waiting read knows.
        return None

    def will_need(self, fd: int, offset: int, size: int) -> None:
        """Start reading ahead."""
        os.posix_fadvise(fd, offset, size, os.POSIX_FADV_WILLNEED)

    def read_randomly(self, fd: int) -> None:
        """Say so of the open file; its maps are told by themselves."""
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)

    def read_normally(self, fd: int) -> None:
        """The same, the other way round."""
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_NORMAL)

    def written(self, fd: int, offset: int) -> list[tuple[int, int]]:
        """What the file system does not hold as a hole, behind an offset."""
        pieces = []
        end = os.fstat(fd).st_size
        while offset < end:
            try:
                offset = os.lseek(fd, offset, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # Only a hole is left.
                    break
                raise
            stop = min(os.lseek(fd, offset, os.SEEK_HOLE), end)
            pieces.append((offset, stop))
            offset = stop
        return pieces

    def clear_from(self, fd: int, offset: int) -> None:
        """Overwrite what is written behind the offset with zeros."""
        for start, stop in self.written(fd, offset):
            while start < stop:
                start += self._clear_piece(fd, start, stop)  # noqa: PLW2901

    def _clear_piece(self, fd: int, offset: int, stop: int) -> int:
        """Zero one piece, if it is not zero already; gives its size."""
        size = min(stop - offset, len(_ZEROS))
        zeros = memoryview(_ZEROS)[:size]
        if os.pread(fd, size, offset) != zeros:
            return os.pwrite(fd, zeros, offset)
        return size

    # As pwrite: a sender waits for it.
    fdatasync = staticmethod(os.fdatasync)

    def sync_all(self, path: str) -> None:
        """Call syncfs, which Python does not offer; since Linux 5.8 it tells of lost writes."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _libc.syncfs(fd) != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code))
        finally:
            os.close(fd)

    def map_readonly(self, fd: int, size: int, *, is_random: bool = False) -> memoryview:
        """Map it; the map lives as long as a view of it does."""
        mapped = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ)
        if is_random:
            mapped.madvise(mmap.MADV_RANDOM)
        return memoryview(mapped)

    def lock_pages(self, fd: int, size: int) -> Unlock:
        """Lock its pages."""
        return lock_pages(fd, size)

    def lock(self, fd: int) -> bool:
        """Lock byte 0, as Java's FileChannel.tryLock(0, 1) does."""
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            raise
        return True

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this name."""
        return os.path.lexists(path)

    def list_names(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        try:
            return sorted(os.listdir(path))  # noqa: PTH208  # 80,000 queues: no Path objects.
        except FileNotFoundError:
            return []

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents."""
        os.makedirs(path, exist_ok=True)  # noqa: PTH103  # as above

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        os.rmdir(path)  # noqa: PTH106  # as above

    def sync_directory(self, path: str) -> None:
        """Bring a directory's names to the device."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, source: str, target: str) -> None:
        """Give a file another name."""
        os.replace(source, target)  # noqa: PTH105  # as above

    def unlink(self, path: str) -> None:
        """Remove a file's name."""
        os.unlink(path)  # noqa: PTH108  # as above

    def space(self, path: str) -> Space:
        """Room of the file system."""
        state = os.statvfs(path)
        used = (state.f_blocks - state.f_bfree) * state.f_frsize
        return Space(used, state.f_bavail * state.f_frsize)

    def real_path(self, path: str) -> str:
        """The path without links."""
        return os.path.realpath(path)


def write_whole(disk: Disk, fd: int, piece: Buffer, offset: int) -> None:
    """Write all of a piece, in as many calls as the disk takes.

    Raises:
        OSError: the disk failed; part of the piece may be written.
    """
    count = disk.pwrite(fd, piece, offset)
    if count == len(piece):
        return
    view = memoryview(piece)
    while True:
        if count <= 0:
            raise OSError(errno.EIO, "a write took no byte")
        view = view[count:]
        offset += count
        if not view:
            return
        count = disk.pwrite(fd, view, offset)


def write_file(disk: Disk, path: str, content: bytes) -> None:
    """Replace a small file so that it has the old content or the new one, never a piece.

    Raises:
        OSError: it could not be written; the old content stands.
    """
    fresh = path + ".tmp"
    fd = disk.open(fresh, create=True)
    try:
        disk.resize(fd, 0)
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
