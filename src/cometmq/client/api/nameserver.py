"""Requests to nameservers: routes, clusters, topics, missing brokers, write permission, key-value configuration."""

from cometmq.client.answer_bodies import OWN_SIZE_MAX, read_body
from cometmq.client.api.asking import read_fields
from cometmq.client.connection.nameservers import Nameservers
from cometmq.client.connection.routes import check_route
from cometmq.codec.bodies.cluster import ClusterInfo, decode_cluster_info
from cometmq.codec.bodies.kv import decode_kv_table
from cometmq.codec.bodies.missing_brokers import (
    MissingBroker,
    decode_missing_brokers,
    decode_rival_brokers,
)
from cometmq.codec.bodies.route import decode_topic_route
from cometmq.codec.bodies.topic_list import decode_topic_list
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.nameserver import (
    AddWritePermResponse,
    BrokerNameRequest,
    DeleteTopicInNameserver,
    KvConfigRequest,
    KvNamespaceRequest,
    PutKvConfig,
    RouteRequest,
    WipeWritePermResponse,
)
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import (
    BrokerNotFound,
    BrokerRefused,
    CodecError,
    CometError,
    TopicNotFound,
)
from cometmq.model.names import TRACE_TOPIC
from cometmq.model.route import MASTER_ID, TopicRoute
from cometmq.model.text import in_quotes


