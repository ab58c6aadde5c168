"""The lock of a store directory, and the file that marks an unclean stop.

| lock  | the word "lock"; byte 0 is locked while a process has the directory open for writing |
| abort | the process id; there while a process has the directory open for writing, removed by a clean stop |

Java locks the same byte with FileChannel.tryLock, so neither writes to a directory that the other uses. POSIX locks
have no effect within a process, so a registry of open directories replaces them there.

Source: DefaultMessageStore of RocketMQ 5.3.3; docs/format/store-directory.md.
"""

import os
from contextlib import suppress

from cometmq.model.errors import StoreLocked
from cometmq.store.disk import Disk, lack_of, opened, write_file, write_whole

LOCK_FILE = "lock"
ABORT_FILE = "abort"

# Directories open in this process. A second descriptor of a lock file must not even be opened: closing it would
# release the first one's lock (fcntl(2)).
_opened: set[str] = set()


def is_locked(disk: Disk, root: str) -> bool:
    """Return whether this or another process has locked a store directory; False if that cannot be examined."""
    path = f"{root}/{LOCK_FILE}"
    if disk.real_path(root) in _opened:
        return True
    if not disk.exists(path):
        return False
    try:
        with opened(disk, path) as fd:
            return not disk.lock(fd)
    except OSError:
        return False


class DirectoryLock:
    """The exclusive right to write to a store directory, from `take` to `release`."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self._root = root
        self._key = ""
        self._fd = -1

    def take(self) -> None:
        """Lock the directory; raise StoreLocked if this or another process has locked it, OSError if the disk fails."""
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
        """Release the directory if `take` has locked it."""
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1
            _opened.discard(self._key)


class AbortMarker:
    """The `abort` file; if it exists at start, the last stop was not clean."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self._path = f"{root}/{ABORT_FILE}"

    def is_set(self) -> bool:
        """Return whether the abort file exists, which at a start means that the last stop was not clean."""
        return self._disk.exists(self._path)

    def set(self) -> None:
        """Write the abort file; raise OSError if that fails, unless it exists and only room or the like is lacking."""
        try:
            write_file(self._disk, self._path, str(os.getpid()).encode())
        except OSError as error:
            if lack_of(error) is None or not self.is_set():
                raise

    def clear(self) -> None:
        """Remove the abort file, if it exists, to mark the directory as cleanly closed."""
        with suppress(FileNotFoundError):
            self._disk.unlink(self._path)
        self._disk.sync_directory(os.path.dirname(self._path))  # noqa: PTH120
