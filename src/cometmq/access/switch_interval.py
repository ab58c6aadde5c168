"""A short switch interval while a thread makes or frees very many objects: the loop has its turn in between, soon.

A thread that only computes keeps the interpreter for 5 ms (`sys.setswitchinterval`) before another one gets it, and an answer
needs it several times. The search for objects in circles (`gc`) keeps it as long as it takes, of very many objects the longer, and of files and tables there are none.
"""

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# How long a thread keeps the interpreter while such work is done, seconds.
SWITCH_SECONDS = 0.0005


class ShortSwitchInterval:
    """The interval while such work is done, whose doers are counted: the first shortens it, the last changes it back."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._inside = 0
        self._before = (sys.getswitchinterval(), True)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Do such work within; in any thread, and several at once."""
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


# One for the process: both are settings of the whole interpreter.
short_switch_interval = ShortSwitchInterval()
