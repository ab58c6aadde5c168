"""Tells the C library to keep what is freed, up to a point: a broker frees and takes megabytes with every read.

By default glibc gives each large piece back to the system and takes it anew, page by page: a batch of 1 MiB
costs 256 page faults, 7 % of the processor time of such sends. Kept, 1 KiB messages in batches cost a fifth less
(medians of four alternated pairs, 4.8 and 4.0 us a message, on a busy machine) and a broker has 12 MB more.

What a burst leaves is given back, at a nameserver too: when much more is free than was at the least, and still is a moment
later. Of 300 half handshakes of TLS the heap kept 12 MB each time, in pieces, though all was freed.
"""

import asyncio
import ctypes

# Names and values of malloc.h: mallopt(3).
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# The greatest that glibc takes. Pieces below it come from the heap, where they are used again.
_MMAP_BYTES = 32 << 20
# Free memory at the heap's end beyond this goes back to the system.
_KEPT_BYTES = 128 << 20
# So much more free than at the least is a burst that is over, if it is so at two looks.
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
    """`struct mallinfo2` of malloc.h (glibc 2.33 and later); of it, what is free counts."""

    _fields_ = [  # type: ignore[mutable-override]  # As ctypes wants it.
        ("others", ctypes.c_size_t * 8),
        ("fordblks", ctypes.c_size_t),
        ("keepcost", ctypes.c_size_t),
    ]


async def give_back_bursts() -> None:
    """Look every few seconds whether a burst is over, and give its memory back; returns where that cannot be."""
    try:
        library = ctypes.CDLL(None)
        info, trim = library.mallinfo2, library.malloc_trim
    except (OSError, AttributeError):
        return
    info.restype = _HeapCounts
    trim.argtypes = [ctypes.c_size_t]
    least = info().fordblks
    was_much = False
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        free = info().fordblks
        least = min(least, free)
        is_much = free > least + _BURST_BYTES
        if is_much and was_much:
            await asyncio.to_thread(trim, 0)
            # What was given back counts as free still: only more than that is another burst.
            least, is_much = info().fordblks, False
        was_much = is_much
