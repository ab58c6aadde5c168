"""Large pieces that are freed and taken again cost no new pages."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from cometmq.net.freed_memory import keep_freed_memory
if sys.argv[1] == "kept":
    assert keep_freed_memory()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

bytes(1 << 20), bytes(1 << 20)
before = faults()
for _ in range(100):
    frame = b"x" * (1 << 20)
    body = frame[1:]
    del frame, body
print(faults() - before)
"""


def faults(how: str) -> int:
    command = [sys.executable, "-c", PROGRAM, how]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_what_is_freed_is_taken_again_without_new_pages():
    assert 10 * faults("kept") < faults("given back")
