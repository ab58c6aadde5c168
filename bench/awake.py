"""Keeps the processors from sleeping while one sender's waits are measured.

An unpipelined sender lets a processor sleep twice a message. What a sleep costs on a virtual machine
(20 to 60 us, and caches that a neighbour has filled) is the host's and not the program's, and changes
with the minute. So a program of idle priority spins on each core, for every system alike: it runs only
where nothing else wants to (SCHED_IDLE, sched(7)), as those do who switch a processor's idle states off
before they measure latency.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SPIN = (
    "import os\nos.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"
)


@contextmanager
def awake() -> Iterator[None]:
    """No core sleeps inside the block."""
    spinning = [
        subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in os.sched_getaffinity(0)
    ]
    try:
        yield
    finally:
        for one in spinning:
            one.kill()
            one.wait()
