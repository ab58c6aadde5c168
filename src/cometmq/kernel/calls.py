"""The system call `sync_file_range`, which Python's `os` does not have."""

import ctypes
from collections.abc import Callable
from functools import cache

_SYNC_FILE_RANGE_WRITE = 2  # linux/fs.h


def begin_writing(fd: int, offset: int, size: int) -> None:
    """Start writing dirty pages of a file range to the disk with `sync_file_range(2)`.

    The call usually does not wait, and guarantees nothing: the next `fdatasync` reports errors and writes the rest.
    """
    _sync_file_range()(fd, offset, size, _SYNC_FILE_RANGE_WRITE)


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int]:
    """Return the C function `sync_file_range`; looked up at its first use, as systems without it run clients only."""
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint
    )
    return kind(("sync_file_range", ctypes.CDLL(None)))
