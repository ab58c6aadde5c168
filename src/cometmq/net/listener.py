"""A listening socket that accepts many waiting connections per loop iteration.

uvloop's own servers accept one connection per iteration, and an iteration serves all existing ones. The time until n
clients are connected then grows with n squared: with 1,000 clients the last first answer came after 7.7 s, here 0.2 s.
"""

import asyncio
import logging
import socket
from collections.abc import Callable

_log = logging.getLogger(__name__)

# Maximum of connections waiting to be accepted; the kernel limits it to net.core.somaxconn (4096 by default).
BACKLOG = 4096
# Maximum accepted per loop iteration, to keep it short: each takes about 100 us including its setup.
ACCEPTED_A_TURN = 128
# Pause in seconds after an error that the next accept would meet as well.
PAUSE_SECONDS = 0.1

# Errors of a connection that is already gone; others may still wait.
_GONE = (ConnectionAbortedError, InterruptedError)


class Listener:
    """Accepts connections on a bound socket."""

    def __init__(
        self,
        bound: socket.socket,
        on_accepted: Callable[[socket.socket, tuple[str, int]], None],
    ) -> None:
        """Use a socket that is bound but does not listen yet.

        Args:
            bound: The socket; `close` closes it.
            on_accepted: Called with each connection and the address it comes from.
        """
        self._bound = bound
        self._on_accepted = on_accepted
        self._loop = asyncio.get_running_loop()
        self._again: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start listening."""
        self._bound.settimeout(0)
        self._bound.listen(BACKLOG)
        self._resume()

    def close(self) -> None:
        """Stop listening; accepted connections stay open."""
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._bound)
        self._bound.close()

    def _resume(self) -> None:
        self._again = None
        self._loop.add_reader(self._bound, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_A_TURN):
            try:
                accepted, name = self._bound.accept()
            except BlockingIOError:
                return
            except _GONE:
                continue
            except OSError as error:
                self._pause(error)
                return
            accepted.settimeout(0)
            self._on_accepted(accepted, name[:2])

    def _pause(self, error: OSError) -> None:
        """Stop accepting for a moment, for example if no descriptor is free, to avoid a busy loop."""
        _log.warning("no connection can be accepted: %s; trying again", error)
        self._loop.remove_reader(self._bound)
        self._again = self._loop.call_later(PAUSE_SECONDS, self._resume)
