"""Locks pages in memory, of a file or anonymous ones (mlock, which Python does not offer)."""

import ctypes
import mmap
import os
from collections.abc import Callable

Unlock = Callable[[], None]

_MAP_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
)
_libc.munmap.argtypes = _libc.mlock.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


def lock_pages(fd: int, size: int) -> Unlock:
    """Read the first `size` bytes of a file into memory and keep them there until the returned function is called.

    Raises:
        OSError: The system does not allow it (ulimit -l), lacks memory or cannot read the file.
    """
    # A separate map, because Python does not return the address of a read-only one.
    address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    if address == _MAP_FAILED:
        raise _last_error()

    def unlock() -> None:
        _libc.munmap(address, size)  # Also unlocks its pages.

    if _libc.mlock(address, size) != 0:
        error = _last_error()
        unlock()
        raise error
    return unlock


def lock_memory(memory: mmap.mmap) -> None:
    """Lock anonymous memory, so that it is not swapped out; raise OSError if the system refuses (ulimit -l)."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if _libc.mlock(address, len(memory)) != 0:
        raise _last_error()


def _last_error() -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code))
