"""A store directory on any file system: lists its log files and reads pieces of them.

The directory is a local path, or a URI of one of pyarrow's file systems. Nothing is mapped, so truncating a file
meanwhile does not kill the process.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyarrow import NativeFile, fs

from cometmq.model.errors import SettingsError, StoreDamaged
from cometmq.model.text import plural
from cometmq.offline.place import open_place
from cometmq.store.opening import message_parts, refuse

LOG_NAME_DIGITS = 20  # FileChain.NAME_DIGITS: a log file's name is its first physical offset.
INDEX_NAME_DIGITS = 17
_EVERYTHING = (1 << 63) - 1


class OpenFile:
    """A file to read from, with its descriptor if it is on this machine, otherwise -1.

    The system's own read-ahead of a local file is turned off, because it would bring parts of holes into memory, which
    then count as written, and a search for the end of a hole would go through all of it.
    """

    def __init__(self, file: NativeFile, fd: int) -> None:
        self._file = file
        self._fd = fd
        if fd >= 0:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)

    def __call__(self, place: int, size: int) -> bytes:
        """Return `size` bytes from a position on; fewer if the file ends before."""
        if self._fd >= 0:
            return os.pread(self._fd, size, place)
        return bytes(self._file.read_at(size, place))

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return int(self._file.size())

    def will_need(self, place: int, size: int) -> None:
        """Ask the system to read ahead a range, up to its first hole; not if it begins in a hole or the file is remote."""
        found = self.written(place) if self._fd >= 0 else None
        if found is not None and found[0] == place:
            size = min(size, found[1] - place)
            os.posix_fadvise(self._fd, place, size, os.POSIX_FADV_WILLNEED)

    def written(self, place: int) -> tuple[int, int] | None:
        """Return (start, end) of the first range from a position on that is not a hole; None if there is none.

        The range may contain zeros. A log file is allocated completely before use, so most of the last one may be a
        hole. If holes are unknown, the range is everything from the position on.
        """
        if self._fd < 0:
            return place, _EVERYTHING
        try:
            start = os.lseek(self._fd, place, os.SEEK_DATA)
            return start, os.lseek(self._fd, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            return place, _EVERYTHING  # A file system without holes.


@dataclass(frozen=True)
class ListedFile:
    """A file of the log.

    Attributes:
        path: Path in the store's file system.
        start: Physical offset of its first byte.
        size: Actual size in bytes.
        end: Physical offset at which the next file begins (for the last file, would begin); larger than start + size if
            bytes or files are missing.
        is_last: Whether it is the last file.
    """

    path: str
    start: int
    size: int
    end: int
    is_last: bool


@dataclass(frozen=True)
class StoreFolder:
    """A directory of a store or an archive, at a path or URI; picklable.

    `log_paths` are separate folders of the log (storePathCommitLog); empty means that it is in `commitlog`.
    """

    place: str
    log_paths: tuple[str, ...] = ()

    @property
    def files(self) -> fs.FileSystem:
        """The file system that has the directory."""
        return open_place(self.place)[0]

    @property
    def root(self) -> str:
        """Path of the directory in its file system."""
        return open_place(self.place)[1]

    @property
    def is_local(self) -> bool:
        """Whether the place is a path (maybe on a network mount) or file:// URI, not a URI of another file system."""
        return isinstance(self.files, fs.LocalFileSystem)

    def path(self, name: str) -> str:
        """Return the path of a name in the directory."""
        return f"{self.root}/{name}"

    def exists(self, name: str) -> bool:
        """Return whether a file or folder with this name exists in the directory."""
        found = self.files.get_file_info(self.path(name))
        return bool(found.type != fs.FileType.NotFound)

    def read(self, name: str) -> bytes | None:
        """Return the content of a small file; None if it does not exist."""
        if not self.exists(name):
            return None
        with self.files.open_input_stream(self.path(name)) as stream:
            return bytes(stream.read())

    def entries(self, path: str) -> list[fs.FileInfo]:
        """Return the files and folders in a folder, sorted by name; empty if it does not exist or is no folder."""
        wanted = fs.FileSelector(path, allow_not_found=True)
        try:
            return sorted(self.files.get_file_info(wanted), key=lambda each: each.base_name)
        except NotADirectoryError:
            return []

    def numbered(self, path: str, digits: int) -> list[fs.FileInfo]:
        """Return the files of a folder whose names are numbers with this many digits, sorted by name."""
        return [
            each
            for each in self.entries(path)
            if each.is_file and len(each.base_name) == digits and each.base_name.isdigit()
        ]

    def log_files(self) -> list[ListedFile]:
        """Return the files of the log, oldest first, without empty ones at the end.

        Raises:
            StoreDamaged: There are none, or a part of the store has a form that is not read.
            SettingsError: A separate folder of the log does not exist.
        """
        names = [each.base_name for each in self.entries(self.root)]
        refuse(self.place, message_parts(names, self.exists))
        folders = [open_place(path)[1] for path in self.log_paths] or [self.path("commitlog")]
        for path in folders if self.log_paths else ():
            if self.files.get_file_info(path).type != fs.FileType.Directory:
                raise SettingsError(
                    f"option 'commitLogPath': {path} is not a folder; is its file system mounted?"
                )
        found = [each for path in folders for each in self.numbered(path, LOG_NAME_DIGITS)]
        found.sort(key=lambda each: each.base_name)
        while found and not found[-1].size:
            found.pop()
        if not found:
            raise StoreDamaged(
                f"{' and '.join(folders)} {plural(len(folders), 'has', 'have')} no log file, so {self.place} is not "
                "a store; name storePathRootDir, and set the option commitLogPath (of cometmq store: --config) if the log "
                "is elsewhere"
            )
        return _chained(found)

    @contextmanager
    def opened(self, path: str) -> Iterator[OpenFile]:
        """Open a file for reading in a `with` block."""
        with self.files.open_input_file(path) as file:
            fd = os.open(path, os.O_RDONLY) if self.is_local else -1
            try:
                yield OpenFile(file, fd)
            finally:
                if fd >= 0:
                    os.close(fd)


def _chained(found: Sequence[fs.FileInfo]) -> list[ListedFile]:
    """Return each log file with the start of the next; the last is assumed to have at least the most frequent size."""
    starts = [int(each.base_name) for each in found]
    sizes = [each.size for each in found]
    usual = max(sizes, key=sizes.count) if len(sizes) > 1 else sizes[0]
    ends = [*starts[1:], starts[-1] + max(usual, sizes[-1])]
    last = len(found) - 1
    return [
        ListedFile(each.path, start, each.size, end, number == last)
        for number, (each, start, end) in enumerate(zip(found, starts, ends, strict=True))
    ]
