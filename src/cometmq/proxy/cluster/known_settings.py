"""Settings of topics and groups, as brokers have them: asked for once, and again in the background when they are old."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from cometmq.model.clock import Clock
from cometmq.net.tasks import shared
from cometmq.proxy.v2.statuses import ProxyRefusal

_log = logging.getLogger(__name__)

T = TypeVar("T")

# After this time a value is asked for again; if no broker answers, it stays, and is asked for again a little later. As
# topicConfigCacheRefreshSeconds and subscriptionGroupConfigCacheRefreshSeconds of RocketMQ's proxy.
FRESH_SECONDS = 20.0
_AGAIN_SECONDS = 5.0
COUNT_MAX = 20_000


class _KnownValue(NamedTuple, Generic[T]):
    """A value, and until when it is fresh, monotonic seconds."""

    value: T
    until: float


class KnownSettings(Generic[T]):
    """Settings by name; at most 20,000, the last ones that were added."""

    def __init__(self, find: Callable[[str], Coroutine[Any, Any, T]], clock: Clock) -> None:
        """`find` asks brokers for the settings of a name; ProxyRefusal means that there are none."""
        self._find = find
        self._clock = clock
        self._known: dict[str, _KnownValue[T]] = {}
        self._asking: dict[str, asyncio.Task[T]] = {}

    def peek(self, name: str) -> T | None:
        """Return known settings, or None; old ones are asked for again in the background."""
        known = self._known.get(name)
        if known is None:
            return None
        if known.until < self._clock.monotonic() and name not in self._asking:
            self._ask(name)
        return known.value

    async def get(self, name: str) -> T:
        """Return settings, known or asked for now, for all callers together; raise the errors of `find`."""
        known = self.peek(name)
        return (
            await shared(self._asking.get(name) or self._ask(name)) if known is None else known
        )

    def _ask(self, name: str) -> asyncio.Task[T]:
        asking = self._asking[name] = asyncio.get_running_loop().create_task(self._find(name))
        asking.add_done_callback(partial(self._asked, name))
        return asking

    def _asked(self, name: str, asking: asyncio.Task[T]) -> None:
        del self._asking[name]
        known = self._known.get(name)
        if asking.cancelled():
            return
        if (error := asking.exception()) is None:
            self._put(name, asking.result(), FRESH_SECONDS)
        elif isinstance(error, ProxyRefusal):  # There are none.
            self._known.pop(name, None)
        elif known is not None:
            _log.info("the settings of %s could not be asked for again: %s", name, error)
            self._put(name, known.value, _AGAIN_SECONDS)

    def _put(self, name: str, value: T, seconds: float) -> None:
        self._known.pop(name, None)
        self._known[name] = _KnownValue(value, self._clock.monotonic() + seconds)
        if len(self._known) > COUNT_MAX:
            del self._known[next(iter(self._known))]
