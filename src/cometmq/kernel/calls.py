"""System calls that Python's `os` does not have."""

import ctypes

_sync_file_range = ctypes.CDLL(None).sync_file_range
_sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
_SYNC_FILE_RANGE_WRITE = 2  # linux/fs.h


def begin_writing(fd: int, offset: int, size: int) -> None:
    """Have the system begin to write what is dirty in a range of a file, `sync_file_range(2)`.

    It waits for nothing and promises nothing: an error stays for the next `fdatasync`, and a system that
    cannot do it does all of it then.
    """
    _sync_file_range(fd, offset, size, _SYNC_FILE_RANGE_WRITE)
