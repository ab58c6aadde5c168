"""Merging of used memory into pages of 2 MiB, in which a processor finds many small objects faster.

A processor caches the addresses of some thousand pages. A broker with 80,000 queues uses many more of 4 KiB, and each
message touches ten. On a virtual machine each miss costs a walk through two page tables (docs/design/0046-columns.md).
If a program requests 2 MiB pages for unused memory, its first access waits until Linux has one. Memory therefore gets
small pages first, and ranges with nearly all pages present are merged later in a thread.
"""

import asyncio
import ctypes
import errno
import os
import re
import time
from pathlib import Path

from cometmq.process.freed_memory import held_bytes

# Ranges with more than this fraction (1/16) of pages missing are not merged, to limit the growth of the process.
_MISSING_PART = 16
# From linux/mman.h, since Linux 6.1: madvise(2).
_MADV_COLLAPSE = 25
# No 2 MiB of contiguous memory available, or not for this process.
_NONE_LEFT = {errno.ENOMEM, errno.EBUSY}
# The administrator's setting for huge pages, and their size, which is 2 MiB nearly everywhere.
_ALLOWED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_SIZE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
# Anonymous memory and the heap in `maps`: proc(5).
_RANGE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p 00000000 00:00 0 *(?:\[heap\])?")
_LOOK_SECONDS = 10.0
# Growth in bytes since the last merge that triggers another one.
_GROWN_BYTES = 8 << 20
# Pause between ranges, because accesses to a range wait for a part of a millisecond while it is merged.
_PAUSE_SECONDS = 0.002


def join_pages() -> int | None:
    """Merge ranges of 2 MiB that are used nearly completely into one page each, while the system has such pages left.

    Call this in a thread: each range takes a part of a millisecond, with pauses in between.

    Returns:
        Number of ranges that were merged now or found merged; None if the system has no huge pages or its
            administrator has disabled them ("never").
    """
    try:
        library = ctypes.CDLL(None, use_errno=True)
        madvise, mincore = library.madvise, library.mincore
        size = int(_SIZE.read_text())
        if "[never]" in _ALLOWED.read_text():
            return None
        places = _pieces(Path("/proc/self/maps").read_text(), size)
    except (OSError, AttributeError):
        return None
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    pages = ctypes.create_string_buffer(size // os.sysconf("SC_PAGE_SIZE"))
    joined = 0
    for place in places:
        # Memory returned meanwhile is unmapped: both calls then fail without touching anything.
        missing = len(pages) if mincore(place, size, pages) else pages.raw.count(0)
        if missing > len(pages) // _MISSING_PART:
            continue
        if not madvise(place, size, _MADV_COLLAPSE):
            joined += 1
        elif ctypes.get_errno() in _NONE_LEFT:
            break
        time.sleep(_PAUSE_SECONDS)
    return joined


def _pieces(maps: str, size: int) -> list[int]:
    """Return the addresses in /proc/self/maps of all ranges that could be one page of `size` bytes."""
    places: list[int] = []
    for line in maps.splitlines():
        if found := _RANGE.fullmatch(line):
            start, end = (int(address, 16) for address in found.groups())
            places += range(-(-start // size) * size, end - size + 1, size)
    return places


async def join_as_it_grows(*, look_seconds: float = _LOOK_SECONDS) -> None:
    """Merge used memory into huge pages each time this process has grown by over 8 MiB; return if it is impossible."""
    joined_at = 0
    while True:
        await asyncio.sleep(look_seconds)
        try:
            held = held_bytes()
        except OSError:
            return  # A system without proc(5).
        joined_at = min(joined_at, held)  # Returned memory may be allocated again.
        if held > joined_at + _GROWN_BYTES:
            joined_at = held
            if await asyncio.to_thread(join_pages) is None:
                return
