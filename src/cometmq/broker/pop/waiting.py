"""Pops that found nothing and wait: woken in the order in which they came, until one finds nothing.

They wait for a topic and a group, and the topic's queues are watched while they do. What wakes them
only makes a note; they run in the next turn of the loop, because a pop writes a check point, which it
must not do in the middle of the dispatch that woke it. Follows PopLongPollingService of RocketMQ 5.3.3.

Next: cometmq.broker.pop.popping
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from cometmq.broker.in_steps import InSteps
from cometmq.broker.parts import Parts
from cometmq.broker.peer_bounds import PeerBounds
from cometmq.codec.remoting import Command
from cometmq.model.names import pop_retry_topic
from cometmq.net.answer import Answer, answer_to_error
from cometmq.net.peer import Peer
from cometmq.store.consume_queue import ConsumeQueue

# Of one connection: a client waits once for each queue, or for each topic. Bytes, each one's size beside its expression.
PEER_WAITING_MAX = 4_096
PEER_SIZE_MAX = 8 << 20
SIZE_MAX = 64 << 20
_SIZE = 1_200
_RUN_SECONDS = 0.005  # In a turn of the loop.
_SWEEP_SECONDS = 1.0  # Between looks for closed connections and deleted topics.

Key = tuple[str, str]  # Topic, group.
Attempt = Callable[[], Answer | Awaitable[Answer | None] | None]


@dataclass(slots=True, eq=False)
class HeldPop:
    """A pop, or a question whether there is something to pop, that waits for messages.

    Attributes:
        key: topic and group.
        queue_id: that it asked for, -1 for any.
        command: the request.
        peer: who asked.
        deadline: monotonic seconds at which it is answered in any case.
        attempt: its answer, None when there is still nothing, or work that gives one of these.
        late: its answer when its time is over.
        is_ordered: whether time alone may open what it waits for.
        text_size: bytes of its expression and of the hashes of its tags.
        is_unfinished: its last attempt found nothing and did not look at everything.
    """

    key: Key
    queue_id: int
    command: Command
    peer: Peer
    deadline: float
    attempt: Attempt
    late: Callable[[], Answer]
    is_ordered: bool = False
    text_size: int = 0
    is_unfinished: bool = False


class PopLongPolls:
    """The pops of a broker that wait for messages."""

    def __init__(self, parts: Parts) -> None:
        self._settings = parts.settings
        self._polls = parts.polls
        self._store = parts.store
        self._topics = parts.topics
        self._clock = parts.clock
        self._bounds = PeerBounds(
            peer_count_max=PEER_WAITING_MAX, peer_size_max=PEER_SIZE_MAX, size_max=SIZE_MAX
        )
        self._late = InSteps(parts.clock, _answer_late)
        self._waiters: dict[Key, deque[HeldPop]] = {}
        self._watched: dict[ConsumeQueue, set[Key]] = {}
        self._queues: dict[Key, set[ConsumeQueue]] = {}
        self._woken: dict[Key, None] = {}
        self._ordered: set[Key] = set()
        # When the next one is due, at the earliest; the others are looked at then.
        self._due = math.inf
        self._swept = 0.0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def count(self, key: Key, queue_id: int) -> int:
        """How many wait for a queue."""
        return sum(waiter.queue_id == queue_id for waiter in self._waiters.get(key, ()))

    def is_full(self, key: Key) -> bool:
        """Whether no more may wait there."""
        settings = self._settings
        here = len(self._waiters.get(key, ()))
        return self._count >= settings.polling_total_max or here > settings.polling_max

    def hold(self, waiter: HeldPop) -> bool:
        """Let one wait; False when too many of its connection do."""
        if not self._bounds.take(waiter.peer, _SIZE + waiter.text_size):
            return False
        self._hold(waiter, is_first=False)
        return True

    def _hold(self, waiter: HeldPop, *, is_first: bool) -> None:
        """Let one wait, or wait on."""
        waiters = self._waiters.setdefault(waiter.key, deque())
        if is_first:
            waiters.appendleft(waiter)
        else:
            waiters.append(waiter)
        self._count += 1
        self._due = min(self._due, waiter.deadline)
        if waiter.is_ordered:
            self._ordered.add(waiter.key)
        self._watch(waiter.key)

    def wake(self, key: Key) -> None:
        """There may be something for a topic and a group: look in the next turn of the loop."""
        if key in self._waiters:
            if not self._woken:
                asyncio.get_running_loop().call_soon(self._run_woken)
            self._woken[key] = None

    def wake_ordered(self) -> None:
        """Look for those who wait for a queue that may be open again by now."""
        for key in self._ordered:
            self.wake(key)

    def expire(self, now: float) -> None:
        """Answer those whose time is over, and forget those whose connection is closed."""
        if now < self._due and now < self._swept + _SWEEP_SECONDS:
            return
        self._swept, self._due = now, math.inf
        for key in list(self._waiters):
            waiters = self._waiters[key]
            if self._topics.get(key[0]) is None:
                self.wake(key)  # Its attempt says that the topic is gone.
            left = deque(
                waiter
                for waiter in waiters
                if not waiter.peer.is_closed and waiter.deadline > now
            )
            self._due = min(self._due, *(waiter.deadline for waiter in left), math.inf)
            if len(left) == len(waiters):
                continue
            self._count -= len(waiters) - len(left)
            self._keep(key, left)
            gone = [
                waiter for waiter in waiters if waiter.peer.is_closed or waiter.deadline <= now
            ]
            for waiter in gone:
                self._release(waiter)
            self._late.add(gone)

    def _release(self, waiter: HeldPop) -> None:
        """It waits no more."""
        self._bounds.give_back(waiter.peer, _SIZE + waiter.text_size)

    # --- running

    def _run_woken(self) -> None:
        until = self._clock.monotonic() + _RUN_SECONDS
        woken, self._woken = self._woken, {}
        while woken and self._clock.monotonic() < until:
            key = next(iter(woken))
            del woken[key]
            self._run(key, until)
        for key in woken:  # In the next turn.
            self.wake(key)

    def _run(self, key: Key, until: float) -> None:
        waiters = self._waiters.get(key)
        for _ in range(len(waiters or ())):
            assert waiters is not None
            if self._clock.monotonic() > until:
                self.wake(key)
                break
            waiter = waiters.popleft()
            self._count -= 1
            if waiter.peer.is_closed:
                self._release(waiter)
                continue
            answer = self._attempt(waiter)
            if answer is None:
                waiters.appendleft(waiter)
                self._count += 1
                if waiter.is_unfinished:
                    self.wake(key)
                if not waiter.is_ordered and waiter.queue_id < 0:
                    break  # The others of this group would find nothing either.
                waiters.rotate(-1)  # Others may ask for another queue.
        self._keep(key, waiters or deque())

    def _attempt(self, waiter: HeldPop) -> Answer | bool | None:
        """The answer that was given, True for one that is being worked on, None for none."""
        try:
            found = waiter.attempt()
        except Exception as error:  # noqa: BLE001  As net.dispatcher.run_handler does.
            found = answer_to_error(error, waiter.command)
        if found is None:
            return None
        if isinstance(found, Answer):
            self._release(waiter)
            waiter.peer.answer(waiter.command, found)
        else:
            task = waiter.peer.tasks.spawn(self._attempt_later(waiter, found), "pop")
            task.add_done_callback(partial(self._cancelled, waiter))
        return True

    def _cancelled(self, waiter: HeldPop, work: "asyncio.Task[None]") -> None:
        """Its connection closed in the middle of an attempt, if that was cancelled."""
        if work.cancelled():
            self._release(waiter)

    async def _attempt_later(self, waiter: HeldPop, work: Awaitable[Answer | None]) -> None:
        try:
            found = await work
        except Exception as error:  # noqa: BLE001  As net.dispatcher.run_handler does.
            found = answer_to_error(error, waiter.command)
        if found is not None:
            self._release(waiter)
            waiter.peer.answer(waiter.command, found)
            return
        self._hold(waiter, is_first=True)
        if waiter.is_unfinished:
            self.wake(waiter.key)

    # --- watching

    def _keep(self, key: Key, waiters: deque[HeldPop]) -> None:
        if waiters:
            self._waiters[key] = waiters
            self._watch(key)
            return
        self._waiters.pop(key, None)
        self._ordered.discard(key)
        for queue in self._queues.pop(key, ()):
            keys = self._watched[queue]
            keys.discard(key)
            if not keys:
                del self._watched[queue]
                self._polls.unwatch(queue)

    def _watch(self, key: Key) -> None:
        """Watch the queues of a topic and its retry topics, those that have come since, too."""
        topic, group = key
        known = self._queues.setdefault(key, set())
        for name in (
            topic, pop_retry_topic(topic, group), pop_retry_topic(topic, group, is_v2=True),
        ):  # fmt: skip
            config = self._topics.get(name)
            for queue_id in range(config.read_queues if config is not None else 0):
                queue = self._store.queue_to_watch(name, queue_id)
                if queue not in known:
                    known.add(queue)
                    self._watched.setdefault(queue, set()).add(key)
                    self._polls.watch(queue, self._arrived)

    def _arrived(self, queue: ConsumeQueue) -> None:
        for key in self._watched.get(queue, ()):
            self.wake(key)


def _answer_late(waiter: HeldPop) -> None:
    if not waiter.peer.is_closed:
        waiter.peer.answer(waiter.command, waiter.late())
