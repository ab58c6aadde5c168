"""Pops and notification requests that wait for messages; they are tried again roughly in order of arrival.

If one that may pop from any queue, but not in order, finds nothing, later ones of its topic and group are usually not
tried until the next event. A pop waits for a topic and a group; meanwhile queues of the topic and of its retry topics are
watched. When a message arrives, pops are tried from the next iteration of the loop on: a pop writes a check point, which
is not allowed during dispatch. A state machine (docs/design/0044) without I/O of its own. Follows PopLongPollingService of
RocketMQ 5.3.3.
"""

import math
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import IntEnum, auto
from functools import partial
from typing import Any

from cometmq.broker.loop.caller import Caller
from cometmq.broker.loop.sliced_work import SlicedWork
from cometmq.broker.parts import Parts
from cometmq.model.names import pop_retry_topic
from cometmq.steps.peer_bounds import PeerBounds
from cometmq.steps.steps import Steps
from cometmq.store.consume_queue import ConsumeQueue

# Limits of waiting pops: number and bytes per connection (a client waits once per queue or topic), bytes of all, and the bytes
# that a pop counts in addition to its expression.
PEER_WAITING_MAX = 4_096
PEER_SIZE_MAX = 8 << 20
SIZE_MAX = 64 << 20
_SIZE = 1_200
_RUN_SECONDS = 0.005  # Time limit per loop iteration.
_SWEEP_SECONDS = 1.0  # Time between checks for closed connections and deleted topics.

Key = tuple[str, str]  # Topic, group.


class HeldState(IntEnum):
    """The state of a pop that waits or has waited: WAITING, TRIED (an attempt runs), READING (that waits), or ANSWERED."""

    WAITING = auto()  # For an arrival, or for its deadline.
    TRIED = auto()  # Its attempt runs now.
    READING = auto()  # Its attempt reads from the disk, or waits for its turn.
    ANSWERED = auto()


@dataclass(slots=True, eq=False)
class HeldPop:
    """A pop or notification request that waits for messages.

    Attributes:
        queue_id: The requested queue; -1 for any.
        deadline: Monotonic seconds from which on it is answered if it still waits.
        attempt: Tries again: returns the answer, None if there is still nothing, or steps that return either.
        late: Returns the answer for when the deadline has passed, or the broker closes.
        is_ordered: Whether it pops in order, so that it may wait for a queue that time alone unlocks.
        text_size: Estimated bytes of its expression and of its tag hashes.
        is_unfinished: Whether its last attempt found nothing but did not examine all messages.
        is_woken: Whether `wake` was called during its attempt, which may have missed new messages.
    """

    key: Key
    queue_id: int
    caller: Caller[Any]
    deadline: float
    attempt: Callable[[], Any]
    late: Callable[[], Any]
    is_ordered: bool = False
    text_size: int = 0
    is_unfinished: bool = False
    is_woken: bool = False
    state: HeldState = HeldState.WAITING


