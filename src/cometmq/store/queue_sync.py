"""Syncs the consume queues to the device for a checkpoint: written files and changed names."""

from contextlib import suppress

from cometmq.store.disk import Disk, is_of_one_path

# More files and directories than this are synced with the whole file system: 20,000 new queues took 23 s one by one.
# It may then have to write data of other programs, too.
SYNCED_ONE_BY_ONE_MAX = 64


class QueueSync:
    """A job that syncs queue files and directories for a checkpoint; `root` is the store directory that contains them."""

    def __init__(self, disk: Disk, root: str, files: set[str], directories: set[str]) -> None:
        self._disk = disk
        self._root = root
        self._files = files
        self._directories = directories

    def run(self) -> None:
        """Sync the queue files and directories, or if there are more than 64, the store's whole file system. Any thread.

        Skips deleted ones, and files that cannot be opened because of their path; raises OSError if another sync fails.
        """
        if len(self._files) + len(self._directories) > SYNCED_ONE_BY_ONE_MAX:
            self._disk.sync_all(self._root)
            return
        for path in sorted(self._files):
            self._sync(path)
        for directory in sorted(self._directories):
            with suppress(FileNotFoundError):  # The topic was deleted.
                self._disk.sync_directory(directory)

    def _sync(self, path: str) -> None:
        try:
            fd = self._disk.open(path)
        except OSError as error:
            # The topic was deleted, or something else is in the file's place.
            if isinstance(error, FileNotFoundError) or is_of_one_path(error):
                return
            raise
        try:
            self._disk.fdatasync(fd)
        finally:
            self._disk.close(fd)

    def done(self) -> None:
        """Do nothing: queues need no notification of a checkpoint."""
