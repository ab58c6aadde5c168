"""Assigns queues to consumers on the broker, and keeps whether a group pulls or pops a topic.

Clients of 5.x with clientRebalance=false ask the broker for their queues and mode. The queues are those of all brokers,
so the route comes from a nameserver; if none returns it, only this broker's queues are assigned. Follows
QueryAssignmentProcessor of RocketMQ 5.3.3; modes are kept in messageRequestMode.json.
"""

import logging
from collections.abc import Callable, Mapping

from cometmq.broker.parts import Parts
from cometmq.broker.registration.nameserver_calls import AskNameservers, answer_of
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.broker.tables.logged_table import LoggedTable
from cometmq.broker.tables.saving import Saver, saved
from cometmq.codec.bodies.assignment import (
    AVERAGELY,
    IN_CIRCLE,
    POP,
    PULL,
    Assignment,
    AssignmentQuery,
    RequestModeConfig,
    decode_request_modes,
    encode_request_modes,
    request_mode,
    request_mode_json,
)
from cometmq.codec.bodies.consumer_offset import TOPIC_GROUP_SEPARATOR
from cometmq.codec.bodies.heartbeat import BROADCASTING
from cometmq.codec.bodies.route import decode_topic_route
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CodecError, NetError, RequestError
from cometmq.model.names import is_retry_topic
from cometmq.model.queue import MessageQueue
from cometmq.model.shares import allocate_averagely, allocate_for_pop, allocate_in_circle
from cometmq.steps.steps import Steps

_log = logging.getLogger(__name__)

ROUTE_SECONDS = 5.0  # How long a route is cached; each client asks every 20 s.
_ROUTES_MAX = 10_000
_STRATEGIES = {AVERAGELY: allocate_averagely, IN_CIRCLE: allocate_in_circle}


# Returns the queues of a topic on all brokers; None if unknown.
AskRoute = Callable[[str], Steps[list[MessageQueue] | None]]


