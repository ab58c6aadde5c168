"""The read batch (turn): handles mostly together what all connections received in one iteration of the loop.

Most clients send one request and wait, so most reads hold one request. Batching shares the cost of a write to the store
and its dispatch. A batch is limited in requests, bytes and time. The rest is handled in later iterations, with a
share for each connection; timers, new connections and new bytes are served in between (docs/design/0037). After several
batches with a single small read, the next reads are handled immediately.
"""

import asyncio
from collections import deque
from math import inf
from typing import TYPE_CHECKING

from cometmq.kernel import TurnReads
from cometmq.model.clock import Clock
from cometmq.net.dispatcher import Dispatcher
from cometmq.net.requests import Read

if TYPE_CHECKING:
    from cometmq.net.peer import Peer

# Bytes up to which a batch is handled without checking the time: 60 requests without a body.
SMALL_TURN = 16 << 10
# After LONE_TURNS consecutive batches with a single small read, handle the next LONE_READS reads immediately. Then
# check again whether other connections are active.
LONE_TURNS, LONE_READS = 4, 64
# Bytes of answers sent ahead of their batch per iteration; each answer also counts AHEAD_COST for its time.
AHEAD_SIZE_MAX, AHEAD_COST = 2 << 20, 32 << 10
# Time limit of a batch in seconds.
BUDGET_SECONDS = 0.012
# Seconds by which its last step may exceed it.
OVERTIME_SECONDS = 0.004
# Time limit in seconds for requests of single handlers, after which the rest of the step waits.
SINGLE_SECONDS = 0.004
# The same while other connections have not been served yet.
SINGLE_SECONDS_OF_MANY = 0.001
# Maximum of requests handled together. Larger numbers of decoded requests leave the processor's cache before they are
# stored (1,024 cost 1.3 times as much each).
COUNT_MAX = 256
# Minimum share of each connection if more than FEW wait.
SHARE_MIN, FEW = 16, 8
# Maximum bytes handled together; decoding a MiB of small requests takes 5 ms.
SIZE_MAX = 1 << 20
# Minimum assumed time per request in seconds.
PACE_MIN = 1e-6
# Bytes that may wait; any more are handled as they are read, however long it takes.
WAITING_BYTES_MAX = 16 << 20


