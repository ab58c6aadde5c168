"""Asks the nameserver for the routes of topics and keeps them: those who want one at the same moment share a request."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from cometmq.client.api.nameserver import NameserverApi
from cometmq.client.connection.routes import (
    KnownTopic,
    TopicRoutes,
    inherited_route,
    known_topic,
)
from cometmq.model.errors import TopicNotFound
from cometmq.model.names import DEFAULT_TOPIC
from cometmq.net.tasks import shared

_log = logging.getLogger(__name__)

_QUEUES_AT_ONCE = 4096  # Of a topic, worked out in a turn of the loop.


class RouteFetcher:
    """Fetches routes into a client's table of them.

    Args:
        routes: the table.
        api: who is asked.
        on_new: called when a route is there that was not.
    """

    def __init__(
        self, routes: TopicRoutes, api: NameserverApi, on_new: Callable[[], None]
    ) -> None:
        self._routes = routes
        self._api = api
        self._on_new = on_new
        self._asking: dict[tuple[str, int], asyncio.Task[KnownTopic]] = {}

    async def fetch(self, topic: str) -> KnownTopic:
        """The route of a topic as the nameserver has it now.

        Raises:
            TopicNotFound: it has no route.
            NetError, BrokerRefused, CodecError: the nameservers cannot be asked.
        """
        return await self._share((topic, 0), lambda: self._fetch(topic))

    async def fetch_to_send(self, topic: str, default_queues: int) -> KnownTopic:
        """The route of a topic for a sender: one that does not exist takes the default topic's route.

        Raises:
            TopicNotFound: neither exists.
            NetError, BrokerRefused, CodecError: as `fetch`.
        """
        return await self._share(
            (topic, default_queues), lambda: self._fetch_to_send(topic, default_queues)
        )

    def close(self) -> None:
        """Cancel what is asked for."""
        for asking in list(self._asking.values()):
            asking.cancel()

    async def _share(
        self, key: tuple[str, int], fetch: Callable[[], Coroutine[Any, Any, KnownTopic]]
    ) -> KnownTopic:
        # Many may want a topic at the same moment, at start above all.
        asking = self._asking.get(key)
        if asking is None:
            asking = asyncio.get_running_loop().create_task(fetch())
            self._asking[key] = asking
            asking.add_done_callback(lambda task: self._asked(key, task))
        return await shared(asking)

    def _asked(self, key: tuple[str, int], task: "asyncio.Task[KnownTopic]") -> None:
        self._asking.pop(key, None)
        # Those who asked may all have given up; then nobody else looks at the error.
        _ = task.cancelled() or task.exception()

    async def _fetch_to_send(self, topic: str, default_queues: int) -> KnownTopic:
        try:
            return await self._fetch(topic)
        except TopicNotFound as not_found:
            try:
                default = await self._api.route(DEFAULT_TOPIC)
            except TopicNotFound:
                raise not_found from None
        route = inherited_route(default, queues_max=default_queues)
        self._routes.put(topic, route, is_inherited=True)
        self._on_new()
        return self._known(topic)

    async def _fetch(self, topic: str) -> KnownTopic:
        route = await self._api.route(topic)
        if self._routes.is_new(topic, route):
            _log.debug("route of %s: %s", topic, route)
            if route.queue_count() <= _QUEUES_AT_ONCE:
                self._routes.put(topic, route)
            else:  # Beside the loop: 65,536 queues take 0.2 s.
                self._routes.put_known(
                    topic, await asyncio.to_thread(known_topic, topic, route)
                )
            self._on_new()
        return self._known(topic)

    def _known(self, topic: str) -> KnownTopic:
        known = self._routes.get(topic)
        assert known is not None, "just put there"
        return known
