"""A disk in memory that forgets what was not synced, gets full, and fails when it is told to.

It passes the same suite as the real one (tests/unit/store/test_disk.py). Content is durable by
pages, after `fdatasync`; names are durable after `sync_directory` of their directory. Beyond
that: `power_cut` gives the disk as the next start finds it, `kill` the same after the death of the
process alone.
"""

import errno
import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from cometmq.store.disk import Buffer, Space
from tests.support.hand_clock import HandClock

PAGE = 4096

_serials = itertools.count()


@dataclass
class Inode:
    """A file's content now, and what of it is on the device."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    dirty: set[int] = field(default_factory=set)  # Pages.
    allocated: set[int] = field(default_factory=set)
    modified_ms: int = 0


@dataclass
class Fault:
    """Call number `nth` of `call` from now on fails; 1 is the next. `forever`: all after it, too."""

    call: str
    nth: int
    code: int
    forever: bool = False


class FakeDisk:
    """A `cometmq.store.disk.Disk`.

    Attributes:
        room: bytes that files may still take; None: no end of them.
        used: bytes that `space` reports as used, so that a small disk is not above a level.
        write_max: most bytes that one `pwrite` takes; None: all.
        is_cold: `pread_nowait` always says that it would have to wait.
        calls: how often each call was made.
        clock: gives files the time of their last write; None: they have none.
        locked: bytes of files that are kept in memory.
        capacity: bytes of it; None: `used` and `room` are all that `space` reports.
    """

    def __init__(self, *, room: int | None = None) -> None:
        self.room = room
        self.used = 0
        self.write_max: int | None = None
        self.is_cold = False
        self.calls: Counter[str] = Counter()
        self.clock: HandClock | None = None
        self.locked = 0
        self.capacity: int | None = None
        self.faults: list[Fault] = []
        self.names: dict[str, Inode] = {}
        self.directories: set[str] = {"/"}
        self.durable_names: dict[str, Inode] = {}
        self.durable_directories: set[str] = {"/"}
        self._open: dict[int, tuple[Inode, bool]] = {}
        self._next_fd = 3
        self._serial = next(_serials)

    # --- what a test does with it

    def fail(
        self, call: str, *, nth: int = 1, code: int = errno.EIO, forever: bool = False
    ) -> None:
        """Let a later call fail."""
        self.faults.append(Fault(call, nth, code, forever))

    def heal(self) -> None:
        """No more faults."""
        self.faults.clear()

    def kill(self) -> "FakeDisk":
        """The disk as the next process finds it: all that was written, no descriptor, no lock."""
        after = self._copy()
        after.names = {path: _twin(inode) for path, inode in self.names.items()}
        after.directories = set(self.directories)
        after.durable_names = {
            path: after.names[path]
            for path, inode in self.durable_names.items()
            if path in after.names
        }
        after.durable_directories = set(self.durable_directories)
        return after

    def power_cut(self, chance: random.Random | None = None) -> "FakeDisk":
        """The disk after a power cut.

        Args:
            chance: decides for each page that was not synced whether it made it; None: none did.
        """
        after = self._copy()
        for path, inode in self.durable_names.items():
            content = bytearray(inode.durable)
            if chance is not None:
                for page in sorted(inode.dirty):
                    if chance.random() < 0.5:
                        piece = inode.content[page * PAGE : (page + 1) * PAGE]
                        content.extend(bytes(max(0, page * PAGE + len(piece) - len(content))))
                        content[page * PAGE : page * PAGE + len(piece)] = piece
            kept = Inode(
                content, bytearray(content), set(), set(inode.allocated), inode.modified_ms
            )
            after.names[path] = after.durable_names[path] = kept
        after.directories = set(self.durable_directories)
        after.durable_directories = set(self.durable_directories)
        return after

    def _copy(self) -> "FakeDisk":
        after = FakeDisk(room=self.room)
        after.used = self.used
        after.clock, after.capacity = self.clock, self.capacity
        return after

    def content(self, path: str) -> bytes:
        """What a file reads as."""
        return bytes(self.names[path].content)

    @property
    def open_count(self) -> int:
        """Descriptors that were not closed."""
        return len(self._open)

    # --- the port

    def _called(self, call: str) -> None:
        self.calls[call] += 1
        for fault in list(self.faults):
            if fault.call == call:
                fault.nth -= 1
                if fault.nth <= 0:
                    if not fault.forever:
                        self.faults.remove(fault)
                    raise OSError(fault.code, errno.errorcode[fault.code])

    def _take(self, inode: Inode, start: int, end: int) -> None:
        """Allocate the pages of a range, if there is room."""
        pages = set(range(start // PAGE, -(-end // PAGE))) - inode.allocated
        if self.room is not None:
            if len(pages) * PAGE > self.room:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.room -= len(pages) * PAGE
        inode.allocated |= pages

    def open(
        self, path: str, *, create: bool = False, write: bool = True, is_new: bool = False
    ) -> int:
        self._called("open")
        inode = self.names.get(path)
        if is_new and inode is not None:
            raise FileExistsError(errno.EEXIST, "File exists", path)
        if inode is None:
            if not create or path.rpartition("/")[0] not in self.directories:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            inode = self.names[path] = Inode()
        self._next_fd += 1
        self._open[self._next_fd] = (inode, write)
        return self._next_fd

    def close(self, fd: int) -> None:
        del self._open[fd]

    def size(self, fd: int) -> int:
        return len(self._open[fd][0].content)

    def modified_ms(self, fd: int) -> int:
        return self._open[fd][0].modified_ms

    def _touch(self, inode: Inode) -> None:
        if self.clock is not None:
            inode.modified_ms = self.clock.now_ms()

    def resize(self, fd: int, size: int) -> None:
        self._called("resize")
        inode = self._open[fd][0]
        if size < len(inode.content):
            del inode.content[size:]
        else:
            inode.content.extend(bytes(size - len(inode.content)))
        inode.dirty.add(max(size - 1, 0) // PAGE)

    def allocate(self, fd: int, size: int) -> None:
        self._called("allocate")
        inode = self._open[fd][0]
        inode.content.extend(bytes(max(0, size - len(inode.content))))
        self._take(inode, 0, size)
        self._touch(inode)
        inode.dirty.add((size - 1) // PAGE)

    def pwrite(self, fd: int, piece: Buffer, offset: int) -> int:
        self._called("pwrite")
        inode, may_write = self._open[fd]
        if not may_write:
            raise OSError(errno.EBADF, "Bad file descriptor")
        if self.write_max is not None:
            piece = piece[: self.write_max]
        end = offset + len(piece)
        self._take(inode, offset, end)
        if end > len(inode.content):
            inode.content.extend(bytes(end - len(inode.content)))
        inode.content[offset:end] = piece
        self._touch(inode)
        inode.dirty.update(range(offset // PAGE, -(-end // PAGE)))
        return len(piece)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        self._called("pread")
        if size < 0:
            raise OSError(errno.EINVAL, "Invalid argument")
        return bytes(self._open[fd][0].content[offset : offset + size])

    def pread_nowait(self, fd: int, size: int, offset: int) -> Buffer | None:
        self._called("pread_nowait")
        piece = bytearray(self._open[fd][0].content[offset : offset + size])
        return None if self.is_cold or len(piece) < size else piece

    def will_need(self, fd: int, offset: int, size: int) -> None:
        self._called("will_need")

    def read_randomly(self, fd: int) -> None:
        self._called("read_randomly")

    def read_normally(self, fd: int) -> None:
        self._called("read_normally")

    def written(self, fd: int, offset: int) -> list[tuple[int, int]]:
        self._called("written")
        content = self._open[fd][0].content
        end = len(content.rstrip(b"\0"))
        return [(offset, end)] if end > offset else []

    def clear_from(self, fd: int, offset: int) -> None:
        self._called("clear_from")
        content, dirty = self._open[fd][0].content, self._open[fd][0].dirty
        if any(content[offset:]):
            content[offset:] = bytes(len(content) - offset)
            dirty.update(range(offset // PAGE, -(-len(content) // PAGE)))

    def begin_writing(self, fd: int, offset: int, size: int) -> None:
        self._called("begin_writing")

    def fdatasync(self, fd: int) -> None:
        self._called("fdatasync")
        inode = self._open[fd][0]
        inode.durable = bytearray(inode.content)
        inode.dirty.clear()

    def sync_all(self, path: str) -> None:
        self._called("sync_all")
        for inode in self.names.values():
            inode.durable = bytearray(inode.content)
            inode.dirty.clear()
        self.durable_names = dict(self.names)
        self.durable_directories = set(self.directories)

    def map_readonly(self, fd: int, size: int, *, is_random: bool = False) -> memoryview:
        self._called("map_readonly")
        return memoryview(self._open[fd][0].content)[:size].toreadonly()

    def lock_pages(self, fd: int, size: int) -> Callable[[], None]:
        self._called("lock_pages")
        self.locked += size

        def unlock() -> None:
            self.locked -= size

        return unlock

    def lock(self, fd: int) -> bool:
        self._called("lock")
        return True

    def exists(self, path: str) -> bool:
        return path in self.names or path in self.directories

    def list_names(self, path: str) -> list[str]:
        prefix = path + "/"
        known = itertools.chain(self.names, self.directories)
        inside = {name[len(prefix) :] for name in known if name.startswith(prefix)}
        return sorted({name.partition("/")[0] for name in inside})

    def make_directory(self, path: str) -> None:
        self._called("make_directory")
        while path and path not in self.directories:
            self.directories.add(path)
            path = path.rpartition("/")[0]

    def remove_directory(self, path: str) -> None:
        self._called("remove_directory")
        if self.list_names(path):
            raise OSError(errno.ENOTEMPTY, "Directory not empty", path)
        self.directories.remove(path)

    def sync_directory(self, path: str) -> None:
        self._called("sync_directory")
        if path not in self.directories:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        # Its parents' names go with it, as journals of real file systems have them.
        above = path
        while above:
            self.durable_directories.add(above)
            above = above.rpartition("/")[0]
        for names in (self.names, self.durable_names):
            for name in [name for name in names if name.rpartition("/")[0] == path]:
                if name in self.names:
                    self.durable_names[name] = self.names[name]
                else:
                    self.durable_names.pop(name)
        for name in list(self.durable_directories - self.directories):
            if name.rpartition("/")[0] == path:
                self.durable_directories.discard(name)

    def rename(self, source: str, target: str) -> None:
        self._called("rename")
        self.names[target] = self.names.pop(source)

    def unlink(self, path: str) -> None:
        self._called("unlink")
        try:
            inode = self.names.pop(path)
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path) from None
        if self.room is not None:
            self.room += len(inode.allocated) * PAGE

    @property
    def used_bytes(self) -> int:
        """The bytes of all files that have a name, or are still open."""
        return PAGE * sum(len(inode.allocated) for inode in self._living())

    def space(self, path: str) -> Space:
        self._called("space")
        if self.capacity is not None:
            return Space(self.used_bytes, max(self.capacity - self.used_bytes, 0))
        return Space(self.used, (1 << 40) if self.room is None else self.room)

    def _living(self) -> list[Inode]:
        """Files that have a name, or are still open."""
        inodes = [*self.names.values(), *(inode for inode, _ in self._open.values())]
        return list({id(inode): inode for inode in inodes}.values())

    def real_path(self, path: str) -> str:
        return f"fake disk {self._serial}: {path}"


def _twin(inode: Inode) -> Inode:
    return Inode(
        bytearray(inode.content),
        bytearray(inode.durable),
        set(inode.dirty),
        set(inode.allocated),
        inode.modified_ms,
    )
