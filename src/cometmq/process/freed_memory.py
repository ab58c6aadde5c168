"""Functions that make the C library keep freed memory, because a broker allocates megabytes with every read.

By default glibc returns each large block to the system and gets it again page by page: a batch of 1 MiB costs 256 page
faults, 7 % of the processor time of such sends. With memory kept, 1 KiB messages in batches cost a fifth less, and a
broker uses 12 MB more. Memory left from a burst is returned, also in a nameserver, if two consecutive checks find over
16 MiB more unused memory than the lowest amount found so far.
"""

import asyncio
import ctypes
import os
from pathlib import Path

# Names and values of malloc.h: mallopt(3).
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# Maximum that glibc accepts. Smaller blocks are allocated from the heap, where they are reused.
_MMAP_BYTES = 32 << 20
# Free memory at the heap's end beyond this many bytes is returned to the system.
_KEPT_BYTES = 128 << 20
# This many unused bytes more than the minimum, at two consecutive checks, are left from a burst.
_BURST_BYTES = 16 << 20
_LOOK_SECONDS = 2.0


def keep_freed_memory() -> bool:
    """Make this process keep more of its freed memory; return False if the C library does not support it."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    is_set = mallopt(_MMAP_THRESHOLD, _MMAP_BYTES), mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
    return all(is_set)


class _HeapCounts(ctypes.Structure):
    """`struct mallinfo2` of malloc.h (glibc 2.33 and later), of which the sizes in use are read."""

    _fields_ = [  # type: ignore[mutable-override]  # As ctypes wants it.
        ("arena", ctypes.c_size_t),
        ("counts", ctypes.c_size_t * 3),
        ("hblkhd", ctypes.c_size_t),
        ("unused", ctypes.c_size_t * 2),
        ("uordblks", ctypes.c_size_t),
        ("others", ctypes.c_size_t * 2),
    ]


def held_bytes() -> int:
    """Return the anonymous, unshared memory of this process in bytes (`statm` in proc(5))."""
    _, resident, shared, *_ = Path("/proc/self/statm").read_bytes().split()
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


async def give_back_bursts(*, look_seconds: float = _LOOK_SECONDS) -> None:
    """Repeatedly give memory left from bursts back to the system; returns only if the C library or system cannot.

    Compares the memory of the process with what malloc has in use. malloc's own number of free bytes would include
    memory already returned, so that a second burst would go unnoticed.
    """
    try:
        library = ctypes.CDLL(None)
        info, trim = library.mallinfo2, library.malloc_trim
        held_bytes()
    except (OSError, AttributeError):
        return
    info.restype = _HeapCounts
    trim.argtypes = [ctypes.c_size_t]

    def idle_bytes() -> int:
        used = info()
        return held_bytes() - int(used.uordblks) - int(used.hblkhd)

    def give_back() -> int:
        trim(0)
        return idle_bytes()

    least = idle_bytes()
    was_much = False
    while True:
        await asyncio.sleep(look_seconds)
        idle = idle_bytes()
        least = min(least, idle)
        is_much = idle > least + _BURST_BYTES
        if is_much and was_much:
            # The rest is fragmented or not malloc's; only growth beyond it is another burst.
            least, is_much = await asyncio.to_thread(give_back), False
        was_much = is_much
