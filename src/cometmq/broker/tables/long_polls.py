"""Held pulls (long polling): they wait for a message that may pass their filter, or for their deadline.

A queue is watched only while a pull waits for it, or another caller wants its arrivals (`watch`). Arrivals and time are
the input (docs/design/0044). A pull that is due is run again, unless its connection is closed. Follows
PullRequestHoldService of RocketMQ 5.3.3, where a thread wakes the pulls; here the event loop does.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cometmq.broker.loop.caller import Caller
from cometmq.broker.loop.sliced_work import CallSoon, SlicedWork
from cometmq.codec.headers.pull import PullRequest
from cometmq.model.clock import Clock
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.steps.peer_bounds import PeerBounds
from cometmq.store.consume_queue import ConsumeQueue

HELD_MAX = 100_000  # Each costs about `_SIZE` bytes, plus its expression and its tags.
_SIZE, _SIZE_A_TAG = 500, 80
# A client has one pull per queue at a time.
PEER_HELD_MAX = 4_096
PEER_SIZE_MAX = 8 << 20
SIZE_MAX = 48 << 20


@dataclass(frozen=True, slots=True, eq=False)
class HeldPull:
    """A pull that waits.

    Attributes:
        caller: The client that is to be answered.
        codes: The hashes of tags whose messages wake it; None: any message does.
        deadline: Monotonic seconds after which it is run again in any case, unless its client has disconnected.
        run_again: Runs the pull again.
    """

    request: PullRequest
    caller: Caller[Any]
    codes: frozenset[int] | None
    deadline: float
    run_again: Callable[["HeldPull"], None]

    @property
    def size(self) -> int:
        """Estimated size of the held pull in bytes, without subscriptions from heartbeats, which its group holds."""
        text = self.request.subscription
        if text is None:
            return _SIZE
        return _SIZE + len(text) + _SIZE_A_TAG * len(self.codes or ())


class LongPolls:
    """The held pulls, by queue.

    Attributes:
        on_due: Called with a deadline (monotonic seconds) if it is the earliest yet; `expire` must be called then.
        refused: Number of pulls that were refused because too many were held, or they took too much memory.
    """

    def __init__(self, clock: Clock, call_soon: CallSoon | None = None) -> None:
        """`call_soon` schedules a call for the next iteration of the loop; None: that of the running loop."""
        self._bounds = PeerBounds(
            peer_count_max=PEER_HELD_MAX, peer_size_max=PEER_SIZE_MAX, size_max=SIZE_MAX
        )
        self._due = SlicedWork(clock, self._run_again, call_soon)
        self._expiring = SlicedWork(clock, self._expire_queue, call_soon)
        self._now = 0.0
        # Earliest deadline; may be that of a pull that was woken since.
        self._first_due = math.inf
        self.on_due: Callable[[float], None] = lambda _: None
        self.refused = 0
        self._held: dict[ConsumeQueue, list[HeldPull]] = {}
        self._watchers: dict[ConsumeQueue, list[Callable[[ConsumeQueue], None]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def hold(self, queue: ConsumeQueue, pull: HeldPull) -> None:
        """Hold a pull until a message that it may want arrives, its deadline passes, or it is woken for another reason.

        Raises:
            RequestError: SYSTEM_BUSY: too many pulls wait, or they take too much memory.
        """
        if not self.try_hold(queue, pull):
            self.refused += 1
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                "[REJECTREQUEST]system busy: too many pulls of this connection, or of all connections, wait for messages; "
                "pull again later",
            )

    def try_hold(self, queue: ConsumeQueue, pull: HeldPull) -> bool:
        """Hold a pull as `hold` does, but return False instead of raising an error."""
        if self._count >= HELD_MAX or not self._bounds.take(pull.caller.owner, pull.size):
            return False
        self._held.setdefault(queue, []).append(pull)
        self._count += 1
        queue.watched = True
        self._is_due_at(pull.deadline)
        return True

    def watch(self, queue: ConsumeQueue, on_arrival: Callable[[ConsumeQueue], None]) -> None:
        """From now on call `on_arrival` with a queue each time messages arrive in it."""
        self._watchers.setdefault(queue, []).append(on_arrival)
        queue.watched = True

    def unwatch(self, queue: ConsumeQueue, on_arrival: Callable[[ConsumeQueue], None]) -> None:
        """Stop calling `on_arrival` for a queue."""
        watchers = self._watchers.get(queue)
        if watchers is None:  # All watchers were forgotten.
            return
        watchers.remove(on_arrival)
        if not watchers:
            del self._watchers[queue]
            queue.watched = queue in self._held

    def forget_watchers(self) -> None:
        """Stop all calls for arrivals; pulls that are held stay."""
        for queue in self._watchers:
            queue.watched = queue in self._held
        self._watchers.clear()

    def arrived(self, queue: ConsumeQueue, tags_codes: list[int]) -> None:
        """Call a queue's watchers, and run its held pulls again that want all messages or one of these tag hashes."""
        for on_arrival in self._watchers.get(queue, ()):
            on_arrival(queue)
        self._wake(
            queue,
            lambda pull: pull.codes is None or not pull.codes.isdisjoint(tags_codes),
        )

    def wake_group(self, queue: ConsumeQueue, group: str) -> None:
        """Run the held pulls of a group in a queue again, for example because its offset was reset."""
        self._wake(queue, lambda pull: pull.request.consumer_group == group)

    def forget_topic(self, topic: str) -> None:
        """Run the held pulls of a deleted topic again, so that they are refused; drop those whose connection is closed."""
        for queue in [queue for queue in self._held if queue.topic == topic]:
            self._wake(queue, lambda _: True)

    def forget_group(self, group: str) -> None:
        """Run the held pulls of a deleted group again; drop those whose connection is closed."""
        for queue in list(self._held):
            self.wake_group(queue, group)

    def expire(self, now: float) -> None:
        """Run pulls again whose deadline has passed or whose queue was deleted; drop those whose connection is closed.

        Does nothing while an earlier call, which may take several iterations of the loop, is still in progress.
        """
        if not len(self._expiring):  # Otherwise the last pass is still in progress.
            self._now, self._first_due = now, math.inf
            self._expiring.add(list(self._held))

    def _expire_queue(self, queue: ConsumeQueue) -> None:
        now, is_gone = self._now, queue.deleted
        self._wake(queue, lambda pull: is_gone or pull.caller.is_gone or pull.deadline <= now)
        left = self._held.get(queue)
        if left is not None:
            self._is_due_at(min(pull.deadline for pull in left))

    def _is_due_at(self, deadline: float) -> None:
        if deadline < self._first_due:
            self._first_due = deadline
            self.on_due(deadline)

    def _wake(self, queue: ConsumeQueue, is_due: Callable[[HeldPull], bool]) -> None:
        waiting = self._held.get(queue)
        if waiting is None:
            return
        due: list[HeldPull] = []
        left: list[HeldPull] = []
        for pull in waiting:
            (due if is_due(pull) else left).append(pull)
        if not due:
            return
        if left:
            self._held[queue] = left
        else:
            del self._held[queue]
            queue.watched = queue in self._watchers
        self._due.add(due)

    def _run_again(self, pull: HeldPull) -> None:
        self._count -= 1
        assert self._count >= 0, "each pull that waits is woken once"
        self._bounds.give_back(pull.caller.owner, pull.size)
        if not pull.caller.is_gone:
            pull.run_again(pull)
