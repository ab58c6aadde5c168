"""One file of the log or timerlog: written with `pwrite`, read through a map or `pread`.

The name is the file's first physical offset in 20 digits. A file of the log is allocated completely when it is created,
with `posix_fallocate`, so that a full disk is normally noticed when a file is created and not in the middle of a write.
"""

from contextlib import suppress

from cometmq.kernel import MappedFile
from cometmq.model.errors import StoreFull
from cometmq.store.disk import NO_ROOM, Buffer, Disk, failed, lack_of, write_rest
from cometmq.store.page_lock import Unlock


class LogFile(MappedFile):
    """A file of the log or timerlog, which is opened on demand.

    Attributes:
        start: Physical offset of its first byte.
        end: Physical offset after its last byte.
        mapped: Its bytes if they are mapped, else None; `view` maps them.
    """

    __slots__ = (
        "__weakref__",
        "_disk",
        "_fd",
        "_is_random",
        "_unlock",
        "path",
    )

    def __init__(self, disk: Disk, path: str, *, start: int, size: int, fd: int = -1) -> None:
        super().__init__(start, start + size)
        self._disk = disk
        self.path = path
        self._fd = fd
        self._unlock: Unlock | None = None
        self._is_random = False

    def __del__(self) -> None:
        """Close the file with its last reference: a deleted file may still be in use by readers."""
        self.close()

    @property
    def fd(self) -> int:
        """Descriptor of the file, which is opened for reading and writing unless it is open."""
        self.open()
        return self._fd

    @property
    def view(self) -> memoryview:
        """The bytes of the file, which is mapped unless it is already."""
        if self.mapped is None:
            size = self.end - self.start
            self.mapped = self._disk.map_readonly(self.fd, size, is_random=self._is_random)
        return self.mapped

    @property
    def modified_ms(self) -> int:
        """Time of the file's last write, ms since 1970."""
        return self._disk.modified_ms(self.fd)

    def open(self) -> None:
        """Open the file for reading and writing unless it is open."""
        if self._fd < 0:
            self._fd = self._disk.open(self.path)

    def open_readonly(self) -> None:
        """Open the file only for reading unless it is open."""
        if self._fd < 0:
            self._fd = self._disk.open(self.path, write=False)

    def write(self, piece: Buffer, offset: int) -> None:
        """Write at a physical offset; if the disk fails, raise OSError, and a part may be written."""
        size, place = len(piece), offset - self.start
        assert 0 <= place <= self.end - self.start - size
        fd = self._fd if self._fd >= 0 else self.fd
        count = self._disk.pwrite(fd, piece, place)
        if count < size:  # Rare.
            write_rest(self._disk, fd, piece, place, count)

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes at a physical offset, fewer only at the file's end; may block on the device."""
        return self._disk.pread(self.fd, size, offset - self.start)

    def read_nowait(self, offset: int, size: int) -> Buffer | None:
        """Return `size` bytes at a physical offset; None if that may block on the device, maybe also at the file's end."""
        return self._disk.pread_nowait(self.fd, size, offset - self.start)

    def will_need(self, offset: int, size: int) -> None:
        """Let the system read a range of the file ahead, unless read-ahead is turned off."""
        if not self._is_random:
            self._disk.will_need(self.fd, offset - self.start, size)

    def read_randomly(self) -> None:
        """Turn off the system's read-ahead for the file and its later views."""
        self._is_random = True
        self.mapped = None  # The next map gets the setting; readers of this one keep it.
        self._disk.read_randomly(self.fd)

    def read_normally(self) -> None:
        """Turn on the system's read-ahead for the file and its later views."""
        self._is_random = False
        self.mapped = None
        self._disk.read_normally(self.fd)

    def begin_flush(self, offset: int, size: int) -> None:
        """Start writing a range to the device; it only counts as flushed once `flush` has ended."""
        self._disk.begin_writing(self.fd, offset - self.start, size)

    def flush(self) -> None:
        """Sync the file to the device; any thread."""
        self._disk.fdatasync(self.fd)

    def clear_from(self, offset: int) -> None:
        """Zero the file from a physical offset to its end."""
        self._disk.clear_from(self.fd, offset - self.start)

    def keep_in_memory(self) -> None:
        """Lock the file's pages in memory until `forget_view` or `close`; any thread. Raise OSError if the system refuses."""
        self._unlock = self._disk.lock_pages(self.fd, self.end - self.start)

    def forget_view(self) -> None:
        """Release the file's memory map, which lives on while answers still use pieces of it, and its lock in memory."""
        self.mapped = None
        unlock, self._unlock = self._unlock, None
        if unlock is not None:
            unlock()

    def unlink(self) -> None:
        """Remove the file's name, but not its content for readers that have it open; raise OSError on failure. Any thread."""
        with suppress(FileNotFoundError):
            self._disk.unlink(self.path)
        self._disk.sync_directory(self.path.rpartition("/")[0])

    def close(self) -> None:
        """Close the file and forget its map and lock; does nothing if that was done."""
        self.forget_view()
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1


def log_file_name(start: int) -> str:
    """Return the name of the file that begins at a physical offset."""
    return f"{start:020d}"


def make_log_file(disk: Disk, path: str, *, start: int, size: int, reserve: int) -> LogFile:
    """Create and return a log file with all blocks allocated; after an error it is removed if possible. Any thread.

    Raises:
        StoreFull: There is no room for it and the reserve, or no inode, descriptor or memory to open it.
        OSError: Another system call failed.
    """
    directory = path.rpartition("/")[0]
    available = disk.space(directory).available
    if available < size + reserve:
        raise StoreFull(
            f"disk full: a log file of {size} bytes and a reserve of {reserve} do not fit "
            f"into the {available} free bytes at {directory}; sending continues when space is free"
        )
    try:
        fd = disk.open(path, create=True)
    except OSError as error:
        if lack_of(error) is None:
            raise
        which = "no inode is left for a log file" if error.errno in NO_ROOM else "no log file"
        reason = failed(f"{which} at {directory}", error)
        raise StoreFull(f"{reason}; sending continues when a file can be created") from error
    try:
        disk.allocate(fd, size)
        disk.fdatasync(fd)
        disk.sync_directory(directory)
    except OSError as error:
        disk.close(fd)
        with suppress(OSError):
            disk.unlink(path)
        if error.errno in NO_ROOM:
            raise StoreFull(
                f"disk full: no room for a log file of {size} bytes at {directory} "
                f"({error.strerror}); sending continues when space is free"
            ) from error
        raise
    return LogFile(disk, path, start=start, size=size, fd=fd)
