"""Finds the new master of a broker group soon after the known one has failed, instead of at the next poll of routes.

Code that sees a master fail (a lost connection, a request without an answer, a refusal of a broker that is no master)
calls `doubt`. During the search, the route is fetched again after pauses that grow, so that many clients do not flood a
nameserver.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

from cometmq.client.connection.route_fetcher import RouteFetcher
from cometmq.client.connection.routes import TopicRoutes
from cometmq.model.clock import Clock
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import BrokerNotFound, BrokerRefused, CometError, NetError
from cometmq.net.tasks import Tasks

# Between two fetches of a route, doubled from the first to the last, seconds.
_PAUSE_SECONDS = 0.02
_PAUSE_SECONDS_MAX = 0.5
# How long the route is fetched after the last doubt, seconds.
_SEARCH_SECONDS = 2.0
# Answers of a broker that is not the master, or not any more.
NOT_MASTER_CODES = (ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SLAVE_NOT_AVAILABLE)
# Those of one that is asked for messages; a slave that serves no reads answers SYSTEM_BUSY, in RocketMQ, too.
_NOT_READ = (*NOT_MASTER_CODES, ResponseCode.SYSTEM_BUSY)


OnMoved = Callable[[str, str | None], None]


class _Doubt:
    """A search for a new master: until when it goes on at most (monotonic seconds), and whether it has ended."""

    __slots__ = ("ended", "until")

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.until = 0.0


class MasterSearch:
    """The searches for masters of one client, one at a time for each broker group.

    Attributes:
        on_moved: Called with a broker's name and the address that its master had, None if unknown, when it has another one.
    """

    def __init__(
        self,
        routes: TopicRoutes,
        fetcher: RouteFetcher,
        clock: Clock,
        chance: random.Random,
    ) -> None:
        self._routes = routes
        self._fetcher = fetcher
        self._clock = clock
        self._chance = chance
        self.on_moved: list[OnMoved] = []
        self._searches: dict[str, _Doubt] = {}
        self._tasks = Tasks("search for masters")

    def doubt(self, broker_name: str) -> None:
        """Search for a broker group's new master in the background, until one is found, at most 2 s after the last call.

        Does nothing for a broker that is in no topic's known route.
        """
        search = self._searches.get(broker_name)
        if search is None:
            if self._routes.topic_of(broker_name) is None:
                return
            search = self._searches[broker_name] = _Doubt()
            self._tasks.spawn(self._look(broker_name, search), broker_name)
        search.until = self._clock.monotonic() + _SEARCH_SECONDS

    def doubt_at(self, address: str, error: CometError | None = None) -> None:
        """Call `doubt` for the broker groups whose known master has an address; not if an error shows that it serves.

        Any error shows that, except a NetError or the refusal of a broker that is no master.
        """
        if isinstance(error, BrokerRefused):
            if error.code not in NOT_MASTER_CODES:
                return
        elif error is not None and not isinstance(error, NetError):
            return
        for name, known in self._routes.masters.items():
            if known == address:
                self.doubt(name)

    async def pause(self, broker_name: str, seconds: float, error: Exception) -> None:
        """Wait `seconds` before a broker group is asked again, or less if a search for its new master ends before.

        Starts this search if the error may mean that another member is the master.
        """
        is_refused = isinstance(error, BrokerRefused) and error.code in _NOT_READ
        if is_refused or isinstance(error, NetError | BrokerNotFound):
            self.doubt(broker_name)
        search = self._searches.get(broker_name)
        if search is None:
            await asyncio.sleep(seconds)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await search.ended.wait()

    async def _look(self, broker_name: str, search: _Doubt) -> None:
        before = self._routes.masters.get(broker_name)
        pause = _PAUSE_SECONDS
        try:
            while self._clock.monotonic() < search.until:
                topic = self._routes.topic_of(broker_name)
                if topic is None:
                    return
                with suppress(CometError):
                    await self._fetcher.fetch(topic)
                found = self._routes.masters.get(broker_name)
                if found is not None and found != before:
                    for moved in list(self.on_moved):
                        moved(broker_name, before)
                    return
                # Half of the pause is random, so that many clients of a lost master do not ask together.
                await asyncio.sleep(pause * (0.5 + self._chance.random() / 2))
                pause = min(2 * pause, _PAUSE_SECONDS_MAX)
        finally:
            del self._searches[broker_name]
            search.ended.set()

    async def close(self) -> None:
        """Stop all searches."""
        await self._tasks.close()
