"""Many connections that do the same at once, from one thread: when each had its first answer, and how many it had."""

import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.frames import connect


@dataclass
class Member:
    """One connection.

    Attributes:
        socket: the connection.
        first_seconds: when its first answer came, counted from the begin; None while there was none.
        answers: how many it had.
        waited_seconds: how long it waited for its first answer, by the clock that was given.
    """

    socket: socket.socket
    first_seconds: float | None = None
    answers: int = 0
    received: bytearray = field(default_factory=bytearray)
    asked_at: float | None = None
    waited_seconds: float | None = None

    def ask(self, question: bytes, clock: Callable[[], float]) -> None:
        """Send it; the first time, note when."""
        if self.asked_at is None:
            self.asked_at = clock()
        self.socket.send(question)

    def answered(self, count: int, clock: Callable[[], float]) -> None:
        """Count answers; of the first, note how long it took."""
        if self.waited_seconds is None and self.asked_at is not None:
            self.waited_seconds = clock() - self.asked_at
        self.answers += count

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
    address: str,
    count: int,
    question: bytes,
    *,
    asked_at_once: int,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> list[Member]:
    """Connect `count` times at once; each asks again as soon as it is answered, until all were, or `seconds` are over.

    `question` is `asked_at_once` requests; `clock` tells how long each waited for its first answer.
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
                    member.answered(whole, clock)
                    if member.answers % asked_at_once:
                        continue
                member.ask(question, clock)
    for member in members:
        member.socket.close()
    return members


@contextmanager
def crowd(address: str, count: int) -> Iterator[list[Member]]:
    """Connections that all stand before the first of them says anything."""
    members: list[Member] = []
    try:
        for _ in range(count):
            members.append(Member(connect(address, seconds=20)))
            members[-1].socket.setblocking(False)
        yield members
    finally:
        for member in members:
            member.socket.close()


def ask_in_step(
    members: list[Member],
    question: bytes,
    *,
    answers: int,
    seconds: float,
    clock: Callable[[], float],
) -> None:
    """Let all ask at once, and each again when it is answered, until all together had so many answers."""
    until, total = time.monotonic() + seconds, 0
    with selectors.DefaultSelector() as selector:
        for member in members:
            selector.register(member.socket, selectors.EVENT_READ, member)
            member.ask(question, clock)
        while total < answers and time.monotonic() < until:
            for key, _ in selector.select(0.1):
                member = key.data
                if whole := member.take():
                    member.answered(whole, clock)
                    total += whole
                    member.ask(question, clock)


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
