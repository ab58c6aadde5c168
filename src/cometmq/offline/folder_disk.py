"""A `Disk` for reading from a file system of pyarrow, so that code for local stores can read remote ones."""

import errno
import os
from itertools import count

from pyarrow import NativeFile, fs

from cometmq.offline.folder import StoreFolder
from cometmq.store.real_disk import RealDisk


class FolderDisk(RealDisk):
    """A disk for reading from a store folder's file system; only the methods that are defined here may be called."""

    def __init__(self, folder: StoreFolder) -> None:
        self._files = folder.files
        self._open: dict[int, NativeFile] = {}
        self._numbers = count(2)

    def open(
        self, path: str, *, create: bool = False, write: bool = True, is_new: bool = False
    ) -> int:
        """Open a file only for reading; return a negative descriptor. Raises OSError if `create` is set."""
        if create:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        number = -next(self._numbers)
        self._open[number] = self._files.open_input_file(path)
        return number

    def close(self, fd: int) -> None:
        """Close a file."""
        self._open.pop(fd).close()

    def size(self, fd: int) -> int:
        """Return the size of a file in bytes."""
        return int(self._open[fd].size())

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Read bytes of a file at an offset."""
        return bytes(self._open[fd].read_at(size, offset))

    def will_need(self, fd: int, offset: int, size: int) -> None:
        """Do nothing: read-ahead of pyarrow's files cannot be controlled."""

    def read_randomly(self, fd: int) -> None:
        """Do nothing: read-ahead of pyarrow's files cannot be controlled."""

    def read_normally(self, fd: int) -> None:
        """Do nothing: read-ahead of pyarrow's files cannot be controlled."""

    def written(self, fd: int, offset: int) -> list[tuple[int, int]]:
        """Return one range, from an offset to the file's end, because holes are unknown; empty at the end."""
        size = self.size(fd)
        return [(offset, size)] if offset < size else []

    def exists(self, path: str) -> bool:
        """Return whether a file or directory has this name."""
        return bool(self._files.get_file_info(path).type != fs.FileType.NotFound)

    def list_names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; empty if it is no directory."""
        if self._files.get_file_info(path).type != fs.FileType.Directory:
            return []
        return sorted(
            each.base_name for each in self._files.get_file_info(fs.FileSelector(path))
        )


def disk_of(folder: StoreFolder) -> RealDisk:
    """Return the disk of a folder: this machine's own if the folder is local."""
    return RealDisk() if folder.is_local else FolderDisk(folder)
