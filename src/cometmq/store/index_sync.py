"""Syncs the index to the device for a checkpoint: entries first, then the header and the slots that point to them."""

from contextlib import suppress

from cometmq.codec.index_file import IndexHeader, encode_header
from cometmq.store.disk import Disk, opened, write_whole
from cometmq.store.index_file import IndexFile, SlotRun


class IndexSync:
    """Copies of changed slots, to be written and synced in a thread that may block.

    Attributes:
        files: Each changed file with its header and its slots as copied during the round.
        is_directory_fresh: Whether a file was created, so that the directory must be synced, too.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self.is_directory_fresh = False
        self.files: list[tuple[IndexFile, IndexHeader, list[SlotRun]]] = []

    def run(self) -> None:
        """Sync the entries, then write and sync header and slots; skip deleted files. Raise OSError on failure. Any thread."""
        for file, header, runs in self.files:
            # A file may be deleted with its messages.
            with suppress(FileNotFoundError), opened(self._disk, file.path) as fd:
                self._disk.fdatasync(fd)
                # Before the slots: Java deletes a file whose header is beyond the checkpoint.
                write_whole(self._disk, fd, encode_header(header), 0)
                for position, content in runs:
                    write_whole(self._disk, fd, content, position)
                self._disk.fdatasync(fd)
        if self.is_directory_fresh:
            self._disk.sync_directory(self._directory)
            self._disk.sync_directory(self._directory.rpartition("/")[0])

    def done(self) -> None:
        """After the checkpoint has been written, release the slots in memory of full files that have not changed since."""
        for file, header, _ in self.files:
            if file.room <= 0 and file.header == header:
                file.settle()
