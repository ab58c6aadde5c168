"""Shorter thread switch interval during work on very many objects, so that the loop runs in between.

A computing thread holds the interpreter for 5 ms (`sys.setswitchinterval`) before another one gets it, and an answer
needs it several times. Garbage collection (`gc`) would hold it longer, so it is off meanwhile; the data has no reference cycles.
"""

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Switch interval during such work, in seconds.
SWITCH_SECONDS = 0.0005


class ShortSwitchInterval:
    """A context for several threads: the first to enter shortens the interval and stops `gc`, the last to leave restores both."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._inside = 0
        self._before = (sys.getswitchinterval(), True)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Shorten the interval and keep `gc` off within the context, in any thread and several at once."""
        with self._changing:
            if not self._inside:
                self._before = (sys.getswitchinterval(), gc.isenabled())
                sys.setswitchinterval(min(SWITCH_SECONDS, self._before[0]))
                gc.disable()
            self._inside += 1
        try:
            yield
        finally:
            with self._changing:
                self._inside -= 1
                if not self._inside:
                    interval, is_collecting = self._before
                    sys.setswitchinterval(interval)
                    if is_collecting:
                        gc.enable()


# One per process, because both settings apply to the whole interpreter.
short_switch_interval = ShortSwitchInterval()
