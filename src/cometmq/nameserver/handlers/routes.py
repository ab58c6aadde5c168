"""Handlers for requests of clients and tools: routes, clusters, missing brokers, and lists of topics.

Codes 105, 106, 206, 224, 304, 311, 312, 313, and 30003 of CometMQ.
"""

from dataclasses import replace

from cometmq.codec.bodies.cluster import encode_cluster_info
from cometmq.codec.bodies.missing_brokers import encode_missing_brokers
from cometmq.codec.bodies.route import encode_topic_route
from cometmq.codec.bodies.topic_list import TopicList, encode_topic_list
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.nameserver import ClusterRequest, RouteRequest
from cometmq.codec.remoting import Command
from cometmq.model.clock import Clock
from cometmq.model.codes import VERSION_STANDARD_JSON, RequestCode, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.flags import TOPIC_UNIT, TOPIC_UNIT_SUB
from cometmq.model.names import ORDER_NAMESPACE
from cometmq.model.settings import SettingsInForce
from cometmq.nameserver import lookup
from cometmq.nameserver.kv import KvConfig
from cometmq.nameserver.routes import RouteTable
from cometmq.nameserver.settings import NameServerSettings
from cometmq.net.answer import Answer
from cometmq.net.answering import body_of, by_code, by_fields
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers, Handler
from cometmq.steps.runner import World
from cometmq.steps.shared import SharedSteps
from cometmq.steps.steps import Steps, turn_end

# MixAll.ZONE_MODE and ZONE_NAME, additional header fields.
_ZONE_MODE = "__ZONE_MODE"
_ZONE_NAME = "__ZONE_NAME"


class RouteHandlers:
    """Handlers of the requests by which clients and tools read the nameserver's routes, brokers and topic names."""

    def __init__(
        self,
        table: RouteTable,
        kv: KvConfig,
        settings: SettingsInForce[NameServerSettings],
        clock: Clock,
        world: World,
    ) -> None:
        """Set the sources of the answers; `world` (event loop) runs the search for missing brokers."""
        self._table = table
        self._kv = kv
        self._settings = settings
        self._clock = clock
        self._started = clock.monotonic()
        self._missing = SharedSteps(world, self._find_missing)
        self.answers: Answers = {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.handle_route,
            RequestCode.GET_BROKER_CLUSTER_INFO: by_code(
                lambda: lookup.cluster_info(table), body_of(encode_cluster_info)
            ),
            RequestCode.GET_MISSING_BROKERS: by_code(self._missing.result, body_of(bytes)),
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: by_code(self._all_topics, _topics),
            RequestCode.GET_TOPICS_BY_CLUSTER: by_fields(
                ClusterRequest, self._cluster_topics, _topics
            ),
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: by_code(
                lambda: lookup.system_topics(table), _topics
            ),
            RequestCode.GET_UNIT_TOPIC_LIST: self._flagged(wanted=TOPIC_UNIT),
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self._flagged(wanted=TOPIC_UNIT_SUB),
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self._flagged(
                wanted=TOPIC_UNIT_SUB, unwanted=TOPIC_UNIT
            ),
        }

    def handle_route(self, command: Command, _peer: Peer) -> Answer:
        """Return a topic's route (GET_ROUTEINFO_BY_TOPIC); RequestError without one, or while needWaitForService waits."""
        header = decode_fields(RouteRequest, command.fields)
        settings = self._settings.current
        if left := self.seconds_to_wait():
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"name server not ready: it waits {left:.0f} s more for brokers to register",
            )
        route = lookup.find_route(
            self._table,
            header.topic,
            supports_acting_master=settings.is_acting_master_supported,
        )
        if route is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST,
                f"No topic route info in name server for the topic: {header.topic}; create it, or "
                "check whether its brokers are registered at this nameserver",
            )
        if settings.is_order_message_enabled:
            order = self._kv.value(ORDER_NAMESPACE, header.topic)
            route = replace(route, order_config=order)
        if (
            command.fields.get(_ZONE_MODE, "").lower() == "true"
            and _ZONE_NAME in command.fields
        ):
            route = lookup.in_zone(route, command.fields[_ZONE_NAME])
        is_standard = (
            command.version >= VERSION_STANDARD_JSON or header.accept_standard_json_only is True
        )
        return Answer(body=encode_topic_route(route, is_standard=is_standard))

    def seconds_to_wait(self) -> float:
        """Return for how many seconds routes are still refused because brokers are expected to register; 0 if not."""
        settings = self._settings.current
        if not settings.waits_for_brokers:
            return 0.0
        return max(self._started + settings.wait_seconds - self._clock.monotonic(), 0.0)

    def _find_missing(self) -> Steps[bytes]:
        """Return the missing brokers, and those that recently claimed another's name and id."""
        while self._table.leaving:  # The sweep goes on in each loop iteration.
            yield from turn_end()
        table = self._table
        rivals = table.rivals.known(self._clock.monotonic())
        return encode_missing_brokers(table.missing_brokers(), rivals)

    def _all_topics(self) -> TopicList:
        if not self._settings.current.is_all_topic_list_enabled:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, "disable: enableAllTopicList is false"
            )
        return TopicList(tuple(self._table.topic_names()))

    def _cluster_topics(self, request: ClusterRequest) -> TopicList:
        self._check_listed()
        return lookup.topics_of_cluster(self._table, request.cluster)

    def _flagged(self, *, wanted: int, unwanted: int = 0) -> Handler:
        """Return the handler of a request for the topics whose sysFlag has some bits and lacks others."""

        def find() -> TopicList:
            self._check_listed()
            return lookup.topics_with_flag(self._table, wanted=wanted, unwanted=unwanted)

        return by_code(find, _topics)

    def _check_listed(self) -> None:
        if not self._settings.current.is_topic_list_enabled:
            raise RequestError(ResponseCode.SYSTEM_ERROR, "disable: enableTopicList is false")


def _topics(found: TopicList) -> Answer:
    return Answer(body=encode_topic_list(found.topics, broker_address=found.broker_address))