class PopLongPolls:
    """All waiting pops and notification requests of a broker.

    Attributes:
        on_hold: Called when a pop begins to wait, also again, because its deadline needs a timer.
    """

    def __init__(self, parts: Parts) -> None:
        self._settings = parts.settings
        self._polls = parts.polls
        self._store = parts.store
        self._topics = parts.topics
        self._clock = parts.clock
        self._call_soon = parts.world.call_soon
        self._bounds = PeerBounds(
            peer_count_max=PEER_WAITING_MAX, peer_size_max=PEER_SIZE_MAX, size_max=SIZE_MAX
        )
        self._late = SlicedWork(parts.clock, _answer_late, self._call_soon)
        self._waiters: dict[Key, deque[HeldPop]] = {}
        self._tried: dict[Key, set[HeldPop]] = {}
        self._watched: dict[ConsumeQueue, set[Key]] = {}
        self._queues: dict[Key, set[ConsumeQueue]] = {}
        self._woken: dict[Key, None] = {}
        self._ordered: set[Key] = set()
        # Earliest deadline of a waiting pop.
        self._due = math.inf
        self._swept = 0.0
        self._count = 0
        self.on_hold: Callable[[], None] = lambda: None
        self._is_closed = False

    def __len__(self) -> int:
        return self._count

    def count(self, key: Key, queue_id: int) -> int:
        """Return how many pops and notifications of a topic and group wait for just this queue; -1: for any queue."""
        return sum(waiter.queue_id == queue_id for waiter in self._waiters.get(key, ()))

    def is_full(self, key: Key) -> bool:
        """Return whether a new pop may not wait for this topic and group, because too many wait already."""
        settings = self._settings
        here = len(self._waiters.get(key, ()))
        return self._count >= settings.polling_total_max or here > settings.polling_max

    def hold(self, waiter: HeldPop) -> bool:
        """Let a pop wait; return False if its connection has too many, or waiting pops would take too much memory."""
        if not self._bounds.take(waiter.caller.owner, _SIZE + waiter.text_size):
            return False
        self._hold(waiter, is_first=False)
        return True

    def _hold(self, waiter: HeldPop, *, is_first: bool) -> None:
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
        self.on_hold()

    def wake(self, key: Key) -> None:
        """Schedule another attempt for waiting pops of a topic and group, from the next iteration of the loop on."""
        for waiter in self._tried.get(key, ()):
            waiter.is_woken = True
        self._run_soon(key)

    def forget(self, is_gone: Callable[[str, str], bool]) -> None:
        """Try the waiting pops of deleted topics or groups again; `is_gone` gets topic and group."""
        for key in [key for key in self._waiters if is_gone(*key)]:
            self.wake(key)

    def close(self) -> None:
        """Answer the pops that wait as if their time had passed, maybe over several loop iterations."""
        self._is_closed = True
        self._due = -math.inf
        self.expire(math.inf)

    def _run_soon(self, key: Key) -> None:
        if key in self._waiters:
            if not self._woken:
                self._call_soon(self._run_woken)
            self._woken[key] = None

    def wake_ordered(self) -> None:
        """Schedule attempts for topics and groups with waiting pops in order, whose queues time may have unlocked."""
        for key in self._ordered:
            self.wake(key)

    def pause_seconds(self, now: float) -> float:
        """Return the seconds until `wake_ordered` or `expire` has work, 0 or less for now; infinite if no pop waits."""
        if self._ordered or not self._waiters:
            return 0.0 if self._ordered else math.inf
        return min(self._due, self._swept + _SWEEP_SECONDS) - now

    def expire(self, now: float) -> None:
        """Answer pops whose deadline has passed, forget those of closed connections, and wake those of deleted topics.

        Usually does nothing if no deadline has passed and the last call that did something is less than 1 s ago.
        """
        if now < self._due and now < self._swept + _SWEEP_SECONDS:
            return
        self._swept, self._due = now, math.inf
        for key in list(self._waiters):
            waiters = self._waiters[key]
            if self._topics.get(key[0]) is None:
                self.wake(key)  # The attempt of a pop reports that the topic is gone.
            left = deque(
                waiter
                for waiter in waiters
                if not waiter.caller.is_gone and waiter.deadline > now
            )
            self._due = min(self._due, *(waiter.deadline for waiter in left), math.inf)
            if len(left) == len(waiters):
                continue
            self._count -= len(waiters) - len(left)
            self._keep(key, left)
            gone = [
                waiter for waiter in waiters if waiter.caller.is_gone or waiter.deadline <= now
            ]
            for waiter in gone:
                self._release(waiter)
            self._late.add(gone)

    def _release(self, waiter: HeldPop) -> None:
        self._bounds.give_back(waiter.caller.owner, _SIZE + waiter.text_size)

    # --- running

    def _run_woken(self) -> None:
        until = self._clock.monotonic() + _RUN_SECONDS
        woken, self._woken = self._woken, {}
        while woken and self._clock.monotonic() < until:
            key = next(iter(woken))
            del woken[key]
            self._run(key, until)
        for key in woken:  # In the next iteration of the loop.
            self._run_soon(key)

    def _run(self, key: Key, until: float) -> None:
        waiters = self._waiters.get(key)
        for _ in range(len(waiters or ())):
            assert waiters is not None
            if self._clock.monotonic() > until:
                self._run_soon(key)
                break
            waiter = waiters.popleft()
            self._count -= 1
            if waiter.caller.is_gone:
                self._release(waiter)
                continue
            self._try_again(waiter)
            if waiter.state is HeldState.WAITING:
                waiters.appendleft(waiter)
                self._count += 1
                if waiter.is_unfinished:
                    self._run_soon(key)
                if not waiter.is_ordered and waiter.queue_id < 0:
                    break  # Other pops of this group would find nothing either.
                waiters.rotate(-1)  # Others may want another queue.
        self._keep(key, waiters or deque())

    def _try_again(self, waiter: HeldPop) -> None:
        # Default, because an error is an answer, too.
        waiter.state = HeldState.ANSWERED
        waiter.caller.answer(partial(self._attempt, waiter))
        if waiter.state is HeldState.TRIED:
            waiter.state = HeldState.READING
            self._tried.setdefault(waiter.key, set()).add(waiter)
        elif waiter.state is HeldState.ANSWERED:
            self._release(waiter)

    def _attempt(self, waiter: HeldPop) -> Steps[Any]:
        waiter.state, waiter.is_woken = HeldState.TRIED, False
        ends = HeldState.ANSWERED
        try:
            found = waiter.attempt()
            if isinstance(found, Generator):
                found = yield from found
            if found is None and self._is_closed:
                found = waiter.late()
            if found is None:
                ends = HeldState.WAITING
        finally:
            was_reading = waiter.state is HeldState.READING
            waiter.state = ends
            if was_reading:
                self._end_reading(waiter)
        return found

    def _end_reading(self, waiter: HeldPop) -> None:
        """Let a pop wait again, or release its quota, after an attempt that did not end at once."""
        if waiter.state is HeldState.WAITING:
            self._hold(waiter, is_first=True)
            if waiter.is_unfinished or waiter.is_woken:
                self._run_soon(waiter.key)
        else:
            self._release(waiter)
        tried = self._tried[waiter.key]
        tried.remove(waiter)
        if not tried:
            del self._tried[waiter.key]
            self._unwatch(waiter.key)

    # --- watching

    def _keep(self, key: Key, waiters: deque[HeldPop]) -> None:
        if waiters:
            self._waiters[key] = waiters
            self._watch(key)
            return
        self._waiters.pop(key, None)
        self._ordered.discard(key)
        self._unwatch(key)

    def _unwatch(self, key: Key) -> None:
        """Stop watching queues for a key (topic and group), unless a pop of it waits or may do so again."""
        if key in self._waiters or key in self._tried:
            return
        for queue in self._queues.pop(key, ()):
            keys = self._watched[queue]
            keys.discard(key)
            if not keys:
                del self._watched[queue]
                self._polls.unwatch(queue, self._arrived)

    def _watch(self, key: Key) -> None:
        """Watch the queues that a topic and its retry topics have now, for a key (topic and group)."""
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
    if not waiter.caller.is_gone:
        waiter.caller.answer(waiter.late)
