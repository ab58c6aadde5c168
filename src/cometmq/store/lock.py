"""The lock of a store directory, and the marker of a stop that was not clean.

| lock  | the word "lock"; byte 0 is locked while a broker has the directory open |
| abort | the process id; there while a broker runs, removed by a clean stop |

Java locks the same byte with FileChannel.tryLock, so neither opens what the other has. A POSIX
lock does not refuse the process that holds it; a registry in the process does.
Source: DefaultMessageStore of RocketMQ 5.3.3; docs/format/store-directory.md.
"""

import os
from contextlib import suppress

from cometmq.model.errors import StoreLocked
from cometmq.store.disk import Disk, lack_of, write_file, write_whole

LOCK_FILE = "lock"
ABORT_FILE = "abort"

# Directories that this process has open. A second descriptor of a lock file must not even be
# opened: closing it would give up the first one's lock (fcntl(2)).
_opened: set[str] = set()


class DirectoryLock:
    """The right to write in a store directory, from `take` to `release`."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self._root = root
        self._key = ""
        self._fd = -1

    def take(self) -> None:
        """Lock the directory.

        Raises:
            StoreLocked: this or another process has it.
        """
        key = self._disk.real_path(self._root)
        if key in _opened:
            raise StoreLocked(f"{self._root} is already open in this process; close it first")
        fd = self._disk.open(f"{self._root}/{LOCK_FILE}", create=True)
        if not self._disk.lock(fd):
            self._disk.close(fd)
            raise StoreLocked(
                f"{self._root} is in use: another broker has locked {LOCK_FILE}; "
                "stop it, or give this one another storePathRootDir"
            )
        _opened.add(key)
        self._key, self._fd = key, fd
        write_whole(self._disk, fd, b"lock", 0)

    def release(self) -> None:
        """Give the directory up."""
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1
            _opened.discard(self._key)


class AbortMarker:
    """The `abort` file: there means that the last stop was not clean."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self._path = f"{root}/{ABORT_FILE}"

    def is_set(self) -> bool:
        """Whether the last stop was not clean."""
        return self._disk.exists(self._path)

    def set(self) -> None:
        """Mark the directory as in use.

        One that a kill left stays where no inode is left for another: that it is there says all.

        Raises:
            OSError: it could not be written.
        """
        try:
            write_file(self._disk, self._path, str(os.getpid()).encode())
        except OSError as error:
            if lack_of(error) is None or not self.is_set():
                raise

    def clear(self) -> None:
        """Mark the directory as cleanly closed."""
        with suppress(FileNotFoundError):
            self._disk.unlink(self._path)
        self._disk.sync_directory(os.path.dirname(self._path))  # noqa: PTH120
