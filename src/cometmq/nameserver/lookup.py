"""Queries on the route table of a nameserver: routes, clusters, lists of topics. Mostly follows RouteInfoManager."""

from dataclasses import replace

from cometmq.codec.bodies.cluster import ClusterInfo
from cometmq.codec.bodies.topic_list import TopicList
from cometmq.model.flags import is_writable
from cometmq.model.route import MASTER_ID, BrokerData, TopicRoute
from cometmq.nameserver.routes import BrokerKey, RouteTable

# Brokers observe each other through this topic, so its route names the actual members.
_MEMBER_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"


def find_route(
    table: RouteTable, topic: str, *, supports_acting_master: bool = False
) -> TopicRoute | None:
    """Return the route of a topic without its order configuration, or None if no registered broker group has it.

    With `supports_acting_master`, the route names the slave with the smallest id as master if a broker group has no
    master, has enabled that, and the topic is not writable there; but not for topics through which members observe each other.
    """
    queues = table.queues_of(topic)
    brokers = [table.groups[name] for name in queues if name in table.groups]
    if not brokers:
        return None
    if supports_acting_master and not topic.startswith(_MEMBER_TOPIC_PREFIX):
        brokers = [
            _with_acting_master(broker, perm=queues[broker.broker_name].perm)
            for broker in brokers
        ]
    servers = {
        address: list(live.filter_servers)
        for broker in brokers
        for address in broker.addresses.values()
        if (live := table.live.get(BrokerKey(broker.cluster, address))) and live.filter_servers
    }
    return TopicRoute(
        queues=tuple(queues.values()),
        brokers=tuple(brokers),
        filter_servers=servers,
        queue_mappings=table.mappings.get(topic),
    )


def _with_acting_master(broker: BrokerData, *, perm: int) -> BrokerData:
    """Return a broker group, its slave of least id as master if it has none, allows that, and `perm` has no write."""
    if (
        MASTER_ID in broker.addresses
        or not broker.is_acting_master_enabled
        or is_writable(perm)
    ):
        return broker
    addresses = dict(broker.addresses)
    addresses[MASTER_ID] = addresses.pop(min(addresses))
    return replace(broker, addresses=addresses)


def in_zone(route: TopicRoute, zone_name: str) -> TopicRoute:
    """Return a route with only the broker groups of a zone or without a master, and their queues (ZoneRouteRPCHook)."""
    near = [
        broker
        for broker in route.brokers
        if MASTER_ID not in broker.addresses
        or (broker.zone_name or "").lower() == zone_name.lower()
    ]
    names = {broker.broker_name for broker in near}
    return replace(
        route,
        brokers=tuple(near),
        queues=tuple(data for data in route.queues if data.broker_name in names),
    )


def cluster_info(table: RouteTable) -> ClusterInfo:
    """Return all clusters with their broker groups, and the addresses of the groups."""
    return ClusterInfo(
        brokers=dict(table.groups),
        broker_names={
            cluster: tuple(sorted(names)) for cluster, names in table.clusters.items()
        },
    )


def member_group(table: RouteTable, cluster: str, broker_name: str) -> BrokerData:
    """Return the registered members of a broker group, in whatever cluster; an unknown group has no addresses."""
    group = table.groups.get(broker_name)
    return BrokerData(cluster, broker_name, dict(group.addresses) if group else {})


def topics_of_cluster(table: RouteTable, cluster: str) -> TopicList:
    """Return the names of the topics of a cluster's brokers; none if the cluster is unknown."""
    names = table.clusters.get(cluster, set())
    return TopicList(
        tuple(topic for topic, queues in table.topics.items() if names & set(queues))
    )


def topics_with_flag(table: RouteTable, *, wanted: int, unwanted: int = 0) -> TopicList:
    """Return the topics whose sysFlag on their first broker has all bits of `wanted` and none of `unwanted`."""
    topics = []
    for topic in table.topic_names():
        queues = table.queues_of(topic)
        # A topic has the same flag on all brokers; RocketMQ uses the first broker, too.
        flag = next(iter(queues.values())).sys_flag
        if flag & wanted == wanted and not flag & unwanted:
            topics.append(topic)
    return TopicList(tuple(topics))


def system_topics(table: RouteTable) -> TopicList:
    """Return the names of clusters and broker groups, which are system topics, and the address of a broker, if any."""
    names = dict.fromkeys(table.clusters)
    names.update(dict.fromkeys(table.groups))
    first = next(iter(table.groups.values()), None)
    return TopicList(tuple(names), first.master_or_any() if first else None)
