"""Work on very many items in time slices: some milliseconds in each turn of the loop, the first at once."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from cometmq.model.clock import Clock

SLICE_SECONDS = 0.005

Item = TypeVar("Item")
CallSoon = Callable[[Callable[[], None]], None]


class SlicedWork(Generic[Item]):
    """One small thing to be done for each of many items, in order, a slice of time at once."""

    def __init__(
        self, clock: Clock, do: Callable[[Item], None], call_soon: CallSoon | None = None
    ) -> None:
        """`do` does it for one, and must not fail; `call_soon`: in the next turn, None: of the running loop."""
        self._clock = clock
        self._do = do
        self._call_soon = call_soon or _next_turn
        self._left: deque[Item] = deque()
        self._is_begun = False

    def __len__(self) -> int:
        """The number of items that are left."""
        return len(self._left)

    def add(self, items: Iterable[Item]) -> None:
        """Put items behind all that are left."""
        self._left.extend(items)
        if not self._is_begun:
            self._slice()

    def _slice(self) -> None:
        left, now = self._left, self._clock.monotonic
        self._is_begun = True  # What is done may add more.
        until = now() + SLICE_SECONDS
        while left:
            self._do(left.popleft())
            if now() > until:
                break
        self._is_begun = bool(left)
        if left:
            self._call_soon(self._slice)


def _next_turn(callback: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(callback)
