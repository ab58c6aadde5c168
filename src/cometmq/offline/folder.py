"""A store directory on any file system: its log files, and reading pieces of them.

Local paths and every URI that pyarrow's file systems know are read alike, by `read_at`: nothing is
mapped, so a file that is cut or deleted meanwhile is an error and not the death of the process.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyarrow import NativeFile, fs

from cometmq.model.errors import SettingsError, StoreDamaged
from cometmq.offline.place import open_place
from cometmq.store.opening import message_parts, refuse

LOG_NAME_DIGITS = 20  # FileChain.NAME_DIGITS: a log file's name is its first physical offset.
INDEX_NAME_DIGITS = 17
_EVERYTHING = (1 << 63) - 1


class OpenFile:
    """A file to read from.

    The system is told not to read ahead by itself: what it reads of a hole stands in memory then and
    counts as written, and who looks for the hole's end would walk through all of it.

    Args:
        file: the file.
        fd: a descriptor of it where it is of this machine; -1 elsewhere.
    """

    def __init__(self, file: NativeFile, fd: int) -> None:
        self._file = file
        self._fd = fd
        if fd >= 0:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)

    def __call__(self, place: int, size: int) -> bytes:
        """Read up to so many bytes at a place; fewer at the file's end only."""
        if self._fd >= 0:
            return os.pread(self._fd, size, place)
        return bytes(self._file.read_at(size, place))

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return int(self._file.size())

    def will_need(self, place: int, size: int) -> None:
        """Have the system read ahead what is written at a place."""
        found = self.written(place) if self._fd >= 0 else None
        if found is not None and found[0] == place:
            size = min(size, found[1] - place)
            os.posix_fadvise(self._fd, place, size, os.POSIX_FADV_WILLNEED)

    def written(self, place: int) -> tuple[int, int] | None:
        """The first range from a place on that is no hole; None: there is none.

        It may be zeros. A log file is allocated whole before it is used: most of the last one may be
        a hole.
        """
        if self._fd < 0:
            return place, _EVERYTHING
        try:
            start = os.lseek(self._fd, place, os.SEEK_DATA)
            return start, os.lseek(self._fd, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            return place, _EVERYTHING  # A file system that knows no holes.


@dataclass(frozen=True)
class ListedFile:
    """A file of the log.

    Attributes:
        path: where it is, for the store's file system.
        start: physical offset of its first byte.
        size: bytes that it has.
        end: physical offset at which the next file begins; beyond start + size where the file is cut
            off or the next one is missing.
        is_last: no file follows.
    """

    path: str
    start: int
    size: int
    end: int
    is_last: bool


@dataclass(frozen=True)
class StoreFolder:
    """A store directory; picklable.

    Attributes:
        place: a path, or a URI.
        log_paths: folders of the log beside it (storePathCommitLog); none: `commitlog` in it.
    """

    place: str
    log_paths: tuple[str, ...] = ()

    @property
    def files(self) -> fs.FileSystem:
        """The file system."""
        return open_place(self.place)[0]

    @property
    def root(self) -> str:
        """The path in the file system."""
        return open_place(self.place)[1]

    @property
    def is_local(self) -> bool:
        """Whether the folder is on this machine's own file system."""
        return isinstance(self.files, fs.LocalFileSystem)

    def path(self, name: str) -> str:
        """A name below the directory as a path of the file system."""
        return f"{self.root}/{name}"

    def exists(self, name: str) -> bool:
        """Whether a file or folder of a name exists."""
        found = self.files.get_file_info(self.path(name))
        return bool(found.type != fs.FileType.NotFound)

    def read(self, name: str) -> bytes | None:
        """The whole of a small file; None where there is none."""
        if not self.exists(name):
            return None
        with self.files.open_input_stream(self.path(name)) as stream:
            return bytes(stream.read())

    def entries(self, path: str) -> list[fs.FileInfo]:
        """The entries of a folder, by name; none where there is no folder."""
        wanted = fs.FileSelector(path, allow_not_found=True)
        try:
            return sorted(self.files.get_file_info(wanted), key=lambda each: each.base_name)
        except NotADirectoryError:
            return []

    def numbered(self, path: str, digits: int) -> list[fs.FileInfo]:
        """The files of a folder whose names are numbers of so many digits, by name."""
        return [
            each
            for each in self.entries(path)
            if each.is_file and len(each.base_name) == digits and each.base_name.isdigit()
        ]

    def log_files(self) -> list[ListedFile]:
        """The files of the log, the oldest first; empty ones at the end are left out.

        Raises:
            StoreDamaged: there is none, or messages or queues lie where they are not read.
        """
        names = [each.base_name for each in self.entries(self.root)]
        refuse(self.place, message_parts(names, self.exists))
        folders = [open_place(path)[1] for path in self.log_paths] or [self.path("commitlog")]
        for path in folders if self.log_paths else ():
            if self.files.get_file_info(path).type != fs.FileType.Directory:
                raise SettingsError(
                    f"option 'commitLogPath': {path} is no folder; is it mounted?"
                )
        found = [each for path in folders for each in self.numbered(path, LOG_NAME_DIGITS)]
        found.sort(key=lambda each: each.base_name)
        while found and not found[-1].size:
            found.pop()
        if not found:
            raise StoreDamaged(
                f"no log file below {' or '.join(folders)}: {self.place} is no store; name "
                "storePathRootDir, and where the log lies elsewhere the option commitLogPath"
            )
        return _chained(found)

    @contextmanager
    def opened(self, path: str) -> Iterator[OpenFile]:
        """A file to read from; closed in the end."""
        with self.files.open_input_file(path) as file:
            fd = os.open(path, os.O_RDONLY) if self.is_local else -1
            try:
                yield OpenFile(file, fd)
            finally:
                if fd >= 0:
                    os.close(fd)


def _chained(found: Sequence[fs.FileInfo]) -> list[ListedFile]:
    """Each file with where the next begins; the last has the size that most have."""
    starts = [int(each.base_name) for each in found]
    sizes = [each.size for each in found]
    usual = max(sizes, key=sizes.count) if len(sizes) > 1 else sizes[0]
    ends = [*starts[1:], starts[-1] + max(usual, sizes[-1])]
    last = len(found) - 1
    return [
        ListedFile(each.path, start, each.size, end, number == last)
        for number, (each, start, end) in enumerate(zip(found, starts, ends, strict=True))
    ]
