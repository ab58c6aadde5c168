"""Bad neighbours, very many: connections that begin and do not end, that trickle, and one that reads no answers.

A server closes such connections after some seconds; whoever is closed comes again, so that there are always as many.
"""

import contextlib
import select
import socket
import struct
from collections.abc import Callable
from typing import Self

# Of a frame half, or five bytes of it; half a handshake; nothing at all.
_HALF = struct.pack(">II", 5_000_000, 100) + b'{"code":28'
BEGINS = (_HALF, _HALF[:5], b"\x16\x03\x01\x02", b"")
DEAF_WRITES = 200
SLOW_EACH_TIME = 50


class Neighbours:
    """So many of them, from the begin of the block to its end."""

    def __init__(
        self, connect: Callable[[], socket.socket], count: int, question: bytes
    ) -> None:
        """`connect` makes a connection; `question` is what the deaf one asks."""
        self._connect = connect
        self._count = count
        self._question = question
        self._poll = select.poll()
        self._peers: dict[int, socket.socket] = {}
        self._slow = 0
        self._begun = 0
        self.again = 0  # How many came again.

    def __enter__(self) -> Self:
        for _ in range(self._count):
            self._begin()
        self._deaf = self._connect()
        self._deaf.setblocking(False)
        with contextlib.suppress(BlockingIOError, ConnectionError):
            for _ in range(DEAF_WRITES):
                self._deaf.send(self._question * 50)
        return self

    def __exit__(self, *_: object) -> None:
        for peer in (*self._peers.values(), self._deaf):
            peer.close()

    def _begin(self) -> None:
        peer = self._connect()
        peer.setblocking(False)
        with contextlib.suppress(ConnectionError):
            peer.sendall(BEGINS[self._begun % len(BEGINS)])
        self._begun += 1
        self._peers[peer.fileno()] = peer
        self._poll.register(peer, select.POLLIN)

    def go_on(self) -> None:
        """Let the next of them send one more byte, and those that were closed come again."""
        for number, _ in self._poll.poll(0):
            self._poll.unregister(number)
            self._peers.pop(number).close()
            self.again += 1
        while len(self._peers) < self._count:
            self._begin()
        peers = list(self._peers.values())
        for peer in peers[self._slow : self._slow + SLOW_EACH_TIME]:
            with contextlib.suppress(OSError):
                peer.send(b"x")
        self._slow = (self._slow + SLOW_EACH_TIME) % len(peers)
