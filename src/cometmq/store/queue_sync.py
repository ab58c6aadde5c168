"""Brings the plain queues to the device at a checkpoint: files that were written, and names that changed."""

from contextlib import suppress

from cometmq.store.disk import Disk, is_of_one_path

# More files and directories than this are brought to the device by one sync of the file system:
# 20,000 new queues took 23 s one by one. It may have to write what others wrote, too.
SYNCED_ONE_BY_ONE_MAX = 64


class QueueSync:
    """Files and directories, for a lent thread."""

    def __init__(self, disk: Disk, root: str, files: set[str], directories: set[str]) -> None:
        """`root`: the store directory, whose file system they are on."""
        self._disk = disk
        self._root = root
        self._files = files
        self._directories = directories

    def run(self) -> None:
        """Bring the queues' files to the device; any thread.

        Raises:
            OSError: it failed; what the checkpoint said before is still true.
        """
        if len(self._files) + len(self._directories) > SYNCED_ONE_BY_ONE_MAX:
            self._disk.sync_all(self._root)
            return
        for path in sorted(self._files):
            self._sync(path)
        for directory in sorted(self._directories):
            with suppress(FileNotFoundError):  # Its topic was deleted.
                self._disk.sync_directory(directory)

    def _sync(self, path: str) -> None:
        try:
            fd = self._disk.open(path)
        except OSError as error:
            # Its topic was deleted, or somebody has put something else there.
            if isinstance(error, FileNotFoundError) or is_of_one_path(error):
                return
            raise
        try:
            self._disk.fdatasync(fd)
        finally:
            self._disk.close(fd)

    def done(self) -> None:
        """The checkpoint has been made: nothing waited for it."""
