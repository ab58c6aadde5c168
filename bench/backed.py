"""Memory that a virtual machine has from its host, before something is measured that fills it.

A guest gives pages that it has not used for some seconds back (free page reporting), and whoever is the first
to touch one again waits for the host: 600 MB copied into the page cache took 2.1 s of system time in place of
0.6 s, nearly all in the kernel's copy. That is the host's and not the program's, and who pays depends on what ran
before. So ahead of each write, for every system alike, as much memory is touched and freed, and the disk has
what is still on its way to it.
"""

import mmap
import os

_STEP = 1 << 20


def back_memory(size: int) -> None:
    """Touch so many bytes of memory and free them, on a disk at rest."""
    os.sync()
    with mmap.mmap(-1, size) as memory:
        page = bytes(_STEP)
        for _ in range(size // _STEP):
            memory.write(page)
