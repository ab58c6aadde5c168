"""Handlers for requests of clients and tools: routes, clusters, missing brokers, and lists of topics.

Codes 105, 106, 206, 224, 304, 311, 312, 313, and 30003 of CometMQ.
"""

from collections.abc import Callable

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
from cometmq.model.route import TopicRoute
from cometmq.model.settings import SettingsInForce
from cometmq.nameserver import lookup
from cometmq.nameserver.kv import KvConfig
from cometmq.nameserver.routes import RouteTable
from cometmq.nameserver.settings import NameServerSettings
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers
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
            RequestCode.GET_BROKER_CLUSTER_INFO: self.handle_clusters,
            RequestCode.GET_MISSING_BROKERS: self.handle_missing,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self.handle_all_topics,
            RequestCode.GET_TOPICS_BY_CLUSTER: self.handle_cluster_topics,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self.handle_system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: self.handle_unit_topics,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self.handle_unit_sub_topics,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self.handle_unit_sub_only_topics,
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
            route = self._with_order(route, header.topic)
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

    def _with_order(self, route: TopicRoute, topic: str) -> TopicRoute:
        order = self._kv.value(ORDER_NAMESPACE, topic)
        return TopicRoute(
            route.queues, route.brokers, order, route.filter_servers, route.queue_mappings
        )

    def handle_clusters(self, _command: Command, _peer: Peer) -> Answer:
        """Return all clusters and brokers that are registered (GET_BROKER_CLUSTER_INFO 106)."""
        return Answer(body=encode_cluster_info(lookup.cluster_info(self._table)))

    def handle_missing(self, _command: Command, _peer: Peer) -> Steps[Answer]:
        """Return the missing brokers, and those that recently claimed another's name and id (GET_MISSING_BROKERS)."""
        return self._missing.result()

    def _find_missing(self) -> Steps[Answer]:
        while self._table.leaving:  # The sweep goes on in each loop iteration.
            yield from turn_end()
        table = self._table
        rivals = table.rivals.known(self._clock.monotonic())
        return Answer(body=encode_missing_brokers(table.missing_brokers(), rivals))

    def handle_all_topics(self, _command: Command, _peer: Peer) -> Answer:
        """Return the names of all topics, if enableAllTopicList is true (GET_ALL_TOPIC_LIST_FROM_NAMESERVER 206)."""
        if not self._settings.current.is_all_topic_list_enabled:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, "disable: enableAllTopicList is false"
            )
        return _topics(TopicList(tuple(self._table.topic_names())))

    def handle_cluster_topics(self, command: Command, _peer: Peer) -> Answer:
        """Return the names of a cluster's topics, if enableTopicList is true (GET_TOPICS_BY_CLUSTER 224)."""
        header = decode_fields(ClusterRequest, command.fields)
        return self._listed(lambda: lookup.topics_of_cluster(self._table, header.cluster))

    def handle_system_topics(self, _command: Command, _peer: Peer) -> Answer:
        """Return the system topics named after clusters and broker groups (GET_SYSTEM_TOPIC_LIST_FROM_NS 304)."""
        return _topics(lookup.system_topics(self._table))

    def handle_unit_topics(self, _command: Command, _peer: Peer) -> Answer:
        """Return the names of unit topics, if enableTopicList is true (GET_UNIT_TOPIC_LIST 311)."""
        return self._listed(lambda: lookup.topics_with_flag(self._table, wanted=TOPIC_UNIT))

    def handle_unit_sub_topics(self, _command: Command, _peer: Peer) -> Answer:
        """Return topics with unit subscriptions, if enableTopicList is true (GET_HAS_UNIT_SUB_TOPIC_LIST 312)."""
        return self._listed(lambda: lookup.topics_with_flag(self._table, wanted=TOPIC_UNIT_SUB))

    def handle_unit_sub_only_topics(self, _command: Command, _peer: Peer) -> Answer:
        """Return the non-unit topics with unit subscriptions, if enableTopicList is true (request code 313)."""
        return self._listed(
            lambda: lookup.topics_with_flag(
                self._table, wanted=TOPIC_UNIT_SUB, unwanted=TOPIC_UNIT
            )
        )

    def _listed(self, find: Callable[[], TopicList]) -> Answer:
        if not self._settings.current.is_topic_list_enabled:
            raise RequestError(ResponseCode.SYSTEM_ERROR, "disable: enableTopicList is false")
        return _topics(find())


def _topics(found: TopicList) -> Answer:
    return Answer(body=encode_topic_list(found.topics, broker_address=found.broker_address))