class Assignments:
    """Computes the queues of members of consumer groups, and stores if a group pulls or pops a topic (request mode).

    Attributes:
        on_change: Called with the "topic@group" of each request mode that was set or forgotten.
    """

    def __init__(self, parts: Parts, ask_route: AskRoute) -> None:
        self._parts = parts
        self._ask_route = ask_route
        self._file = parts.config_file("messageRequestMode.json")
        self._modes: dict[tuple[str, str], RequestModeConfig] = {}
        self.on_change: list[Callable[[str], None]] = []
        self.saver = Saver(self._file, self._snapshot, parts.pool)
        self._routes: dict[str, tuple[float, list[MessageQueue]]] = {}

    def load(self) -> None:
        """Load the request modes from messageRequestMode.json; raises CodecError if only damaged copies exist."""
        self._modes = self._file.load(decode_request_modes) or {}

    def assign(self, query: AssignmentQuery) -> Steps[list[Assignment] | None]:
        """Return the queues of a group's member, each with pull or pop; None if unknown, so that it keeps those it has.

        For a broadcasting group, or if the settings leave the sharing to clients, these are all queues of the
        topic, but only this broker's if no nameserver returns a route.
        """
        mode = self._mode_of(query)
        queues = yield from self._queues_of(query.topic)
        share = self._share(query, mode, queues) if queues else None
        return None if share is None else [Assignment(queue, mode.mode) for queue in share]

    def set_mode(self, config: RequestModeConfig) -> Steps[None]:
        """Set whether a group pulls or pops a topic, and save that to disk.

        Raises:
            RequestError: The topic is a retry topic or does not exist, the group does not exist and cannot be
                created automatically, or the mode could not be written to disk.
        """
        if is_retry_topic(config.topic):
            raise RequestError(
                ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode"
            )
        if self._parts.topics.get(config.topic) is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{config.topic}] not exist")
        if self._parts.groups.get(config.group) is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group {config.group} does not exist",
            )
        self._modes[config.topic, config.group] = config
        self._changed(config.topic, config.group)
        yield from saved(self.saver.save_soon())

    def take(self, modes: Mapping[tuple[str, str], RequestModeConfig]) -> None:
        """Replace all request modes, for example by those of this slave's master."""
        if modes != self._modes:
            self._modes = dict(modes)
            self.saver.save_soon()

    def forget(self, is_gone: Callable[[str, str], bool]) -> None:
        """Forget the request modes and cached routes of deleted topics or groups; `is_gone` gets topic and group."""
        gone = [key for key in self._modes if is_gone(*key)]
        left = {key: mode for key, mode in self._modes.items() if key not in gone}
        for topic in [topic for topic in self._routes if is_gone(topic, "")]:
            del self._routes[topic]
        self.take(left)
        for key in gone:
            self._changed(*key)

    def _changed(self, topic: str, group: str) -> None:
        for note in self.on_change:
            note(topic + TOPIC_GROUP_SEPARATOR + group)

    def logged_table(self) -> LoggedTable:
        """Return the request modes as a table of a group that elects its leader."""

        def key_of(name: str) -> tuple[str, str]:
            topic, _, group = name.partition(TOPIC_GROUP_SEPARATOR)
            return topic, group

        def value(name: str) -> Mapping[str, object] | None:
            mode = self._modes.get(key_of(name))
            return None if mode is None else request_mode_json(mode)

        def apply(changes: Mapping[str, RequestModeConfig | None]) -> Steps[None]:
            new = {**self._modes, **{key_of(name): mode for name, mode in changes.items()}}
            self.take({key: mode for key, mode in new.items() if mode is not None})
            yield from ()

        return LoggedTable(
            "requestModes",
            lambda: [TOPIC_GROUP_SEPARATOR.join(key) for key in self._modes],
            value,
            request_mode,
            apply,
            self.on_change,
            self.saver,
        )

    def all_modes(self) -> Mapping[tuple[str, str], RequestModeConfig]:
        """Return all request modes, by (topic, group); not a copy."""
        return self._modes

    # --- the share of a member

    def _mode_of(self, query: AssignmentQuery) -> RequestModeConfig:
        found = self._modes.get((query.topic, query.group))
        if found is not None:
            return found
        settings = self._parts.settings
        mode = PULL if is_retry_topic(query.topic) else settings.request_mode.value
        return RequestModeConfig(
            query.topic, query.group, mode, settings.share_queues if mode == POP else 0
        )

    def _share(
        self, query: AssignmentQuery, mode: RequestModeConfig, queues: list[MessageQueue]
    ) -> list[MessageQueue] | None:
        if query.model == BROADCASTING or not self._parts.settings.is_shared_by_broker:
            return queues
        group = self._parts.members.consumer_group(query.group)
        allocate = _STRATEGIES.get(query.strategy)
        if group is None or allocate is None:
            _log.warning(
                "client %s gets no queues of topic %s: group %s has no members here, or strategy %s is unknown",
                query.client_id, query.topic, query.group, query.strategy,
            )  # fmt: skip
            return None
        client_ids = group.client_ids()
        if mode.mode == POP:
            return allocate_for_pop(queues, client_ids, query.client_id, mode.share_queues)
        return allocate(queues, client_ids, query.client_id)

    # --- the queues of a topic

    def _queues_of(self, topic: str) -> Steps[list[MessageQueue]]:
        now = self._parts.clock.monotonic()
        known = self._routes.get(topic)
        if known is not None and now - known[0] < ROUTE_SECONDS:
            return known[1]
        queues = yield from self._ask_route(topic)
        if queues is None:
            return self._own_queues(topic)
        if len(self._routes) >= _ROUTES_MAX:
            self._routes.clear()
        self._routes[topic] = (now, queues)
        return queues

    def _own_queues(self, topic: str) -> list[MessageQueue]:
        config = self._parts.topics.get(topic)
        name = self._parts.settings.broker_name
        count = 0 if config is None else config.read_queues
        return [MessageQueue(topic, name, queue_id) for queue_id in range(count)]

    def _snapshot(self) -> Callable[[], str]:
        text = encode_request_modes(self._modes)
        return lambda: text


ROUTE_TIMEOUT_MS = 3_000


class RouteLookup:
    """A lookup of routes that asks one nameserver after the other until one returns a route."""

    def __init__(self, settings: BrokerSettings, ask: AskNameservers) -> None:
        self._settings = settings
        self._ask = ask

    def read_queues(self, topic: str) -> Steps[list[MessageQueue] | None]:
        """Return a topic's queues of all brokers that can be consumed; None if no nameserver returns a route."""
        for address in self._settings.nameserver_addresses:
            try:
                answer = yield from answer_of(
                    self._ask,
                    address,
                    RequestCode.GET_ROUTEINFO_BY_TOPIC,
                    {"topic": topic},
                    timeout_ms=ROUTE_TIMEOUT_MS,
                )
                if answer.code == ResponseCode.SUCCESS:
                    return decode_topic_route(answer.body).read_queues(topic)
            except (NetError, CodecError) as error:
                _log.warning(
                    "no route of topic %s from nameserver %s: %s", topic, address, error
                )
        return None
