"""The files of the log in their order: found by offset, extended, cut, let go.

Every file has the same size and begins where the one before it ends, so an offset's file is a
division away. They may lie in several directories: file n is made in the nth of those that have
room, and found wherever it is. Names and the checks on loading follow MappedFileQueue and
MultiPathMappedFileQueue of RocketMQ 5.3.3.
"""

import errno
from collections.abc import Callable, Sequence

from cometmq.model.errors import StoreDamaged
from cometmq.store.disk import Disk
from cometmq.store.log_file import LogFile, log_file_name

NAME_DIGITS = 20


class FileChain:
    """Files from the oldest to the one that is being written.

    Attributes:
        directories: where they are.
        writable_directories: of these, where new ones are made.
        full_directories: of these, where none is made while another has room.
        file_size: bytes of each.
        files: the chain; only its owner changes it: it grows in place, and loses files by
            another list. So a thread that takes it has a chain without holes.
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
        """Nothing is opened yet.

        `size_key` is the setting that says how large a file is; with `is_random` the system reads
        nothing ahead of what is asked for.
        """
        self._is_random = is_random
        self._disk = disk
        self._size_key = size_key
        self.writable_directories = [
            path for path in dict.fromkeys(directories) if path not in read_only_directories
        ]
        self.directories = list(dict.fromkeys((*directories, *read_only_directories)))
        self.full_directories: set[str] = set()
        self.file_size = file_size
        self.on_append: Callable[[], None] = lambda: None  # Told when there is one more file.
        self.files: list[LogFile] = []

    @property
    def start(self) -> int:
        """Physical offset of the oldest file; 0 without one."""
        return self.files[0].start if self.files else 0

    @property
    def end(self) -> int:
        """Physical offset behind the newest file."""
        return self.files[-1].end if self.files else 0

    def load(self, *, read_only: bool) -> None:
        """Take the files that are there.

        An empty last file is what a stop while it was made leaves: it is removed.

        Raises:
            StoreDamaged: a file of another size than the setting says, or one is missing.
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
        """The error for a file that does not begin where the one before it ends."""
        if file.start == self.files[-1].start:
            return StoreDamaged(
                f"{file.path} and {self.files[-1].path} are the same log file; keep one of them"
            )
        return StoreDamaged(
            f"{file.path.rpartition('/')[0]}: a log file is missing: {log_file_name(self.end)} "
            f"should stand before {log_file_name(file.start)}; put it back, or move the older "
            "ones away"
        )

    def _take(self, path: str, start: int, *, is_last: bool, read_only: bool) -> LogFile | None:
        """One file of a directory; None for an empty last one."""
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
            f"{file.path} has {size} bytes, the setting {self._size_key} says "
            f"{self.file_size}; set it to the size this store was written with"
        )

    def _open(self, file: LogFile, *, read_only: bool) -> None:
        """Open a file; one on a read-only disk for reading, for only the newest is written."""
        if not read_only:
            try:
                file.open()
            except OSError as error:
                if error.errno not in (errno.EROFS, errno.EACCES):
                    raise
        file.open_readonly()

    def paths(self, start: int) -> list[str]:
        """The names under which the file that begins at an offset may be made, the best first."""
        places = sorted(self.writable_directories)  # RocketMQ takes turns in this order.
        roomy = [path for path in places if path not in self.full_directories] or places
        turn = start // self.file_size % len(roomy)
        best = roomy[turn:] + roomy[:turn]
        best += [path for path in places if path not in best]
        return [f"{place}/{log_file_name(start)}" for place in best]

    def find(self, offset: int) -> LogFile | None:
        """The file that holds an offset. Any thread."""
        files = self.files
        if not files:
            return None
        index = (offset - files[0].start) // self.file_size
        return files[index] if 0 <= index < len(files) else None

    def append(self, file: LogFile) -> None:
        """Put a new file behind the newest."""
        assert not self.files or file.start == self.end
        self.files.append(file)
        if self._is_random:
            file.read_randomly()
        self.on_append()

    def change_reading(self, *, is_random: bool) -> None:
        """Set how the system reads these files and those that come: at random, or ahead."""
        self._is_random = is_random
        for file in self.files:
            if is_random:
                file.read_randomly()
            else:
                file.read_normally()

    def drop_after(self, offset: int) -> None:
        """Remove the files that begin at or behind an offset, newest first."""
        while self.files and self.files[-1].start >= offset:
            file = self.files.pop()
            file.close()
            self._disk.unlink(file.path)

    def take_after(self, last: LogFile) -> list[LogFile]:
        """Let the files behind one go: nobody finds them any more, who reads them has them still."""
        count = self.files.index(last) + 1
        gone, self.files = self.files[count:], self.files[:count]
        return gone

    def drop_first(self) -> LogFile:
        """Let the oldest file go: nobody finds it any more, who reads it has it still."""
        first, self.files = self.files[0], self.files[1:]
        return first

    def close(self) -> None:
        """Close every file."""
        for file in self.files:
            file.close()
