"""Has Linux keep memory that is in use whole in pages of 2 MiB: what lies in many small objects is found faster there.

A processor remembers where some thousand pages are. Of 4 KiB a broker with 80,000 queues has many times as many, and each
message touches ten; on a virtual machine each that is not remembered is looked up through two tables (docs/design/0046-columns.md).

Asked for a page of 2 MiB where nothing is yet, Linux makes whoever touches it wait until it has one. So memory gets its small
pages first, and what has nearly all of them is put together later, beside the loop.
"""

import asyncio
import ctypes
import errno
import os
import re
import time
from pathlib import Path

from cometmq.process.freed_memory import held_bytes

# A piece with more pages missing than this part stays as it is, so that the process grows by no more.
_MISSING_PART = 16
# Of linux/mman.h, since Linux 6.1: madvise(2).
_MADV_COLLAPSE = 25
# There is memory, but nowhere 2 MiB of it at once, or not for this process.
_NONE_LEFT = {errno.ENOMEM, errno.EBUSY}
# How an administrator lets programs ask, or does not; and the size of such a page, 2 MiB nearly everywhere.
_ALLOWED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_SIZE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
# Memory that is no file's, or the heap: proc(5), `maps`.
_RANGE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p 00000000 00:00 0 *(?:\[heap\])?")
_LOOK_SECONDS = 10.0
# So much more than at the last time is worth a look.
_GROWN_BYTES = 8 << 20
# Whoever touches a piece meanwhile waits for a part of a millisecond; not for one piece behind the other.
_PAUSE_SECONDS = 0.002


def join_pages() -> int | None:
    """Put each piece of memory together that is in use nearly whole.

    To be called beside the loop: it takes a part of a millisecond a piece, and pauses.

    Returns:
        How many pieces are one page now; None where Linux is not asked, for it has no such pages or its administrator said "never".
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
        # What was given back meanwhile is nobody's: both calls say so, and nothing is touched.
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
    """The addresses of all pieces that could be one page of so many bytes."""
    places: list[int] = []
    for line in maps.splitlines():
        if found := _RANGE.fullmatch(line):
            start, end = (int(address, 16) for address in found.groups())
            places += range(-(-start // size) * size, end - size + 1, size)
    return places


async def join_as_it_grows(*, look_seconds: float = _LOOK_SECONDS) -> None:
    """Put memory together whenever this process has got more; returns where that cannot be."""
    joined_at = 0
    while True:
        await asyncio.sleep(look_seconds)
        held = held_bytes()
        joined_at = min(joined_at, held)  # What is given back may come again.
        if held > joined_at + _GROWN_BYTES:
            joined_at = held
            if await asyncio.to_thread(join_pages) is None:
                return
