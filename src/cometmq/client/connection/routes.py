"""The route table of a client: the queues of its topics, and the addresses of their brokers.

The lists of a topic's queues are computed once, when its route changes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cometmq.model.errors import CodecError
from cometmq.model.flags import PERM_INHERIT, is_writable
from cometmq.model.queue import MessageQueue
from cometmq.model.route import MASTER_ID, BrokerData, TopicRoute
from cometmq.model.text import in_quotes

# Queues of a topic on all its brokers together; a single broker allows as many.
QUEUES_MAX = 65_536


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic's route with its lists of queues.

    Attributes:
        route: The nameserver's answer; if `is_inherited`, a route made from that for the default topic.
        write_queues: Queues to send to, sorted.
        read_queues: Queues to consume, sorted.
        is_inherited: Whether the topic had no route, so that this one was derived from the default topic for a first send.
    """

    route: TopicRoute
    write_queues: tuple[MessageQueue, ...]
    read_queues: tuple[MessageQueue, ...]
    is_inherited: bool = False

    @property
    def has_other_brokers(self) -> bool:
        """Return whether the queues to send to are on more than one broker."""
        queues = self.write_queues  # They are sorted.
        return bool(queues) and queues[0].broker_name != queues[-1].broker_name

    @property
    def is_without_master(self) -> bool:
        """Return whether there is no queue to send to, but there would be if the brokers in the route had a master."""
        return not self.write_queues and any(
            is_writable(queue.perm) for queue in self.route.queues
        )


