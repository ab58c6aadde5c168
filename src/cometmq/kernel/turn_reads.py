"""Keeps what connections bring in a turn of the loop, and writes to their sockets, without a call of Python for each.

A client that waits for each answer brings one send a read. Of very many such connections the calls between the loop, the batch of
the turn and the sockets took longer than the sends. What is anything else, or is not answered by one write, goes to whoever the
connection is to others (`net.peer`, `net.turn`). Compiled: `_turn_reads`.
"""

import os
from collections import deque
from typing import Any, Generic, TypeVar

# Larger answers go to the socket in a way that lets other threads run meanwhile, bytes.
DIRECT_SIZE_MAX = 64 << 10
# Whoever the connections are to others.
OfPeer = TypeVar("OfPeer", bound="PeerEnd")


class TurnReads(Generic[OfPeer]):
    """The connections that brought something, and how much.

    Attributes:
        fresh: those that had nothing yet of what they brought.
        size: bytes that wait for a turn.
        size_max: more are worked on as they come.
        lone_reads: so many small reads need not wait for others of their turn, since there were none lately.
        is_due: whether the turn will begin by itself.
    """

    __slots__ = ("fresh", "is_due", "lone_reads", "size", "size_max")

    def __init__(self, size_max: int) -> None:
        """Nothing came yet."""
        self.fresh: deque[OfPeer] = deque()
        self.size_max = size_max
        self.size = self.lone_reads = 0
        self.is_due = False

    def begin_soon(self) -> None:
        """Have the turn begin when all reads of it are here."""
        raise NotImplementedError

    def answer_ahead(self, data: bytes, peer: OfPeer) -> bool:
        """Have a read answered before its turn, of one who gains nothing by others; False: it waits as theirs do, and nothing was done."""
        raise NotImplementedError

    def take_alone(self) -> None:
        """Handle a read that waits for no others: the only one that is here."""
        raise NotImplementedError

    def work_off(self) -> None:
        """Work on what waits, until that is no more than may wait."""
        raise NotImplementedError


class PeerEnd:
    """All that the kernel reads and writes of a connection; a server's peer is one of these and more.

    Attributes:
        turn: what it brought waits there.
        host: the client, as records hold it.
        unread: what came and nobody has looked at.
        has_read: whether bytes came since somebody looked.
        is_in_turn: whether it waits for its share of a turn.
        is_paused: whether it reads slower than we answer.
        sends_alone: whether all that it brought last was taken as sends, and nothing of it waits: no begin of a frame, no answers.
        asks_alone: whether all that it brought last was one request that is answered without waiting for others of its turn, and
            nothing of it waits; whoever takes such a request says so, and the next read that is none ends it.
        direct_fd: the number of its socket while that gets at once what is written; -1: something may come first.
    """

    __slots__ = (
        "asks_alone", "direct_fd", "has_read", "host", "is_in_turn", "is_paused", "sends_alone",
        "turn", "unread",
    )  # fmt: skip

    def __init__(self, turn: TurnReads[Any], host: bytes) -> None:
        """Nothing came yet."""
        self.turn, self.host, self.unread = turn, host, b""
        self.has_read = self.is_in_turn = self.is_paused = False
        self.sends_alone = self.asks_alone = False
        self.direct_fd = -1

    def data_received(self, data: bytes) -> None:
        """Keep what came for this turn of the loop."""
        self.has_read = True
        turn = self.turn
        if self.asks_alone:
            waits = self.is_in_turn or self.is_paused
            self.asks_alone = not waits and turn.answer_ahead(data, self)
            if self.asks_alone:
                return
        if self.is_in_turn or not self.sends_alone or self.unread:
            self.read_otherwise(data)
            return
        self.unread = data
        self.is_in_turn = True
        turn.fresh.append(self)
        turn.size += len(data)
        if turn.lone_reads:
            turn.take_alone()
            return
        if not turn.is_due:
            turn.begin_soon()
        if turn.size > turn.size_max:
            turn.work_off()

    def read_otherwise(self, data: bytes) -> None:
        """Keep or handle what came, in whatever state the connection is."""
        raise NotImplementedError

    def write_at_once(self, data: bytes | memoryview) -> None:
        """Send bytes to somebody who has waited: not at the end of the loop's turn, but now, behind all that comes first."""
        sent = 0
        if self.direct_fd >= 0 and type(data) is bytes and len(data) <= DIRECT_SIZE_MAX:
            try:
                sent = os.write(self.direct_fd, data)
            except OSError:  # Who writes the rest finds the same, and knows what to do.
                sent = 0
            if sent == len(data):
                return
        self.write_otherwise(data[sent:])

    def write_otherwise(self, data: bytes | memoryview) -> None:
        """Send bytes, or keep them, in whatever state the connection is."""
        raise NotImplementedError
