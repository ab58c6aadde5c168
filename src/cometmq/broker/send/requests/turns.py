"""The sends of one turn of the loop that are stored together, and whose they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cometmq.broker.send.requests.answers import Pending
    from cometmq.net.peer import Peer
    from cometmq.store.appender import Put


class Sends:
    """Puts of several connections, one behind the other.

    Attributes:
        puts: what is to be stored.
        pending: of each put, what its answer needs.
        ends: of each connection that has some: it, and the index behind its last one.
    """

    __slots__ = ("ends", "pending", "puts")

    def __init__(self) -> None:
        """Begin without any send."""
        self.puts: list[Put] = []
        self.pending: list[Pending] = []
        self.ends: list[tuple[Peer, int]] = []

    def end(self, peer: Peer) -> None:
        """Note that the sends behind the last end are the peer's."""
        count, ends = len(self.puts), self.ends
        if ends and ends[-1][0] is peer:
            ends[-1] = (peer, count)
        elif count > (ends[-1][1] if ends else 0):
            ends.append((peer, count))

    def empty(self) -> Sends:
        """Give all of them away; this has none then."""
        given = Sends()
        given.puts, given.pending, given.ends = self.puts, self.pending, self.ends
        self.puts, self.pending, self.ends = [], [], []
        return given

    def halves(self) -> tuple[Sends, Sends]:
        """Give the first half of them, and the second."""
        middle = len(self.puts) // 2
        first, second = Sends(), Sends()
        first.puts, first.pending = self.puts[:middle], self.pending[:middle]
        second.puts, second.pending = self.puts[middle:], self.pending[middle:]
        start = 0
        for peer, end in self.ends:
            if start < middle:
                first.ends.append((peer, min(end, middle)))
            if end > middle:
                second.ends.append((peer, end - middle))
            start = end
        return first, second
