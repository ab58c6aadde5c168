"""A turn of the loop is a batch: what all connections brought in it is handled together.

Most clients send one request and wait, so a read holds one. What each read would cost, a write to the store, its
dispatch, is paid once for all that came in the same turn. A turn is bounded in requests, bytes and time: what is
beyond that goes on in the next one, behind those who wait already and in equal shares, and timers, new connections
and what comes new are served between (docs/design/0037).

Where turn after turn brings one small read alone, the next ones are handled as they are read: nothing is gained by
waiting for more.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from cometmq.kernel import TurnReads
from cometmq.model.clock import Clock
from cometmq.net.dispatcher import Dispatcher
from cometmq.net.requests import Read

if TYPE_CHECKING:
    from cometmq.codec.remoting import RawCommand
    from cometmq.net.peer import Peer

# A turn that brings no more is done without a look at the clock, bytes: 60 requests without a body.
SMALL_TURN = 16 << 10
# After so many turns in a row that brought one small read, the next reads are handled as they come, so many of
# them; then it is looked again who else is there.
LONE_TURNS, LONE_READS = 4, 64
# Between two turns so many bytes of answers go out ahead of them; each counts as this more, which its time is worth.
AHEAD_SIZE_MAX, AHEAD_COST = 2 << 20, 32 << 10
# What a turn may take, seconds.
BUDGET_SECONDS = 0.012
# What its last step may take beyond it.
OVERTIME_SECONDS = 0.004
# Requests that are handled one by one stop after so long, for those that came with them; in seconds.
SINGLE_SECONDS = 0.004
# And sooner while others wait who had nothing yet.
SINGLE_SECONDS_OF_MANY = 0.001
# Requests that are handled together at most: more, decoded, are not in the processor's cache any more when
# they are stored (1,024 cost 1.3 times as much each).
COUNT_MAX = 256
# Of each connection, where more than a few wait; so many times COUNT_MAX are a turn.
SHARE_MIN, FEW = 16, 8
# Bytes from the sockets that are handled together; decoding a MiB of small requests takes 5 ms.
SIZE_MAX = 1 << 20
# No request is believed to take less, seconds.
PACE_MIN = 1e-6
# Bytes that may wait for a turn; beyond them they are worked on as they are read, whatever it takes.
WAITING_BYTES_MAX = 16 << 20


class Turn(TurnReads["Peer"]):
    """The connections that brought something, and what is done with it.

    Attributes:
        ahead_size: bytes that may be answered yet without waiting for a turn, by those for whom others are no gain.
    """

    def __init__(self, dispatcher: Dispatcher, clock: Clock) -> None:
        """Nothing came yet."""
        super().__init__(WAITING_BYTES_MAX)
        self.ahead_size = AHEAD_SIZE_MAX
        self._lone_turns = 0
        self._dispatcher = dispatcher
        self._clock = clock
        # Of them something is left; each turn has a share for them.
        self._late: deque[Peer] = deque()
        self._ends = 0.0  # Until when requests are handled one by one, monotonic seconds.
        self._is_cut = False
        self._count, self._pace = SHARE_MIN, PACE_MIN

    def join(self, peer: "Peer", size: int) -> None:
        """Let a connection that brought so many bytes have its share of this turn; 0: it goes on with older ones."""
        self.lone_reads = 0
        (self.fresh if size else self._late).append(peer)
        if not self.is_due:
            self.begin_soon()
        self.size += size
        if self.size > WAITING_BYTES_MAX:
            self.work_off()

    def begin_soon(self) -> None:
        """See `TurnReads`."""
        self.is_due = True
        asyncio.get_running_loop().call_soon(self._begin)

    def arrived(self, size: int) -> None:
        """Count bytes that a connection of this turn brought."""
        self.size += size
        if self.size > WAITING_BYTES_MAX:
            self.work_off()

    def work_off(self) -> None:
        """Work on what waits, until that is no more than may wait."""
        while self.size > WAITING_BYTES_MAX and (self.fresh or self._late):
            self._step(self.fresh or self._late, self._clock.monotonic() + BUDGET_SECONDS)

    def answer_ahead(self, data: bytes, peer: "Peer") -> bool:
        """See `TurnReads`."""
        intake = self._dispatcher.intake
        if intake is None or self.ahead_size <= 0:
            return False
        size = intake.answer_ahead(data, peer.write_at_once)
        self.ahead_size -= size + AHEAD_COST
        return size > 0

    def take_alone(self) -> None:
        """See `TurnReads`: most often it is one send, which an unpipelined producer waits for; else whose it is reads it as any other."""
        intake = self._dispatcher.intake
        if intake is not None and self.size <= SMALL_TURN:
            intake.take_reads(self, 1, 0)
            if not self.fresh:
                self.lone_reads -= 1
                self._dispatcher.handle_taken()
                return
        peer = self.fresh.pop()
        data, peer.unread = peer.unread, b""
        self.size -= len(data)
        peer.is_in_turn = peer.sends_alone = False
        peer.read_otherwise(data)

    def handle_alone(
        self, commands: "list[RawCommand]", peer: "Peer", *, is_whole: bool
    ) -> None:
        """Handle what a small read brought that nobody came with, behind what the intake took of it; what takes too long goes on in a turn.

        Where it is not whole, nothing behind it can be read, and the connection ends.
        """
        intake = self._dispatcher.intake
        is_taken = intake is not None and intake.count > 0
        if not (commands or is_taken) and is_whole:
            return
        self.lone_reads -= 1
        is_one = len(commands) == 1 and is_whole and not is_taken
        if is_one and self._dispatcher.handle_one(commands, peer):
            return
        self._is_cut = False
        self._ends = self._clock.monotonic() + SINGLE_SECONDS
        self._dispatcher.handle([(peer, commands)], self._is_over)
        if peer.end_share():
            self.join(peer, 0)
        elif self._is_over():
            self.lone_reads = 0  # The next one waits for its turn: others may be behind it.

    def cut(self) -> None:
        """End this turn early: connections were closed, and what they held is free only when the loop goes round."""
        self._is_cut = True

    def _is_over(self) -> bool:
        return self._is_cut or self._clock.monotonic() >= self._ends

    def kept(self, size: int) -> None:
        """Count bytes in again that wait for another share."""
        self.size += size

    def gone(self, size: int) -> None:
        """Count bytes out that wait no more."""
        self.size -= size
        assert self.size >= 0

    def _begin(self) -> None:
        """Work on what came, as long as the turn allows, and go on in the next one where something is left."""
        self.is_due = False
        self.ahead_size = AHEAD_SIZE_MAX
        try:
            self._work()
        finally:
            if (self.fresh or self._late) and not self.is_due:
                self.begin_soon()

    def _work(self) -> None:
        fresh, late = self.fresh, self._late
        self._is_cut = False
        if self.size <= SMALL_TURN and not late:
            if len(fresh) > 1:
                self._lone_turns = 0
            else:
                self._lone_turns += 1
                self.lone_reads = LONE_READS if self._lone_turns > LONE_TURNS else 0
            self._handle(fresh, COUNT_MAX)
            if not (fresh or late) or self._is_cut:  # Nearly always.
                return
        self._lone_turns = self.lone_reads = 0
        ends = self._clock.monotonic() + BUDGET_SECONDS
        # Who asks for much waits for who asks for little, and has a share of each turn.
        for waiting in (fresh, late):
            while waiting and self._step(waiting, ends) < ends and not self._is_cut:
                pass
            if self._is_cut:
                return

    def _step(self, waiting: "deque[Peer]", ends: float) -> float:
        """Handle as much together as may be done until `ends`; gives when it was done."""
        began = self._clock.monotonic()
        # Twice as many as last time at most: what a request takes is guessed from the last ones.
        # Near the end a little more: what came together stays together, for who sends it waits for all of it.
        left = max(ends - began, OVERTIME_SECONDS)
        count = min(int(left / self._pace), 2 * self._count, COUNT_MAX)
        handled = self._handle(waiting, max(count, SHARE_MIN))
        now = self._clock.monotonic()
        if handled:
            self._count = max(handled, self._count // 2, SHARE_MIN)
            self._pace = max((now - began) / handled, PACE_MIN)
        return now

    def _handle(self, waiting: "deque[Peer]", count_max: int) -> int:
        """Handle about so many requests together, in equal shares; gives their number."""
        self._is_cut = False
        reads, count = self._gather(waiting, count_max)
        if not reads:
            self._dispatcher.handle_taken()
            return count
        seconds = SINGLE_SECONDS_OF_MANY if self.fresh else SINGLE_SECONDS
        self._ends = self._clock.monotonic() + seconds
        self._dispatcher.handle(reads, self._is_over)
        for peer, _ in reads:
            if peer.end_share():
                self._late.append(peer)
        return count

    def _gather(self, waiting: "deque[Peer]", count_max: int) -> tuple[list[Read], int]:
        """Have the intake take what it can; gives the other requests, of those for whom more is to be done, and how many there are of both."""
        few = len(waiting) <= FEW
        # Where requests take long nobody has many of them before the others have one.
        least_share = SHARE_MIN if count_max == COUNT_MAX else 1
        share = count_max if few else max(count_max // len(waiting), least_share)
        reads: list[Read] = []
        count = decoded = 0
        least = self.size - SIZE_MAX
        intake = self._dispatcher.intake
        before = 0 if intake is None else intake.count
        taker = intake if waiting is self.fresh else None  # Of who sends alone.
        for _ in range(len(waiting)):
            if taker is not None and waiting and waiting[0].sends_alone:
                taker.take_reads(self, count_max - count, least)
                count = decoded + taker.count - before
            if not waiting or count >= count_max or self.size < least:
                break
            peer = waiting.popleft()
            commands = peer.next_requests(share)
            if commands:
                decoded += len(commands)
            total = decoded if intake is None else decoded + intake.count - before
            if commands is None:  # Nearly always.
                count = total
            elif total > count:
                reads.append((peer, commands))
                count = total
            elif peer.end_share():
                self._late.append(peer)
        return reads, count
