"""Puts a system and its load on given cores, for as long as one sender's waits are measured.

Two programs that answer each other in turn are as fast as the core they meet on: waking the other on a core of its own
sends an interrupt through the host of a virtual machine. Where the scheduler puts them is chance, and another one for
each program and each minute; so what is compared is put the same way.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from bench.measure import processes_of

Cores = set[int]


@contextmanager
def placed(group: int, *, server: Cores, load: Cores) -> Iterator[None]:
    """All threads of a process group run on some cores, and what is started here meanwhile on others."""
    everywhere = os.sched_getaffinity(0)
    place(group, server)
    try:
        with here_on(load):
            yield
    finally:
        place(group, everywhere)


@contextmanager
def here_on(cores: Cores) -> Iterator[None]:
    """What this thread does and starts meanwhile runs on some cores."""
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, everywhere)


def place(group: int, cores: Cores) -> None:
    """Put every thread of a process group on some cores; those that they start follow."""
    for process in processes_of(group):
        for thread in (process / "task").iterdir():
            with suppress(ProcessLookupError):  # It has ended since.
                os.sched_setaffinity(int(thread.name), cores)
