"""A file system of pyarrow as a disk that only reads: what looks into a store looks into one anywhere."""

import errno
import os
from itertools import count

from pyarrow import NativeFile, fs

from cometmq.offline.folder import StoreFolder
from cometmq.store.real_disk import RealDisk


class FolderDisk(RealDisk):
    """The file system of a folder; its descriptors are negative, so that nothing can be written by them.

    Args:
        folder: any folder of the file system.
    """

    def __init__(self, folder: StoreFolder) -> None:
        self._files = folder.files
        self._open: dict[int, NativeFile] = {}
        self._numbers = count(2)

    def open(
        self, path: str, *, create: bool = False, write: bool = True, is_new: bool = False
    ) -> int:
        """Open a file for reading, whoever asks: what is written by such a descriptor fails."""
        if create:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        number = -next(self._numbers)
        self._open[number] = self._files.open_input_file(path)
        return number

    def close(self, fd: int) -> None:
        """Close the file."""
        self._open.pop(fd).close()

    def size(self, fd: int) -> int:
        """Bytes of the file."""
        return int(self._open[fd].size())

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Read at an offset."""
        return bytes(self._open[fd].read_at(size, offset))

    def will_need(self, fd: int, offset: int, size: int) -> None:
        """Nothing: such a file system reads what it is asked for."""

    def read_randomly(self, fd: int) -> None:
        """Nothing."""

    def read_normally(self, fd: int) -> None:
        """Nothing."""

    def written(self, fd: int, offset: int) -> list[tuple[int, int]]:
        """The whole file, as one range: nobody knows of holes."""
        size = self.size(fd)
        return [(offset, size)] if offset < size else []

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this name."""
        return bool(self._files.get_file_info(path).type != fs.FileType.NotFound)

    def list_names(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        if self._files.get_file_info(path).type != fs.FileType.Directory:
            return []
        return sorted(
            each.base_name for each in self._files.get_file_info(fs.FileSelector(path))
        )


def disk_of(folder: StoreFolder) -> RealDisk:
    """The disk of a folder: this machine's own where it lies there."""
    return RealDisk() if folder.is_local else FolderDisk(folder)
