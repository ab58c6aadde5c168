"""`python -m cometmq.embedded.child ...`: the program `cometmq broker`, which also stops at the end of its standard input.

Its parent holds the other end of that pipe (embedded.several). The broker therefore stops in order when the parent
closes the pipe, and when the parent is killed: no broker is left behind that keeps its store and its port.
"""

import os
import signal
import sys
import threading

from cometmq.broker.__main__ import main


def _stop_at_end() -> None:
    """Wait for the end of standard input, then ask this process to stop as `kill` does."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_stop_at_end, name="end-of-parent", daemon=True).start()
    sys.exit(main())
