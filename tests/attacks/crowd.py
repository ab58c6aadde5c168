"""Many connections that do the same at once, from one thread: when each had its first answer, and how many it had."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Member:
    """One connection.

    Attributes:
        socket: the connection.
        first_seconds: when its first answer came, counted from the begin; None while there was none.
        answers: how many it had.
    """

    socket: socket.socket
    first_seconds: float | None = None
    answers: int = 0
    received: bytearray = field(default_factory=bytearray)

    def take(self) -> int:
        """Read what is there; how many answers it completes."""
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return 0
        if not data:
            raise ConnectionError("the server closed the connection")
        self.received += data
        whole = 0
        while len(self.received) >= 4:
            size = 4 + struct.unpack_from(">I", self.received)[0]
            if len(self.received) < size:
                break
            del self.received[:size]
            whole += 1
        return whole


def ask_all(
    address: str, count: int, question: bytes, *, asked_at_once: int, seconds: float
) -> list[Member]:
    """Connect `count` times at once; each asks again as soon as it is answered, until all were, or `seconds` are over.

    `question` is `asked_at_once` requests.
    """
    host, port = address.rsplit(":", 1)
    members = [Member(socket.socket()) for _ in range(count)]
    began, waiting = time.monotonic(), count
    with selectors.DefaultSelector() as selector:
        for member in members:
            member.socket.setblocking(False)
            member.socket.connect_ex((host, int(port)))
            selector.register(member.socket, selectors.EVENT_WRITE, member)
        while waiting and time.monotonic() - began < seconds:
            for key, events in selector.select(0.1):
                member = key.data
                if events & selectors.EVENT_WRITE:
                    selector.modify(member.socket, selectors.EVENT_READ, member)
                elif not (whole := member.take()):
                    continue
                else:
                    if member.first_seconds is None:
                        member.first_seconds = time.monotonic() - began
                        waiting -= 1
                    member.answers += whole
                    if member.answers % asked_at_once:
                        continue
                member.socket.send(question)
    for member in members:
        member.socket.close()
    return members


@contextmanager
def idle_connections(
    address: str, count: int, *, source: str = "127.0.0.1"
) -> Iterator[list[socket.socket]]:
    """Connections that say nothing."""
    host, port = address.rsplit(":", 1)
    opened: list[socket.socket] = []
    try:
        while len(opened) < count:
            opened += [socket.create_connection((host, int(port)), 10, (source, 0))]
        yield opened
    finally:
        for one in opened:
            one.close()
