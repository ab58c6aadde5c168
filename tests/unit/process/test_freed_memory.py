"""Large pieces that are freed and taken again cost no new pages, and what a burst leaves is given back."""

import platform
import subprocess
import sys

import pytest

from cometmq.process import huge_pages

PROGRAM = """
import resource, sys
from cometmq.process.freed_memory import keep_freed_memory
if sys.argv[1] == "kept":
    assert keep_freed_memory()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for number in range(101):
    if number == 1:
        before = faults()
    pieces = [b"x" * (1 << 20) for _ in range(8)]  # More than glibc keeps of itself.
    del pieces
print(faults() - before)
"""

BURSTS = """
import asyncio
from cometmq.process.freed_memory import held_bytes, give_back_bursts, keep_freed_memory
MIB = 1 << 20
assert keep_freed_memory()

async def main():
    looking = asyncio.create_task(give_back_bursts(look_seconds=0.2))
    await asyncio.sleep(0)
    pins, base = [], held_bytes()
    for burst in range(3):
        # Over before anybody looks, and in pieces between which something stays, so that the heap cannot shrink.
        pieces = [bytearray(1000) for _ in range(48_000)]
        pins += pieces[::100]
        assert held_bytes() > base + 40 * MIB, burst
        del pieces
        for _ in range(100):
            await asyncio.sleep(0.1)
            if held_bytes() < base + 20 * MIB:
                break
        else:
            raise AssertionError(f"burst {burst}: {(held_bytes() - base) / MIB:.0f} MiB were not given back")
        await asyncio.sleep(0.3)  # The next one comes once this one was told.
    looking.cancel()

asyncio.run(main())
"""


def faults(how: str) -> int:
    command = [sys.executable, "-c", PROGRAM, how]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_what_is_freed_is_taken_again_without_new_pages():
    assert 10 * faults("kept") < faults("given back")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a call of glibc")
def test_each_burst_is_given_back_though_it_was_over_between_two_looks():
    done = subprocess.run(
        [sys.executable, "-c", BURSTS], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


HUGE_PROGRAM = """
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
    subprocess.run([sys.executable, "-c", HUGE_PROGRAM], check=True, timeout=60)


async def test_it_ends_on_a_system_without_proc(monkeypatch):
    """As macOS is."""

    def held_bytes():
        raise FileNotFoundError("/proc/self/statm")

    monkeypatch.setattr(huge_pages, "held_bytes", held_bytes)
    await huge_pages.join_as_it_grows(look_seconds=0)
