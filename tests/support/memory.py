"""How much memory a process holds, while something happens and behind it."""

import threading
from pathlib import Path
from typing import Self

from tests.support.processes import wait_until

MIB = 1 << 20


def anonymous_bytes(pid: int) -> int:
    """Memory of the process that is no file's: pages of a mapped log come and go with the page cache."""
    parts = [
        int(line.split()[1]) * 1024
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        # The second are anonymous mappings that could be shared: proc(5).
        if line.startswith(("RssAnon:", "RssShmem:"))
    ]
    assert len(parts) == 2, f"process {pid} tells no memory"
    return sum(parts)


class MemoryWatch:
    """The most memory that a process held within a `with` block, over what it held at its begin."""

    def __init__(self, pid: int, *, every_seconds: float = 0.02) -> None:
        self.pid = pid
        self.base = anonymous_bytes(pid)
        self.most = self.base
        self._every_seconds = every_seconds
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(self._every_seconds):
            self.most = max(self.most, anonymous_bytes(self.pid))

    @property
    def growth(self) -> int:
        """Bytes between the begin and the most."""
        return self.most - self.base

    def check(self, *, growth_max: int = 64 * MIB) -> None:
        """Assert that it never held more than `growth_max` bytes over its base."""
        said = f"{self.growth / MIB:.1f} MiB over a base of {self.base / MIB:.1f} MiB"
        print(said)
        assert self.growth <= growth_max, said

    def check_back(self, *, left_max: int = 32 * MIB, seconds: float = 15) -> None:
        """Wait until it is back near its base, once the peers have left."""
        try:
            wait_until(
                lambda: anonymous_bytes(self.pid) - self.base <= left_max,
                seconds=seconds,
                what=f"memory back to base + {left_max / MIB:.0f} MiB",
            )
        except TimeoutError as error:
            left = (anonymous_bytes(self.pid) - self.base) / MIB
            raise AssertionError(f"{error}, but base + {left:.1f} MiB") from error
