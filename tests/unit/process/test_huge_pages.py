"""Memory that is in use whole comes into pages of 2 MiB; what is half empty does not grow."""

import subprocess
import sys

from cometmq.process import huge_pages

PROGRAM = """
import ctypes, mmap
from pathlib import Path
from cometmq.process.freed_memory import held_bytes
from cometmq.process.huge_pages import join_pages

HUGE_SIZE = 2 << 20

def huge_bytes():
    words = Path("/proc/self/smaps_rollup").read_text().split()
    return int(words[words.index("AnonHugePages:") + 1]) << 10

def can_join():
    piece = mmap.mmap(-1, 2 * HUGE_SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    piece[:] = b"x" * len(piece)
    address = ctypes.addressof(ctypes.c_char.from_buffer(piece))
    address += -address % HUGE_SIZE
    is_done = not ctypes.CDLL(None).madvise(ctypes.c_void_p(address), ctypes.c_size_t(HUGE_SIZE), 25)
    return is_done and "[never]" not in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()

SIZE = 16 << 20
can = can_join()
whole = mmap.mmap(-1, SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
whole[:] = content = bytes(range(256)) * (SIZE >> 8)
half = mmap.mmap(-1, 4 * SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(0, len(half), 8192):
    half[page] = 1
before, huge = held_bytes(), huge_bytes()
joined = join_pages()
if can:
    assert joined >= SIZE // HUGE_SIZE - 1, joined
    assert huge_bytes() - huge >= SIZE - HUGE_SIZE, huge_bytes()
else:
    assert not joined, joined
assert held_bytes() - before < SIZE // 4, (before, held_bytes())
assert whole[:] == content
"""


def test_only_what_is_in_use_whole_is_put_together():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)


async def test_it_ends_on_a_system_without_proc(monkeypatch):
    """As macOS is."""

    def held_bytes():
        raise FileNotFoundError("/proc/self/statm")

    monkeypatch.setattr(huge_pages, "held_bytes", held_bytes)
    await huge_pages.join_as_it_grows(look_seconds=0)
