"""Pulls that found nothing and wait: woken by a message that passes their filter, or by time.

A queue is watched only while somebody waits there, so that dispatch does no work for the others.
Follows PullRequestHoldService of RocketMQ 5.3.3; there a message wakes every pull of its queue
through a thread, here within the turn of the loop that stored it.

Next: cometmq.broker.handlers.pull
"""

from collections.abc import Callable
from dataclasses import dataclass

from cometmq.codec.headers.pull import PullRequest
from cometmq.codec.remoting import Command
from cometmq.net.peer import Peer
from cometmq.store.consume_queue import ConsumeQueue

HELD_MAX = 100_000  # Each costs about 1 KB; beyond it a pull is answered at once.


@dataclass(frozen=True, slots=True, eq=False)
class HeldPull:
    """A pull that waits.

    Attributes:
        command: the request, without what its header said.
        request: what it said that matters.
        peer: who asked.
        codes: tag hashes that it wants, None for all.
        deadline: monotonic seconds at which it is answered in any case.
    """

    command: Command
    request: PullRequest
    peer: Peer
    codes: frozenset[int] | None
    deadline: float


class HeldPulls:
    """The pulls that wait, by queue."""

    def __init__(self) -> None:
        """`resume` must be set before the first pull is held."""
        self.resume: Callable[[HeldPull], None] = lambda _held: None
        self._held: dict[ConsumeQueue, list[HeldPull]] = {}
        self._watchers: dict[ConsumeQueue, Callable[[ConsumeQueue], None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def hold(self, queue: ConsumeQueue, pull: HeldPull) -> bool:
        """Let a pull wait; False when too many wait already."""
        if self._count >= HELD_MAX:
            return False
        self._held.setdefault(queue, []).append(pull)
        self._count += 1
        queue.watched = True
        return True

    def watch(self, queue: ConsumeQueue, told: Callable[[ConsumeQueue], None]) -> None:
        """Let someone else know of each arrival in a queue, too; one at a time."""
        self._watchers[queue] = told
        queue.watched = True

    def unwatch(self, queue: ConsumeQueue) -> None:
        """The end of that."""
        del self._watchers[queue]
        queue.watched = queue in self._held

    def arrived(self, queue: ConsumeQueue, tags_codes: list[int]) -> None:
        """Messages with these tags are visible in a watched queue (`MessageStore.on_arrival`)."""
        told = self._watchers.get(queue)
        if told is not None:
            told(queue)
        self.wake(
            queue,
            lambda pull: pull.codes is None or not pull.codes.isdisjoint(tags_codes),
        )

    def expire(self, now: float) -> None:
        """Answer those whose time is over; a queue that was deleted has nothing to wait for."""
        for queue in list(self._held):
            is_gone = queue.deleted

            def is_due(pull: HeldPull, *, is_gone: bool = is_gone) -> bool:
                return is_gone or pull.peer.is_closed or pull.deadline <= now

            self.wake(queue, is_due)

    def wake(self, queue: ConsumeQueue, is_due: Callable[[HeldPull], bool]) -> None:
        """Run those of a queue again that are due."""
        waiting = self._held.get(queue)
        if waiting is None:
            return
        due = [pull for pull in waiting if is_due(pull)]
        if not due:
            return
        left = [pull for pull in waiting if pull not in due] if len(due) < len(waiting) else []
        if left:
            self._held[queue] = left
        else:
            del self._held[queue]
            queue.watched = queue in self._watchers
        self._count -= len(due)
        for pull in due:
            if not pull.peer.is_closed:
                self.resume(pull)
