"""The files of the log, or of timerlog, in order: found by offset, extended, cut and deleted.

All files have the same size and each begins where the previous one ends, so a division finds the file of an offset.
They may be in several directories: each new file is created in the next one, in turn, of those with room. Names and
the checks on loading follow MappedFileQueue and MultiPathMappedFileQueue of RocketMQ 5.3.3.
"""

import errno
from collections.abc import Callable, Sequence

from cometmq.model.errors import StoreDamaged
from cometmq.store.disk import Disk
from cometmq.store.log_file import LogFile, log_file_name

NAME_DIGITS = 20


class FileChain:
    """Log files from the oldest to the newest.

    Attributes:
        directories: Directories of the files.
        writable_directories: Directories in which files may be created.
        full_directories: Directories that are tried last for a new file.
        file_size: Size of each file in bytes.
        files: The files, changed by the owner only. New files are added in place, and most removals replace
            the list, so a thread that reads it always sees a chain without holes.
    """

    def __init__(
        self,
        disk: Disk,
        directories: Sequence[str],
        file_size: int,
        *,
        read_only_directories: Sequence[str] = (),
        size_key: str = "mappedFileSizeCommitLog",
        is_random: bool = False,
    ) -> None:
        """Create a chain without files; errors name the file size's setting, `size_key`; `is_random` turns off read-ahead."""
        self._is_random = is_random
        self._disk = disk
        self._size_key = size_key
        self.writable_directories = [
            path for path in dict.fromkeys(directories) if path not in read_only_directories
        ]
        self.directories = list(dict.fromkeys((*directories, *read_only_directories)))
        self.full_directories: set[str] = set()
        self.file_size = file_size
        self.on_append: Callable[[], None] = lambda: None  # Called after a file was added.
        self.files: list[LogFile] = []

    @property
    def start(self) -> int:
        """Physical offset at which the oldest file begins; 0 without files."""
        return self.files[0].start if self.files else 0

    @property
    def end(self) -> int:
        """Physical offset at which the newest file ends; 0 without files."""
        return self.files[-1].end if self.files else 0

    def load(self, *, read_only: bool) -> None:
        """Load the existing files; unless `read_only`, delete an empty last one, which an interrupted creation left.

        Raises:
            StoreDamaged: A file has another size than the setting, is missing between others, or is in two directories.
            OSError: The disk failed.
        """
        paths = {
            f"{directory}/{name}": int(name)
            for directory in self.directories
            for name in self._disk.list_names(directory)
            if len(name) == NAME_DIGITS and name.isdigit()
        }
        last = max(paths.values(), default=0)
        for path, start in sorted(paths.items(), key=lambda item: item[1]):
            file = self._take(path, start, is_last=start == last, read_only=read_only)
            if file is None:
                continue
            if self.files and file.start != self.end:
                raise self._misplaced(file)
            self.append(file)

    def _misplaced(self, file: LogFile) -> StoreDamaged:
        if file.start == self.files[-1].start:
            return StoreDamaged(
                f"{file.path} and {self.files[-1].path} are the same log file; keep one of them"
            )
        return StoreDamaged(
            f"{file.path.rpartition('/')[0]}: a log file is missing: {log_file_name(self.end)} should be before "
            f"{log_file_name(file.start)}; put it back, or move the older ones away"
        )

    def _take(self, path: str, start: int, *, is_last: bool, read_only: bool) -> LogFile | None:
        """Open and return a file; None for an empty last one, which is deleted unless `read_only`. May raise StoreDamaged."""
        file = LogFile(self._disk, path, start=start, size=self.file_size)
        self._open(file, read_only=read_only)
        size = self._disk.size(file.fd)
        if size == self.file_size:
            return file
        file.close()
        if size == 0 and is_last:
            if not read_only:
                self._disk.unlink(file.path)
            return None
        raise StoreDamaged(
            f"{file.path} has {size} bytes, but the setting {self._size_key} is "
            f"{self.file_size}; set it to the size with which this store was written"
        )

    def _open(self, file: LogFile, *, read_only: bool) -> None:
        """Open a file for reading and writing; only for reading if `read_only` is set or the disk forbids writing."""
        if not read_only:
            try:
                file.open()
            except OSError as error:
                if error.errno not in (errno.EROFS, errno.EACCES):
                    raise
        file.open_readonly()

    def paths(self, start: int) -> list[str]:
        """Return the possible paths for the new file that begins at an offset, best first, one per writable directory."""
        places = sorted(self.writable_directories)  # RocketMQ goes round in this order.
        roomy = [path for path in places if path not in self.full_directories] or places
        turn = start // self.file_size % len(roomy)
        best = roomy[turn:] + roomy[:turn]
        best += [path for path in places if path not in best]
        return [f"{place}/{log_file_name(start)}" for place in best]

    def find(self, offset: int) -> LogFile | None:
        """Return the log file that contains a physical offset, or None. Any thread."""
        files = self.files
        if not files:
            return None
        index = (offset - files[0].start) // self.file_size
        return files[index] if 0 <= index < len(files) else None

    def append(self, file: LogFile) -> None:
        """Add a log file to the chain, after the newest, and call `on_append`."""
        assert not self.files or file.start == self.end
        self.files.append(file)
        if self._is_random:
            file.read_randomly()
        self.on_append()

    def change_reading(self, *, is_random: bool) -> None:
        """Turn the system's read-ahead on or off for current and future files."""
        self._is_random = is_random
        for file in self.files:
            if is_random:
                file.read_randomly()
            else:
                file.read_normally()

    def drop_after(self, offset: int) -> None:
        """Delete the files that begin at or after an offset, newest first."""
        while self.files and self.files[-1].start >= offset:
            file = self.files.pop()
            file.close()
            self._disk.unlink(file.path)

    def take_after(self, last: LogFile) -> list[LogFile]:
        """Remove the files after a given one from the chain, not the disk, and return them; readers may still use them."""
        count = self.files.index(last) + 1
        gone, self.files = self.files[count:], self.files[:count]
        return gone

    def drop_first(self) -> LogFile:
        """Remove the oldest file from the chain, not the disk, and return it; current readers keep using it."""
        first, self.files = self.files[0], self.files[1:]
        return first

    def close(self) -> None:
        """Close the chain's files without flushing them; they stay in the chain and on the disk."""
        for file in self.files:
            file.close()