class Turn(TurnReads["Peer"]):
    """The connections with unhandled bytes or requests, and the handling of these in batches.

    Attributes:
        ahead_size: Bytes of messages that may still be sent ahead of the next batch; an attempt costs AHEAD_COST more.
    """

    def __init__(self, dispatcher: Dispatcher, clock: Clock) -> None:
        super().__init__(WAITING_BYTES_MAX)
        self.ahead_size = AHEAD_SIZE_MAX
        self._lone_turns = 0
        self._dispatcher = dispatcher
        dispatcher.now = clock.monotonic
        self._clock = clock
        # Connections with requests left over; each batch serves a share of them.
        self._late: deque[Peer] = deque()
        self._is_cut = False
        self._to_flush: list[Peer] = []
        self._count, self._pace = SHARE_MIN, PACE_MIN

    def join(self, peer: "Peer") -> None:
        """Queue a peer with requests left over for the next batch, which is scheduled if none is."""
        self.lone_reads = 0
        self._late.append(peer)
        if not self.is_due:
            self.begin_soon()

    def begin_soon(self) -> None:
        """Schedule the read batch for the next loop iteration."""
        self.is_due = True
        asyncio.get_running_loop().call_soon(self._begin)

    def arrived(self, size: int) -> None:
        """Count bytes that follow unhandled ones of a connection; handle queued requests now if too many bytes wait."""
        self.size += size
        if self.size > WAITING_BYTES_MAX:
            self.work_off()

    def work_off(self) -> None:
        """Handle queued requests until the waiting bytes are within WAITING_BYTES_MAX, or none is queued."""
        while self.size > WAITING_BYTES_MAX and (self.fresh or self._late):
            self._step(self.fresh or self._late, self._clock.monotonic() + BUDGET_SECONDS)

    def answer_ahead(self, data: bytes, peer: "Peer") -> bool:
        """Answer a read before the batch if the fast path can and `ahead_size` is left; return False if it did not."""
        intake = self._dispatcher.intake
        if intake is None or self.ahead_size <= 0:
            return False
        size = intake.answer_ahead(data, peer.write_at_once)
        self.ahead_size -= size + AHEAD_COST
        return size > 0

    def flush_soon(self, peer: "Peer") -> None:
        """Schedule a flush of a peer, which collects what it writes, for the start of the next loop iteration."""
        if not self._to_flush:
            asyncio.get_running_loop().call_soon(self._flush)
        self._to_flush.append(peer)

    def _flush(self) -> None:
        peers, self._to_flush = self._to_flush, []
        for peer in peers:
            peer.flush()

    def take_alone(self) -> None:
        """Handle the read that just came, as recent batches had one each.

        Large reads, and the rest of slow ones, are left to a batch.
        """
        self.lone_reads -= 1
        if self.size > SMALL_TURN:
            self.lone_reads = 0
            if not self.is_due:
                self.begin_soon()
            return
        intake = self._dispatcher.intake
        if intake is not None and self.fresh[0].sends_alone:
            intake.take_reads(self, 1, 0)
            if not self.fresh:
                self._dispatcher.handle_taken()
                return
        peer = self.fresh.pop()
        commands = peer.next_requests(COUNT_MAX)
        if commands is None:
            self._dispatcher.handle_taken()
            return
        is_one = len(commands) == 1 and not (intake is not None and intake.count)
        if not (is_one and self._dispatcher.handle_one(commands, peer)):
            self._is_cut = False
            self._handle_reads([(peer, commands)], SINGLE_SECONDS)
            if self._clock.monotonic() >= self._dispatcher.ends:
                self.lone_reads = 0  # Others may wait meanwhile.
        if peer.end_share():
            self.join(peer)

    def cut(self) -> None:
        """End the running batch early: connections were closed, whose memory is freed only in the next iteration."""
        self._is_cut, self._dispatcher.ends = True, -inf

    def kept(self, size: int) -> None:
        """Count bytes that wait to be handled in a later batch."""
        self.size += size

    def gone(self, size: int) -> None:
        """Subtract bytes that no longer wait to be handled."""
        self.size -= size
        assert self.size >= 0

    def _begin(self) -> None:
        """Handle waiting requests of all connections for about BUDGET_SECONDS; schedule another batch for the rest."""
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
        # Connections with many requests are served after those with few, and get a share of each batch.
        for waiting in (fresh, late):
            while waiting and self._step(waiting, ends) < ends and not self._is_cut:
                pass
            if self._is_cut:
                return

    def _step(self, waiting: "deque[Peer]", ends: float) -> float:
        """Handle a group of requests, which may take until about `ends`; return the monotonic time afterwards.

        It has at most about as many requests as fit into that time, or 4 ms if less is left; 16 are always allowed.
        """
        began = self._clock.monotonic()
        # At most twice as many as last time, because the time per request is an estimate. Exceed the limit slightly at
        # the end to keep requests together that came together, as their senders wait for all of them.
        left = max(ends - began, OVERTIME_SECONDS)
        count = min(int(left / self._pace), 2 * self._count, COUNT_MAX)
        handled = self._handle(waiting, max(count, SHARE_MIN))
        now = self._clock.monotonic()
        if handled:
            self._count = max(handled, self._count // 2, SHARE_MIN)
            self._pace = max((now - began) / handled, PACE_MIN)
        return now

    def _handle(self, waiting: "deque[Peer]", count_max: int) -> int:
        """Handle up to about `count_max` requests together, in shares; return their number, counting those put back."""
        self._is_cut = False
        reads, count = self._gather(waiting, count_max)
        if not reads:
            self._dispatcher.handle_taken()
            return count
        seconds = SINGLE_SECONDS_OF_MANY if self.fresh else SINGLE_SECONDS
        self._handle_reads(reads, seconds)
        for peer, _ in reads:
            if peer.end_share():
                self._late.append(peer)
        return count

    def _handle_reads(self, reads: list[Read], seconds: float) -> None:
        """Handle reads; after `seconds`, or a `cut`, put requests without a batch handler back for a later batch."""
        self._dispatcher.ends = -inf if self._is_cut else self._clock.monotonic() + seconds
        self._dispatcher.handle(reads)

    def _gather(self, waiting: "deque[Peer]", count_max: int) -> tuple[list[Read], int]:
        """Offer waiting requests to the fast path; return the others by connection, and about the number of both."""
        few = len(waiting) <= FEW
        # If requests are slow, no connection gets many before the others get one.
        least_share = SHARE_MIN if count_max == COUNT_MAX else 1
        share = count_max if few else max(count_max // len(waiting), least_share)
        reads: list[Read] = []
        count = decoded = 0
        least = self.size - SIZE_MAX
        intake = self._dispatcher.intake
        before = 0 if intake is None else intake.count
        taker = intake if waiting is self.fresh else None  # For peers that send alone.
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
