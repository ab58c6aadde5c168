"""Simulated time, network and clocks. One seed decides everything, and a run prints the same trace for the same seed."""

import hashlib
import heapq
from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(slots=True)
class NetworkFaults:
    """What the network does to messages.

    Attributes:
        loss: Share of messages that are lost.
        repeat: Share that arrives twice.
        slow: Share that takes up to `slow_ms`.
        slow_ms: Longest delay of those in ms; the others take at most 3.
    """

    loss: float = 0.0
    repeat: float = 0.0
    slow: float = 0.0
    slow_ms: float = 300.0


class Trace:
    """All that happened in a run, as a hash."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=8)

    def note(self, ms: float, *what: object) -> None:
        """Add an event at a simulated time."""
        self._hash.update(f"{ms:.3f} {what}\n".encode())

    def __str__(self) -> str:
        return self._hash.hexdigest()


class World:
    """The events of a run in the order of simulated time.

    Attributes:
        now: Simulated time in ms.
        chance: The only source of randomness.
        faults: What the network does.
        cuts: Pairs of sender and receiver between which nothing passes.
        trace: All that was noted.
    """

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.chance = Random(seed)
        self.faults = NetworkFaults()
        self.cuts: set[tuple[str, str]] = set()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self.trace = Trace()

    def after(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Call `action` in so many ms."""
        self._number += 1
        heapq.heappush(self._events, (self.now + delay_ms, self._number, action))

    def run(self, until_ms: float) -> None:
        """Handle all events up to a time."""
        while self._events and self._events[0][0] <= until_ms:
            self.now, _, action = heapq.heappop(self._events)
            action()
        self.now = until_ms

    def note(self, *what: object) -> None:
        """Add an event to the trace."""
        self.trace.note(self.now, *what)

    def send(self, sender: str, receiver: str, deliver: Callable[[], None]) -> None:
        """Deliver a message, or lose, repeat or delay it."""
        chance, faults = self.chance, self.faults
        if (sender, receiver) in self.cuts or chance.random() < faults.loss:
            return
        for _ in range(2 if chance.random() < faults.repeat else 1):
            is_slow = chance.random() < faults.slow
            self.after(chance.uniform(0.1, faults.slow_ms if is_slow else 3.0), deliver)


@dataclass(slots=True)
class Clock:
    """A member's clock that goes on while the member is suspended, at a speed of its own.

    Attributes:
        world: Gives the true time.
        rate: Its speed; 1 is true.
        offset: Its time at the true time 0, in ms.
    """

    world: World
    rate: float = 1.0
    offset: float = 0.0

    def now(self) -> int:
        """Return its time in ms."""
        return int(self.world.now * self.rate + self.offset)

    def true_delay(self, until: int) -> float:
        """Return the true time in ms until it shows `until`."""
        return max((until - self.world.now * self.rate - self.offset) / self.rate, 0) + 0.01
