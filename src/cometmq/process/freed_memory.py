"""Tells the C library to keep what is freed, up to a point: a broker frees and takes megabytes with every read.

By default glibc gives each large piece back to the system and takes it anew, page by page: a batch of 1 MiB
costs 256 page faults, 7 % of the processor time of such sends. Kept, 1 KiB messages in batches cost a fifth less
(medians of four alternated pairs, 4.8 and 4.0 us a message, on a busy machine) and a broker has 12 MB more.

What a burst leaves is given back, at a nameserver too: when much more is held and not in use than was at the least, and still is a
moment later. Of 300 half handshakes of TLS the heap kept 12 MB each time, in pieces, though all was freed.
"""

import asyncio
import ctypes
import os
from pathlib import Path

# Names and values of malloc.h: mallopt(3).
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# The greatest that glibc takes. Pieces below it come from the heap, where they are used again.
_MMAP_BYTES = 32 << 20
# Free memory at the heap's end beyond this goes back to the system.
_KEPT_BYTES = 128 << 20
# So much more that is held and not in use than at the least is a burst that is over, if it is so at two looks.
_BURST_BYTES = 16 << 20
_LOOK_SECONDS = 2.0


def keep_freed_memory() -> bool:
    """Keep freed memory in this process; False where the C library has no such setting."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    is_set = mallopt(_MMAP_THRESHOLD, _MMAP_BYTES), mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
    return all(is_set)


class _HeapCounts(ctypes.Structure):
    """`struct mallinfo2` of malloc.h (glibc 2.33 and later); of it, what is in use counts."""

    _fields_ = [  # type: ignore[mutable-override]  # As ctypes wants it.
        ("arena", ctypes.c_size_t),
        ("counts", ctypes.c_size_t * 3),
        ("hblkhd", ctypes.c_size_t),
        ("unused", ctypes.c_size_t * 2),
        ("uordblks", ctypes.c_size_t),
        ("others", ctypes.c_size_t * 2),
    ]


def held_bytes() -> int:
    """Memory of this process alone that is no file's, a mapping that could be shared not counted: proc(5), `statm`."""
    _, resident, shared, *_ = Path("/proc/self/statm").read_bytes().split()
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


async def give_back_bursts(*, look_seconds: float = _LOOK_SECONDS) -> None:
    """Look every few seconds whether a burst is over, and give its memory back; returns where that cannot be.

    What counts is what the process holds and malloc has not in use: what malloc calls free holds, too, what was
    given back before, so that of a second burst nothing would be seen.
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
            # What is left is in pieces too small to give back, or not malloc's: only more than that is another burst.
            least, is_much = await asyncio.to_thread(give_back), False
        was_much = is_much
