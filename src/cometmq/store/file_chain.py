"""The files of the log in their order: found by offset, extended, cut.

Every file has the same size and begins where the one before it ends, so an offset's file is a
division away. Names and the checks on loading follow MappedFileQueue of RocketMQ 5.3.3.

Next: cometmq.store.commitlog
"""

from cometmq.model.errors import StoreDamaged
from cometmq.store.disk import Disk
from cometmq.store.log_file import LogFile, log_file_name

NAME_DIGITS = 20


class FileChain:
    """Files from the oldest to the one that is being written.

    Attributes:
        directory: where they are.
        file_size: bytes of each.
        files: the chain; only its owner changes it. A thread may take a copy.
    """

    def __init__(self, disk: Disk, directory: str, file_size: int) -> None:
        self._disk = disk
        self.directory = directory
        self.file_size = file_size
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
        names = [
            name
            for name in self._disk.list_names(self.directory)
            if len(name) == NAME_DIGITS and name.isdigit()
        ]
        for name in names:
            file = self._take(name, is_last=name == names[-1], read_only=read_only)
            if file is None:
                continue
            if self.files and file.start != self.end:
                raise StoreDamaged(
                    f"{self.directory}: a log file is missing: {log_file_name(self.end)} "
                    f"should stand before {name}; put it back, or move the older ones away"
                )
            self.files.append(file)

    def _take(self, name: str, *, is_last: bool, read_only: bool) -> LogFile | None:
        """One file of the directory; None for an empty last one."""
        file = LogFile(self._disk, self.path(int(name)), start=int(name), size=self.file_size)
        if read_only:
            file.open_readonly()
        size = self._disk.size(file.fd)
        if size == self.file_size:
            return file
        file.close()
        if size == 0 and is_last:
            if not read_only:
                self._disk.unlink(file.path)
            return None
        raise StoreDamaged(
            f"{file.path} has {size} bytes, the setting mappedFileSizeCommitLog says "
            f"{self.file_size}; set it to the size this store was written with"
        )

    def path(self, start: int) -> str:
        """The name of the file that begins at an offset."""
        return f"{self.directory}/{log_file_name(start)}"

    def find(self, offset: int) -> LogFile | None:
        """The file that holds an offset."""
        index = (offset - self.start) // self.file_size
        return self.files[index] if 0 <= index < len(self.files) else None

    def append(self, file: LogFile) -> None:
        """Put a new file behind the newest."""
        assert not self.files or file.start == self.end
        self.files.append(file)

    def drop_after(self, offset: int) -> None:
        """Remove the files that begin at or behind an offset, newest first."""
        while self.files and self.files[-1].start >= offset:
            file = self.files.pop()
            file.close()
            self._disk.unlink(file.path)

    def close(self) -> None:
        """Close every file."""
        for file in self.files:
            file.close()
