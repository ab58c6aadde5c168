"""One file of the log: allocated whole, written with `pwrite`, read through a map or `pread`.

The name is the file's first physical offset in 20 digits. It is made before it is needed, with
`posix_fallocate`, so that a full disk shows when a file is made and not in the middle of a send.
"""

from contextlib import suppress

from cometmq.kernel import MappedFile
from cometmq.model.errors import StoreFull
from cometmq.store.disk import NO_ROOM, Buffer, Disk, failed, lack_of, write_rest
from cometmq.store.page_lock import Unlock


class LogFile(MappedFile):
    """An open or openable file of the log.

    Attributes:
        path: its name.
        start: physical offset of its first byte.
        end: physical offset behind its last.
        mapped: its bytes, where they are mapped; `view` maps them.
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
        """The last who refers to it closes it: one that was removed may still be read."""
        self.close()

    @property
    def fd(self) -> int:
        """The descriptor of the file, opened when it is first asked for."""
        self.open()
        return self._fd

    @property
    def view(self) -> memoryview:
        """The bytes of the file, mapped when they are first asked for."""
        if self.mapped is None:
            size = self.end - self.start
            self.mapped = self._disk.map_readonly(self.fd, size, is_random=self._is_random)
        return self.mapped

    @property
    def modified_ms(self) -> int:
        """The time of the file's last write, ms since 1970."""
        return self._disk.modified_ms(self.fd)

    def open(self) -> None:
        """Open the file for reading and writing, unless it is open."""
        if self._fd < 0:
            self._fd = self._disk.open(self.path)

    def open_readonly(self) -> None:
        """Open the file for reading, where writing is not allowed."""
        if self._fd < 0:
            self._fd = self._disk.open(self.path, write=False)

    def write(self, piece: Buffer, offset: int) -> None:
        """Write at a physical offset.

        Raises:
            OSError: the disk failed; part of the piece may be written.
        """
        size, place = len(piece), offset - self.start
        assert 0 <= place <= self.end - self.start - size
        fd = self._fd if self._fd >= 0 else self.fd
        count = self._disk.pwrite(fd, piece, place)
        if count < size:  # Hardly ever.
            write_rest(self._disk, fd, piece, place, count)

    def read(self, offset: int, size: int) -> bytes:
        """Read at a physical offset; may wait for the device."""
        return self._disk.pread(self.fd, size, offset - self.start)

    def read_nowait(self, offset: int, size: int) -> Buffer | None:
        """Read what need not wait for the device; None where that is not all of it."""
        return self._disk.pread_nowait(self.fd, size, offset - self.start)

    def will_need(self, offset: int, size: int) -> None:
        """Have the system read ahead, where that is wanted at all."""
        if not self._is_random:
            self._disk.will_need(self.fd, offset - self.start, size)

    def read_randomly(self) -> None:
        """Nothing is to be read ahead of what is asked for."""
        self._is_random = True
        self.mapped = None  # The next map is told; who reads this one keeps it.
        self._disk.read_randomly(self.fd)

    def read_normally(self) -> None:
        """The system may read ahead again."""
        self._is_random = False
        self.mapped = None
        self._disk.read_normally(self.fd)

    def begin_flush(self, offset: int, size: int) -> None:
        """Send what was written at a physical offset on its way; it is nowhere until `flush` has ended."""
        self._disk.begin_writing(self.fd, offset - self.start, size)

    def flush(self) -> None:
        """Bring the file to the device; any thread."""
        self._disk.fdatasync(self.fd)

    def clear_from(self, offset: int) -> None:
        """Make what lies behind a physical offset read as zeros."""
        self._disk.clear_from(self.fd, offset - self.start)

    def keep_in_memory(self) -> None:
        """Lock the file's pages in memory until it is cold or closed; any thread.

        Raises:
            OSError: the system does not allow it, or has not so much memory.
        """
        self._unlock = self._disk.lock_pages(self.fd, self.end - self.start)

    def forget_view(self) -> None:
        """Let the map go; pieces of it that somebody still sends keep it alive."""
        self.mapped = None
        unlock, self._unlock = self._unlock, None
        if unlock is not None:
            unlock()

    def unlink(self) -> None:
        """Remove the file's name; who has it open can read it still; any thread.

        Raises:
            OSError: it could not be removed.
        """
        with suppress(FileNotFoundError):
            self._disk.unlink(self.path)
        self._disk.sync_directory(self.path.rpartition("/")[0])

    def close(self) -> None:
        """Close the file."""
        self.forget_view()
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1


def log_file_name(start: int) -> str:
    """The name of the file that begins at a physical offset."""
    return f"{start:020d}"


def make_log_file(disk: Disk, path: str, *, start: int, size: int, reserve: int) -> LogFile:
    """Make a file of zeros that really has its bytes. Any thread.

    Raises:
        StoreFull: no room for it and the reserve; nothing of it is left.
        OSError: the disk failed otherwise; nothing of it is left either.
    """
    directory = path.rpartition("/")[0]
    available = disk.space(directory).available
    if available < size + reserve:
        raise StoreFull(
            f"disk full: a log file of {size} bytes and a reserve of {reserve} do not fit "
            f"into the {available} bytes left at {directory}; free space and sending goes on"
        )
    try:
        fd = disk.open(path, create=True)
    except OSError as error:
        if lack_of(error) is None:
            raise
        which = "no inode is left for a log file" if error.errno in NO_ROOM else "no log file"
        reason = failed(f"{which} at {directory}", error)
        raise StoreFull(f"{reason}; sending goes on when one can be made") from error
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
                f"({error.strerror}); free space and sending goes on"
            ) from error
        raise
    return LogFile(disk, path, start=start, size=size, fd=fd)
