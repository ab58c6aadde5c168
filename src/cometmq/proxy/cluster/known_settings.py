"""Settings of topics and groups, as brokers have them: asked for once, and again in the background when they are old."""

import logging
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

from cometmq.model.clock import Clock
from cometmq.model.errors import CometError
from cometmq.net.tasks import Tasks

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

    def __init__(self, find: Callable[[str], Awaitable[T]], clock: Clock, tasks: Tasks) -> None:
        """`find` asks brokers for the settings of a name; `tasks` run that."""
        self._find = find
        self._clock = clock
        self._tasks = tasks
        self._known: dict[str, _KnownValue[T]] = {}
        self._asking: set[str] = set()

    def peek(self, name: str) -> T | None:
        """Return known settings, or None; old ones are asked for again in the background."""
        known = self._known.get(name)
        if known is None:
            return None
        if known.until < self._clock.monotonic() and name not in self._asking:
            self._asking.add(name)
            self._tasks.spawn(self._refresh(name, known.value), "settings")
        return known.value

    async def get(self, name: str) -> T:
        """Return settings, known or asked for now; raise the errors of `find`."""
        known = self.peek(name)
        if known is None:
            known = await self._find(name)
            self._put(name, known, FRESH_SECONDS)
        return known

    async def _refresh(self, name: str, known: T) -> None:
        seconds = _AGAIN_SECONDS
        try:
            known = await self._find(name)
            seconds = FRESH_SECONDS
        except CometError as error:
            _log.info("the settings of %s could not be asked for again: %s", name, error)
        finally:
            self._asking.discard(name)
        self._put(name, known, seconds)

    def _put(self, name: str, value: T, seconds: float) -> None:
        self._known.pop(name, None)
        self._known[name] = _KnownValue(value, self._clock.monotonic() + seconds)
        if len(self._known) > COUNT_MAX:
            del self._known[next(iter(self._known))]
