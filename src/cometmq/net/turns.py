"""Shares the turns of the loop among connections that ask much at once.

A read is a batch, and most reads hold a request or two: those are done at once. But a connection that
pipelines brings 256 KiB with one read, and libuv reads 32 times from it before it looks at the next; 30,000
sends or pulls would hold the loop for seconds. So what large reads bring has a budget a turn. Beyond it the rest
waits, its connection is not read meanwhile, and the next turn goes on with whoever waits longest.

With more connections than libuv asks the system about at once (1,024) there is another end that never comes:
while all of those have something to read it reads on, and timers, new connections and whoever is not among
them wait. Then small reads count, too.

Next: cometmq.net.peer
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from cometmq.model.clock import Clock

if TYPE_CHECKING:
    from cometmq.net.peer import Peer

# A read of more than this is a large one, bytes: 20 to 60 requests without a body.
LARGE_READ = 16 << 10
# What large reads may take of a turn, seconds: four connections with 256 sends each, which are not worth cutting
BUDGET_SECONDS = 0.012
# The least that one connection has of it where many wait.
SHARE_SECONDS_MIN = 0.0005
# Bytes that may wait undone; beyond them they are done whatever it takes, since they have been read.
WAITING_BYTES_MAX = 16 << 20
# From so many connections on every read counts, and so many reads make a turn.
CROWD = 900
CROWD_READS = 256


class Turns:
    """Who waits for another turn.

    Attributes:
        is_crowded: whether small reads count.
    """

    def __init__(self, clock: Clock) -> None:
        """Nobody waits."""
        self.is_crowded = False
        self._clock = clock
        self._waiting: deque[Peer] = deque()
        self._bytes = 0
        self._is_over = False
        self._is_due = False
        self._spent = 0.0
        self._reads = 0

    def put_off(self, peer: "Peer", size: int) -> bool:
        """Whether a read must wait; the peer is told to go on in one of the next turns then."""
        if self.is_crowded:
            self._reads += 1
            self._is_over = self._is_over or self._reads >= CROWD_READS
            self._schedule()
        if not self._is_over or self._bytes + size > WAITING_BYTES_MAX:
            return False
        self._bytes += size
        self.wait(peer)
        return True

    def taken(self, size: int) -> None:
        """Bytes that waited are being done, or never will be."""
        self._bytes -= size

    def wait(self, peer: "Peer") -> None:
        """Let a peer go on in one of the next turns."""
        self._waiting.append(peer)
        self._schedule()

    def share(self) -> float:
        """Until when one more large read may be worked on now, monotonic seconds."""
        left = max(BUDGET_SECONDS - self._spent, SHARE_SECONDS_MIN)
        return self._clock.monotonic() + left

    def spend(self, seconds: float) -> None:
        """A large read took so long."""
        self._spent += seconds
        self._is_over = self._is_over or self._spent >= BUDGET_SECONDS
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Begin a turn with those who wait."""
        self._is_due = False
        now = self._clock.monotonic()
        ends = now + BUDGET_SECONDS
        count = len(self._waiting)
        share = max(BUDGET_SECONDS / (count or 1), SHARE_SECONDS_MIN)
        for _ in range(count):
            peer = self._waiting.popleft()
            if not peer.go_on(min(now + share, ends)):
                self._waiting.append(peer)
            now = self._clock.monotonic()
            if now >= ends:
                break
        # While anybody waits, what comes new does so behind him.
        self._is_over = bool(self._waiting)
        self._spent, self._reads = 0.0, 0
        if self._waiting:
            self._schedule()
