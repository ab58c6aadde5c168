"""The frequent part of reading and writing connections: `PeerEnd` queues received bytes, `TurnReads` collects them.

A read batch is what connections received about the same time, to be handled together. Subclasses handle
it (`net.turn`), and the less frequent reads and writes (`net.peer`). This is the Python version. If built, its compiled
twin `_turn_reads` replaces it: with very many clients that send one request per read, the Python calls between loop,
batch and sockets took longer than the sends themselves.
"""

import os
from collections import deque
from enum import IntEnum
from typing import Any, Generic, TypeVar

# Size in bytes above which answers are written with a call that lets other threads run.
DIRECT_SIZE_MAX = 64 << 10
# The type of the connections: a subclass with a full implementation.
OfPeer = TypeVar("OfPeer", bound="PeerEnd")


class PeerState(IntEnum):
    """A connection's state: QUIET, QUEUED, HELD, PAUSED, CLOSING or CLOSED (docs/design/0037-a-turn-is-a-batch.md)."""

    QUIET = 0  # Nothing of it waits.
    QUEUED = 1  # Its bytes or requests wait for their share of a read batch.
    HELD = 2  # As QUEUED; more came meanwhile, and it is not read until all is handled.
    PAUSED = 3  # It does not read its answers, so it is neither read nor served.
    CLOSING = 4  # It is being closed; what waits is not handled any more.
    CLOSED = 5  # It is gone.


# Reading a member of an enumeration, and comparing with it, takes ten times as long as with a plain number.
QUIET, QUEUED = int(PeerState.QUIET), int(PeerState.QUEUED)


class TurnReads(Generic[OfPeer]):
    """The connections with unhandled bytes, and the number of bytes; abstract base class of the read batch.

    Attributes:
        fresh: Connections with unhandled bytes that had none before.
        size: Number of bytes that wait for the read batch.
        size_max: Limit on `size`; beyond it, requests are handled as soon as bytes arrive.
        lone_reads: Number of next reads to handle immediately unless they are large, as recent batches had only one.
        is_due: Whether the next read batch is scheduled.
    """

    __slots__ = ("fresh", "is_due", "lone_reads", "size", "size_max")

    def __init__(self, size_max: int) -> None:
        self.fresh: deque[OfPeer] = deque()
        self.size_max = size_max
        self.size = self.lone_reads = 0
        self.is_due = False

    def begin_soon(self) -> None:
        """Schedule the read batch for when all reads of this iteration have arrived; a subclass implements this."""
        raise NotImplementedError

    def answer_ahead(self, data: bytes, peer: OfPeer) -> bool:
        """Answer a read before the batch, or return False if that is not possible; a subclass implements this."""
        raise NotImplementedError

    def take_alone(self) -> None:
        """Handle the last read immediately unless it is large, as recent batches had only one; a subclass implements this."""
        raise NotImplementedError

    def work_off(self) -> None:
        """Handle queued requests until the waiting bytes are within the limit or none is queued; a subclass implements this."""
        raise NotImplementedError


class PeerEnd:
    """The part of a connection that the kernel reads and writes; a server's peer is a subclass.

    Attributes:
        turn: Read batch that handles its bytes.
        host: Client's address in the format of records.
        unread: Received bytes that were not handled yet.
        has_read: Whether bytes were received since the last check.
        state: What it is doing, a `PeerState`.
        sends_alone: A hint that its last bytes were all parsed as sends, signatures unchecked, with no partial frame left over.
        asks_alone: Whether its last bytes were a single pull that the fast path answered, so that the fast path gets the next
            bytes before the batch. The fast path sets it; bytes that it does not answer before the batch clear it.
        direct_fd: Its socket's file descriptor while data can be written to it directly, otherwise -1.
    """

    __slots__ = (
        "asks_alone", "direct_fd", "has_read", "host", "sends_alone", "state", "turn", "unread",
    )  # fmt: skip

    def __init__(self, turn: TurnReads[Any], host: bytes) -> None:
        self.turn, self.host, self.unread = turn, host, b""
        self.has_read = self.sends_alone = self.asks_alone = False
        self.state = QUIET
        self.direct_fd = -1

    def data_received(self, data: bytes) -> None:
        """Queue received bytes for a read batch, or handle them now if a batch gains nothing or too many bytes wait.

        Bytes of a connection that is closing are dropped.
        """
        self.has_read = True
        turn = self.turn
        is_quiet = self.state == QUIET
        if self.asks_alone:
            self.asks_alone = is_quiet and turn.answer_ahead(data, self)
            if self.asks_alone:
                return
        if not is_quiet:
            self.read_more(data)
            return
        self.unread = data
        self.state = QUEUED
        turn.fresh.append(self)
        turn.size += len(data)
        if turn.lone_reads:
            turn.take_alone()
            return
        if not turn.is_due:
            turn.begin_soon()
        if turn.size > turn.size_max:
            turn.work_off()

    def read_more(self, data: bytes) -> None:
        """Keep received bytes behind others that wait, unless the connection is closing; a subclass implements this."""
        raise NotImplementedError

    def write_at_once(self, data: bytes | memoryview) -> None:
        """Send bytes after those already queued, now if possible; drop them if the connection is closing."""
        sent = 0
        if self.direct_fd >= 0 and type(data) is bytes and len(data) <= DIRECT_SIZE_MAX:
            try:
                sent = os.write(self.direct_fd, data)
            except OSError:  # `write_otherwise` gets the same error and handles it.
                sent = 0
            if sent == len(data):
                return
        self.write_otherwise(data[sent:])

    def write_otherwise(self, data: bytes | memoryview) -> None:
        """Send, keep or drop bytes, as the state of the connection requires; a subclass implements this."""
        raise NotImplementedError