class NameserverApi:
    """Sends requests to a nameserver that answers, or to all; raises NetError, BrokerRefused and CodecError."""

    def __init__(self, nameservers: Nameservers) -> None:
        self._nameservers = nameservers

    async def route(self, topic: str) -> TopicRoute:
        """Return a topic's route from the first nameserver that answers; raise TopicNotFound if it has none.

        After an invalid route (CodecError), the next request tries another nameserver first, if there are several.
        """
        fields = encode_fields(RouteRequest(topic, accept_standard_json_only=True))
        command = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields=fields)
        answer = await self._nameservers.call(command)
        current = self._nameservers.current
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            cure = (
                "brokers create it with traceTopicEnable=true in broker.conf"
                if topic == TRACE_TOPIC
                else "create it (cometmq topic create), or send to it if brokers create topics automatically"
            )
            raise TopicNotFound(
                f"the nameserver {current} has no route of topic {in_quotes(topic)}; {cure}"
            )
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark or "", current)
        try:
            what = f"the route of topic {in_quotes(topic)} from nameserver {current}"
            route = await read_body(
                decode_topic_route, answer.body, what, size_max=OWN_SIZE_MAX
            )
            check_route(topic, route)
        except CodecError:
            self._nameservers.turn_to_next()  # Another nameserver may have a valid route.
            raise
        return route

    async def cluster(self, *, size_max: int | None = None) -> ClusterInfo:
        """Return all brokers of a nameserver and their clusters; raise CodecError if the answer exceeds `size_max` bytes."""
        command = Command(RequestCode.GET_BROKER_CLUSTER_INFO)
        answer = await self._nameservers.ask(command)
        what = "the cluster's brokers"
        return await read_body(decode_cluster_info, answer.body, what, size_max=size_max)

    async def each_cluster(self) -> dict[str, ClusterInfo | CometError]:
        """Return a dict of nameserver addresses to the brokers and clusters that each lists, or to its error."""
        answers = await self._nameservers.ask_each(Command(RequestCode.GET_BROKER_CLUSTER_INFO))
        found: dict[str, ClusterInfo | CometError] = {}
        for address, answer in answers.items():
            try:
                found[address] = (
                    answer
                    if isinstance(answer, CometError)
                    else await read_body(
                        decode_cluster_info, answer.body, f"the brokers of {address}"
                    )
                )
            except CodecError as error:
                found[address] = error
        return found

    def turn_to(self, address: str) -> None:
        """Try this nameserver first from the next request on; raise ValueError if the client does not have its address."""
        self._nameservers.turn_to(address)

    async def masters(self, cluster: str | None = None) -> dict[str, str]:
        """Return the addresses of a cluster's masters, or of all, by broker name, as far as any nameserver lists them.

        One nameserver is not enough: for 30 s after its start it may list only some of the brokers, and a change at every
        master would leave out the others. If two have different masters of a group, the one that is asked first counts.

        Raises BrokerNotFound if there are none, and the error of the first nameserver if none gives a valid answer.
        """
        found = await self.each_cluster()
        order = sorted(found, key=lambda address: address != self._nameservers.current)
        lists = [each for address in order if isinstance(each := found[address], ClusterInfo)]
        if not lists:
            error = found[order[0]]
            assert isinstance(error, CometError)
            raise error
        masters: dict[str, str] = {}
        for known in lists:
            names = (
                known.broker_names.get(cluster, ())
                if cluster is not None
                else tuple(known.brokers)
            )
            for name in names:
                group = known.brokers.get(name)
                if group is not None and MASTER_ID in group.addresses:
                    masters.setdefault(name, group.addresses[MASTER_ID])
        if not masters:
            there = (
                ", ".join(dict.fromkeys(name for each in lists for name in each.broker_names))
                or "none"
            )
            raise BrokerNotFound(
                f"no master of {f'cluster {in_quotes(cluster)}' if cluster else 'any cluster'} is registered; "
                f"known clusters: {there}"
            )
        return masters

    async def member(self, broker_name: str, broker_id: int = MASTER_ID) -> str:
        """Return the address of a broker group's member (default: the master); raise BrokerNotFound if unregistered."""
        brokers = (await self.cluster()).brokers
        if broker_name not in brokers:
            there = ", ".join(sorted(brokers)) or "none"
            raise BrokerNotFound(
                f"no broker {in_quotes(broker_name)} is registered; registered are: {there}"
            )
        addresses = brokers[broker_name].addresses
        if broker_id not in addresses:
            there = ", ".join(map(str, sorted(addresses))) or "none"
            raise BrokerNotFound(
                f"broker {in_quotes(broker_name)} has no member with id {broker_id} now; it has: {there}"
            )
        return addresses[broker_id]

    async def readable_brokers(self) -> dict[str, str]:
        """Return an address of each broker group by name: the master's, or without one that of the slave of lowest id."""
        brokers = (await self.cluster()).brokers.values()
        found = {broker.broker_name: broker.master_or_any() for broker in brokers}
        return {name: address for name, address in found.items() if address is not None}

    async def topics(self) -> list[str]:
        """Return the names of all topics that a nameserver lists, including system topics, sorted."""
        command = Command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        answer = await self._nameservers.ask(command)
        topics = await read_body(decode_topic_list, answer.body, "the list of topics")
        return sorted(topics.topics)

    async def missing_brokers(self) -> tuple[MissingBroker, ...]:
        """Return the broker groups that left and that a CometMQ nameserver remembers; BrokerRefused with RocketMQ's own."""
        answer = await self._nameservers.ask(Command(RequestCode.GET_MISSING_BROKERS))
        return decode_missing_brokers(answer.body)

    async def claims(self) -> set[tuple[str, int, str]]:
        """Return a set of (name, id, address) of registered brokers, and of those that lately lost or were refused an id.

        The answers of all nameservers are combined, without those that do not answer. RocketMQ's nameservers report only
        registered brokers.
        """
        found = {
            (name, broker_id, address)
            for answer in (await self.each_cluster()).values()
            if isinstance(answer, ClusterInfo)
            for name, group in answer.brokers.items()
            for broker_id, address in group.addresses.items()
        }
        command = Command(RequestCode.GET_MISSING_BROKERS)
        for answer in (await self._nameservers.ask_each(command)).values():
            if not isinstance(answer, CometError):
                rivals = decode_rival_brokers(answer.body)
                found |= {(each.name, each.broker_id, each.address) for each in rivals}
        return found

    async def delete_topic(self, topic: str, cluster: str | None) -> None:
        """Delete the routes of a topic at every nameserver, for one cluster or (None) all; brokers keep the topic."""
        header = DeleteTopicInNameserver(topic, cluster)
        command = Command(RequestCode.DELETE_TOPIC_IN_NAMESRV, fields=encode_fields(header))
        await self._nameservers.ask_all(command)

    async def kv_values(self, namespace: str) -> dict[str, str]:
        """Return the values of a namespace of the key-value configuration by key; empty if the nameserver has none."""
        fields = encode_fields(KvNamespaceRequest(namespace))
        command = Command(RequestCode.GET_KVLIST_BY_NAMESPACE, fields=fields)
        answer = await self._nameservers.call(command)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return {}
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark or "", self._nameservers.current)
        what = f"the key-value configuration of namespace {in_quotes(namespace)}"
        return await read_body(decode_kv_table, answer.body, what)

    async def set_kv_value(self, namespace: str, key: str, value: str) -> None:
        """Set a value of the key-value configuration at every nameserver."""
        fields = encode_fields(PutKvConfig(namespace, key, value))
        await self._nameservers.ask_all(Command(RequestCode.PUT_KV_CONFIG, fields=fields))

    async def delete_kv_value(self, namespace: str, key: str) -> None:
        """Delete a value of the key-value configuration, if there is one, at every nameserver."""
        fields = encode_fields(KvConfigRequest(namespace, key))
        await self._nameservers.ask_all(Command(RequestCode.DELETE_KV_CONFIG, fields=fields))

    async def wipe_write_perm(self, broker_name: str) -> int:
        """Remove write permission from a broker's routes at every nameserver; return the number of its topics.

        If the nameservers' numbers differ, it is the largest.
        """
        answers = await self._of_broker(RequestCode.WIPE_WRITE_PERM_OF_BROKER, broker_name)
        what = "the answer to WIPE_WRITE_PERM_OF_BROKER"
        told = [read_fields(WipeWritePermResponse, answer, what) for answer in answers]
        return max(each.wipe_topic_count for each in told)

    async def add_write_perm(self, broker_name: str) -> int:
        """Make a broker's routes readable and writable at every nameserver; return the number of its topics.

        If the nameservers' numbers differ, it is the largest.
        """
        answers = await self._of_broker(RequestCode.ADD_WRITE_PERM_OF_BROKER, broker_name)
        what = "the answer to ADD_WRITE_PERM_OF_BROKER"
        told = [read_fields(AddWritePermResponse, answer, what) for answer in answers]
        return max(each.add_topic_count for each in told)

    async def _of_broker(self, code: RequestCode, broker_name: str) -> list[Command]:
        fields = encode_fields(BrokerNameRequest(broker_name))
        return await self._nameservers.ask_all(Command(code, fields=fields))
