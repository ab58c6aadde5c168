"""QUERY_ASSIGNMENT 400, and the modes by 401 and 402: the broker shares queues out.

Clients of 5.x with clientRebalance=false ask which queues are theirs and whether they pull or pop
them. The queues are those of all brokers, so a nameserver is asked for the route; one that cannot be
asked leaves this broker's own. Follows QueryAssignmentProcessor of RocketMQ 5.3.3; modes are kept in
messageRequestMode.json.

Next: cometmq.model.shares
"""

import asyncio
import logging
from collections.abc import Callable

from cometmq.broker.parts import Feature, Parts
from cometmq.broker.saving import Saver
from cometmq.codec.bodies.assignment import (
    AVERAGELY,
    IN_CIRCLE,
    POP,
    PULL,
    Assignment,
    AssignmentQuery,
    RequestModeConfig,
    decode_assignment_query,
    decode_request_mode,
    decode_request_modes,
    encode_assignments,
    encode_request_modes,
)
from cometmq.codec.bodies.heartbeat import BROADCASTING
from cometmq.codec.bodies.route import decode_topic_route
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CodecError, NetError, RequestError
from cometmq.model.names import is_retry_topic
from cometmq.model.queue import MessageQueue
from cometmq.model.shares import allocate_averagely, allocate_for_pop, allocate_in_circle
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer

_log = logging.getLogger(__name__)

ROUTE_TIMEOUT_MS = 3_000
ROUTE_SECONDS = 5.0  # So long a route is believed; clients ask every 20 s, each for itself.
_ROUTES_MAX = 10_000
_STRATEGIES = {AVERAGELY: allocate_averagely, IN_CIRCLE: allocate_in_circle}


class Assignments(Feature):
    """Shares queues out."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._file = parts.config_file("messageRequestMode.json")
        self._modes: dict[tuple[str, str], RequestModeConfig] = {}
        self._saver = Saver(self._file, self._snapshot, parts.pool)
        self._routes: dict[str, tuple[float, list[MessageQueue]]] = {}
        self.answers = {
            RequestCode.QUERY_ASSIGNMENT: self.query,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self.set_mode,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self.all_modes,
        }

    async def start(self) -> None:
        """Read the modes.

        Raises:
            CodecError: their file means nothing.
        """
        self._modes = self._file.load(decode_request_modes) or {}

    async def close(self) -> None:
        """Bring the modes to disk."""
        await self._saver.close()

    async def query(self, command: Command, _peer: Peer) -> Answer:
        """Answer with the queues of a member."""
        query = decode_assignment_query(command.body)
        mode = self._mode_of(query)
        queues = await self._queues_of(query.topic)
        share = self._share(query, mode, queues) if queues else None
        if share is None:
            return Answer(body=encode_assignments(None))
        assignments = [Assignment(queue, mode.mode) for queue in share]
        return Answer(body=encode_assignments(assignments))

    async def set_mode(self, command: Command, _peer: Peer) -> Answer:
        """Keep how a group consumes a topic; answered when it is on disk."""
        config = decode_request_mode(command.body)
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
        await asyncio.shield(self._saver.save_soon())
        return Answer()

    def all_modes(self, _command: Command, _peer: Peer) -> Answer:
        """Give all modes, as a slave asks for them."""
        return Answer(body=encode_request_modes(self._modes, pretty=False).encode())

    # --- what a member gets

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
        """The queues of a member; None where nobody can say."""
        if query.model == BROADCASTING or not self._parts.settings.is_shared_by_broker:
            return queues
        group = self._parts.members.consumer_group(query.group)
        allocate = _STRATEGIES.get(query.strategy)
        if group is None or allocate is None:
            _log.warning("no assignment for %s: no such group or strategy", query)
            return None
        client_ids = group.client_ids()
        if mode.mode == POP:
            return allocate_for_pop(queues, client_ids, query.client_id, mode.share_queues)
        return allocate(queues, client_ids, query.client_id)

    # --- the queues of a topic

    async def _queues_of(self, topic: str) -> list[MessageQueue]:
        now = self._parts.clock.monotonic()
        known = self._routes.get(topic)
        if known is not None and now - known[0] < ROUTE_SECONDS:
            return known[1]
        queues = await self._ask(topic)
        if queues is None:
            return self._own_queues(topic)
        if len(self._routes) >= _ROUTES_MAX:
            self._routes.clear()
        self._routes[topic] = (now, queues)
        return queues

    async def _ask(self, topic: str) -> list[MessageQueue] | None:
        """What a nameserver says; None when none says anything."""
        request = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields={"topic": topic})
        for address in self._parts.settings.nameserver_addresses:
            try:
                answer = await self._parts.channels.call(
                    address, request, timeout_ms=ROUTE_TIMEOUT_MS
                )
                if answer.code == ResponseCode.SUCCESS:
                    return decode_topic_route(answer.body).read_queues(topic)
            except (NetError, CodecError) as error:
                _log.warning("the route of %s from %s: %s", topic, address, error)
        return None

    def _own_queues(self, topic: str) -> list[MessageQueue]:
        config = self._parts.topics.get(topic)
        name = self._parts.settings.broker_name
        count = 0 if config is None else config.read_queues
        return [MessageQueue(topic, name, queue_id) for queue_id in range(count)]

    def _snapshot(self) -> Callable[[], str]:
        text = encode_request_modes(self._modes)
        return lambda: text
