"""Large pieces that are freed and taken again cost no new pages, and what a burst leaves is given back."""

import platform
import subprocess
import sys

import pytest

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
