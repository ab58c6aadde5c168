"""Brings the index to the device at a checkpoint: entries first, then the slots that point at them."""

from cometmq.codec.index_file import IndexHeader, encode_header
from cometmq.store.disk import Disk, write_whole
from cometmq.store.index_file import IndexFile, SlotRun


class IndexSync:
    """Copies of what has changed, for a lent thread.

    Attributes:
        files: each with its header and its slots, copied when the round went by.
        is_directory_fresh: a file was made since the last checkpoint.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self.is_directory_fresh = False
        self.files: list[tuple[IndexFile, IndexHeader, list[SlotRun]]] = []

    def run(self) -> None:
        """Bring entries to the device, then header and slots. Any thread.

        Raises:
            OSError: it failed; what the checkpoint said before is still true.
        """
        for file, header, runs in self.files:
            try:
                fd = self._disk.open(file.path)
            except FileNotFoundError:  # Its messages were deleted.
                continue
            try:
                self._disk.fdatasync(fd)
                # Before the slots: Java removes a file whose header is beyond the checkpoint.
                write_whole(self._disk, fd, encode_header(header), 0)
                for position, content in runs:
                    write_whole(self._disk, fd, content, position)
                self._disk.fdatasync(fd)
            finally:
                self._disk.close(fd)
        if self.is_directory_fresh:
            self._disk.sync_directory(self._directory)
            self._disk.sync_directory(self._directory.rpartition("/")[0])

    def done(self) -> None:
        """The checkpoint has been made: files that are full need no memory then."""
        for file, header, _ in self.files:
            if file.room <= 0 and file.header == header:
                file.settle()