class TopicRoutes:
    """Routes by topic, and the addresses of the brokers in them and, if needed, of the whole cluster.

    Attributes:
        masters: Addresses of the masters by broker name; a new dict at each change.
    """

    def __init__(self) -> None:
        self.masters: Mapping[str, str] = {}
        self._topics: dict[str, KnownTopic] = {}
        self._brokers: dict[str, Mapping[int, str]] = {}
        # As a nameserver gave them last, whichever route had them: the routes of other topics may be older.
        self._latest: dict[str, Mapping[int, str]] = {}
        # Brokers of the whole cluster, if a member needs them, with the time when each was last listed.
        self._cluster: dict[str, tuple[BrokerData, float]] = {}

    def put(self, topic: str, route: TopicRoute, *, is_inherited: bool = False) -> bool:
        """Store a route; return whether it is new or differs from the known one."""
        if not self.is_new(topic, route, is_inherited=is_inherited):
            return False
        self.put_known(topic, known_topic(topic, route, is_inherited=is_inherited))
        return True

    def is_new(self, topic: str, route: TopicRoute, *, is_inherited: bool = False) -> bool:
        """Return whether a route differs from the topic's known one, or there is none."""
        known = self._topics.get(topic)
        return known is None or known.route != route or known.is_inherited != is_inherited

    def put_known(self, topic: str, known: KnownTopic) -> None:
        """Store a route whose queues are already listed."""
        self._topics[topic] = known
        self._note(known.route.brokers)
        self._collect_brokers()

    def confirm(self, topic: str) -> None:
        """Store the addresses in a topic's known route as the latest, as a nameserver has just returned it again."""
        if self._note(self._topics[topic].route.brokers):
            self._collect_brokers()

    def _note(self, brokers: Iterable[BrokerData]) -> bool:
        """Store the addresses of brokers as the latest ones; return whether those of any broker have changed."""
        news = {each.broker_name: each.addresses for each in brokers}
        is_new = any(self._latest.get(name) != addresses for name, addresses in news.items())
        self._latest.update(news)
        return is_new

    def drop(self, topic: str) -> None:
        """Forget the route of a topic, and brokers that only it lists; it is fetched again when needed."""
        if self._topics.pop(topic, None) is not None:
            self._collect_brokers()

    def put_cluster(
        self, brokers: Iterable[BrokerData], now: float, *, keep_seconds: float
    ) -> None:
        """Store brokers regardless of topics; forget those last stored `keep_seconds` or more before `now` (seconds)."""
        self._cluster = {
            name: (broker, named)
            for name, (broker, named) in self._cluster.items()
            if now - named < keep_seconds
        }
        brokers = list(brokers)
        self._cluster.update((broker.broker_name, (broker, now)) for broker in brokers)
        self._note(brokers)
        self._collect_brokers()

    def forget_cluster(self) -> None:
        """Forget the brokers of `put_cluster`, except those in the route of a topic."""
        self._cluster.clear()
        self._collect_brokers()

    def _collect_brokers(self) -> None:
        names = dict.fromkeys(self._cluster)
        for known in self._topics.values():
            names.update(dict.fromkeys(each.broker_name for each in known.route.brokers))
        self._latest = {name: self._latest[name] for name in names}
        self._brokers = dict(self._latest)
        self.masters = {
            name: addresses[MASTER_ID]
            for name, addresses in self._brokers.items()
            if MASTER_ID in addresses
        }

    def get(self, topic: str) -> KnownTopic | None:
        """Return the known route of a topic, or None."""
        return self._topics.get(topic)

    def topic_of(self, broker_name: str) -> str | None:
        """Return a topic whose known route has the broker, or None."""
        for topic, known in self._topics.items():
            if any(each.broker_name == broker_name for each in known.route.brokers):
                return topic
        return None

    @property
    def topics(self) -> list[str]:
        """A list of the topics with a known route."""
        return list(self._topics)

    @property
    def brokers(self) -> Mapping[str, Mapping[int, str]]:
        """The known addresses of all brokers: a mapping of broker names to mappings of broker ids to addresses."""
        return self._brokers

    def addresses(self, *, only_masters: bool) -> set[str]:
        """Return the set of addresses of all known brokers, or only of the masters."""
        return {
            address
            for members in self._brokers.values()
            for broker_id, address in members.items()
            if broker_id == MASTER_ID or not only_masters
        }

    def address(self, broker_name: str, broker_id: int = MASTER_ID) -> str | None:
        """Return the address of a member of a broker group, or None if unknown."""
        return self._brokers.get(broker_name, {}).get(broker_id)

    def address_to_read(self, broker_name: str, broker_id: int = MASTER_ID) -> str | None:
        """Return the address of the wanted member, otherwise the master's, otherwise that of the lowest id, or None."""
        addresses = self._brokers.get(broker_name)
        if not addresses:
            return None
        return addresses.get(broker_id) or addresses.get(MASTER_ID) or addresses[min(addresses)]


def known_topic(topic: str, route: TopicRoute, *, is_inherited: bool = False) -> KnownTopic:
    """Return a `KnownTopic`: a route with the lists of its queues to send to and to read from."""
    return KnownTopic(
        route,
        tuple(route.write_queues(topic)),
        tuple(route.read_queues(topic)),
        is_inherited,
    )


def check_route(topic: str, route: TopicRoute) -> None:
    """Raise CodecError if a route has more than 65,536 read, write or ordered queues (QUEUES_MAX), too many to list."""
    count = route.queue_count()
    if count > QUEUES_MAX:
        raise CodecError(
            f"the route of topic {in_quotes(topic)} has {count} queues, and a client accepts at most {QUEUES_MAX}; "
            "configure fewer queues, or use another nameserver"
        )


def inherited_route(default: TopicRoute, *, queues_max: int) -> TopicRoute:
    """Return the route of a topic that does not exist, derived from that of the default topic (TBW102).

    A broker has at most `queues_max` read queues and at most `queues_max` write queues in it. Unlike here,
    MQClientInstance.updateTopicRouteInfoFromNameServer of 5.3.3 takes the number of read queues for both.
    """
    return replace(
        default,
        queues=tuple(
            replace(
                queue,
                read_queues=min(queues_max, queue.read_queues),
                write_queues=min(queues_max, queue.write_queues),
                perm=queue.perm & ~PERM_INHERIT,
            )
            for queue in default.queues
        ),
    )
