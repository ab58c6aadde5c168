"""Work on very many items in time slices: about 5 ms per loop iteration, the first slice at once."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from cometmq.model.clock import Clock

SLICE_SECONDS = 0.005

Item = TypeVar("Item")
CallSoon = Callable[[Callable[[], None]], None]


class SlicedWork(Generic[Item]):
    """A small task for each of many items, done in order and in time slices."""

    def __init__(
        self, clock: Clock, do: Callable[[Item], None], call_soon: CallSoon | None = None
    ) -> None:
        """`do` handles one item and must not fail; `call_soon` schedules the next slice, None: on the running loop."""
        self._clock = clock
        self._do = do
        self._call_soon = call_soon or _next_turn
        self._left: deque[Item] = deque()
        self._is_begun = False

    def __len__(self) -> int:
        return len(self._left)

    def add(self, items: Iterable[Item]) -> None:
        """Append items; if no work is in progress, the first slice is done at once."""
        self._left.extend(items)
        if not self._is_begun:
            self._slice()

    def _slice(self) -> None:
        left, now = self._left, self._clock.monotonic
        self._is_begun = True  # `do` may add more items.
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
