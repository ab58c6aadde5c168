"""Fetches routes from a nameserver and stores them; concurrent equal calls share a request."""

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
from cometmq.model.text import plural
from cometmq.net.tasks import shared

_log = logging.getLogger(__name__)

_QUEUES_AT_ONCE = (
    4096  # Queues of a topic that are listed on the event loop; more are listed in a thread.
)


class RouteFetcher:
    """Fetches routes into a client's route table, and calls `on_new` after it has stored one."""

    def __init__(
        self, routes: TopicRoutes, api: NameserverApi, on_new: Callable[[], None]
    ) -> None:
        self._routes = routes
        self._api = api
        self._on_new = on_new
        self._asking: dict[tuple[str, int], asyncio.Task[KnownTopic]] = {}

    async def fetch(self, topic: str) -> KnownTopic:
        """Fetch the current route of a topic from a nameserver, store it if it is new or changed, and return it.

        The first nameserver that answers decides. Raises TopicNotFound if it has no route, BrokerRefused or CodecError
        if it refuses or its route is invalid, NetError if none answers, and ClientClosed.
        """
        return await self._share((topic, 0), lambda: self._fetch(topic))

    async def fetch_to_send(self, topic: str, default_queues: int) -> KnownTopic:
        """Fetch and store the route for sending to a topic; if it has none, derive one from the default topic (TBW102).

        Raises TopicNotFound if neither topic has a route, and the other errors of `fetch`.
        """
        return await self._share(
            (topic, default_queues), lambda: self._fetch_to_send(topic, default_queues)
        )

    def close(self) -> None:
        """Cancel the requests in progress; their callers get ClientClosed."""
        for asking in list(self._asking.values()):
            asking.cancel()

    async def _share(
        self, key: tuple[str, int], fetch: Callable[[], Coroutine[Any, Any, KnownTopic]]
    ) -> KnownTopic:
        # Many callers may want a topic at the same time, especially at the start.
        asking = self._asking.get(key)
        if asking is None:
            asking = asyncio.get_running_loop().create_task(fetch())
            self._asking[key] = asking
            asking.add_done_callback(lambda task: self._asked(key, task))
        return await shared(asking)

    def _asked(self, key: tuple[str, int], task: "asyncio.Task[KnownTopic]") -> None:
        self._asking.pop(key, None)
        # If all callers were cancelled, no one else retrieves the error.
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
            count = route.queue_count()
            _log.debug("new route of topic %s: %d %s", topic, count, plural(count, "queue"))
            if route.queue_count() <= _QUEUES_AT_ONCE:
                self._routes.put(topic, route)
            else:  # In a thread: 65,536 queues take 0.2 s.
                self._routes.put_known(
                    topic, await asyncio.to_thread(known_topic, topic, route)
                )
            self._on_new()
        else:
            self._routes.confirm(topic)
        return self._known(topic)

    def _known(self, topic: str) -> KnownTopic:
        known = self._routes.get(topic)
        assert known is not None, "just put there"
        return known
