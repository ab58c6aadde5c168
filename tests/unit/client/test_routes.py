"""What follows from a route."""

import pytest

from cometmq.client.connection.routes import KnownTopic, TopicRoutes, inherited_route
from cometmq.client.producer.fault_table import ISOLATION_LATENCY_MS, FaultTable, avoided_for_ms
from cometmq.model.flags import PERM_INHERIT, PERM_READ, PERM_READ_WRITE, PERM_WRITE
from cometmq.model.queue import MessageQueue
from cometmq.model.route import BrokerData, QueueData, TopicRoute
from tests.support.hand_clock import HandClock

MASTER = BrokerData("c", "a", {0: "a0:1", 1: "a1:1"})
SLAVE_ONLY = BrokerData("c", "b", {1: "b1:1", 2: "b2:1"})


def route(*queues: QueueData, brokers=(MASTER, SLAVE_ONLY)) -> TopicRoute:
    return TopicRoute(queues, brokers)


def known_of(given: TopicRoute) -> KnownTopic:
    table = TopicRoutes()
    table.put("T", given)
    known = table.get("T")
    assert known is not None
    return known


def test_only_writable_queues_with_a_master_are_sent_to():
    known = known_of(
        route(QueueData("a", 2, 1, PERM_READ_WRITE), QueueData("b", 1, 1, PERM_READ_WRITE))
    )
    assert known.write_queues == (MessageQueue("T", "a", 0),)
    assert known.read_queues == tuple(
        MessageQueue("T", name, number) for name, number in [("a", 0), ("a", 1), ("b", 0)]
    )


def test_permissions_take_queues_from_readers_or_writers():
    readable = known_of(route(QueueData("a", 1, 1, PERM_READ)))
    writable = known_of(route(QueueData("a", 1, 1, PERM_WRITE)))
    assert (len(readable.write_queues), len(readable.read_queues)) == (0, 1)
    assert (len(writable.write_queues), len(writable.read_queues)) == (1, 0)


def test_a_route_that_did_not_change_is_no_change():
    table = TopicRoutes()
    given = route(QueueData("a", 1, 1, PERM_READ_WRITE))
    assert table.put("T", given)
    assert not table.put("T", given)
    assert table.put("T", given, is_inherited=True)


def test_addresses_go_with_the_last_route_that_names_them():
    table = TopicRoutes()
    table.put("T", route())
    assert (table.address("a"), table.address("a", 1), table.address("b")) == (
        "a0:1", "a1:1", None,
    )  # fmt: skip
    table.drop("T")
    assert table.brokers == {}


def test_readers_fall_back_to_whoever_has_the_messages():
    table = TopicRoutes()
    table.put("T", route())
    assert table.address_to_read("a", 1) == "a1:1"
    assert table.address_to_read("a", 7) == "a0:1"
    assert table.address_to_read("b") == "b1:1"
    assert table.address_to_read("unknown") is None


def test_an_inherited_topic_has_as_many_queues_as_the_sender_asks_for_and_no_inheritance():
    default = route(QueueData("a", 8, 8, PERM_READ_WRITE | PERM_INHERIT))
    (queue,) = inherited_route(default, queues_max=4).queues
    assert (queue.read_queues, queue.write_queues, queue.perm) == (4, 4, PERM_READ_WRITE)
    (few,) = inherited_route(default, queues_max=16).queues
    assert few.write_queues == 8


def test_an_order_configuration_keeps_its_queues_while_a_broker_is_away():
    away = TopicRoute(
        queues=(QueueData("a", 4, 4, PERM_READ_WRITE),),
        brokers=(BrokerData("c", "a", {0: "a0:1"}),),
        order_config="a:2;b:1;nonsense",
    )
    assert away.write_queues("T") == [
        MessageQueue("T", "a", 0), MessageQueue("T", "a", 1), MessageQueue("T", "b", 0),
    ]  # fmt: skip
    assert len(away.read_queues("T")) == 4


def test_the_route_that_was_fetched_last_tells_where_the_master_is():
    """After a failover the routes of other topics still name the old master, whichever was stored first."""
    table = TopicRoutes()
    moved = BrokerData("c", "a", {0: "a1:1"})
    queue = QueueData("a", 1, 1, PERM_READ_WRITE)
    table.put("first", route(queue, brokers=(MASTER,)))
    table.put("second", route(queue, brokers=(MASTER,)))
    table.put("first", route(queue, brokers=(moved,)))
    assert table.masters == {"a": "a1:1"}
    assert table.addresses(only_masters=False) == {"a1:1"}
    table.confirm(
        "second"
    )  # The nameserver has just given the old one again, as one that is behind does.
    assert table.masters == {"a": "a0:1"}
    table.drop("second")
    assert table.masters == {"a": "a0:1"}
    table.put("first", route(queue, brokers=(SLAVE_ONLY,)))
    assert table.topic_of("a") is None
    assert table.topic_of("b") == "first"


def test_a_topic_without_a_master_is_told_from_one_that_may_not_be_sent_to():
    away = known_of(route(QueueData("b", 1, 1, PERM_READ_WRITE)))
    closed = known_of(route(QueueData("a", 1, 1, PERM_READ)))
    assert (away.is_without_master, closed.is_without_master) == (True, False)


@pytest.mark.parametrize(
    ("latency_ms", "avoided_ms"),
    [
        (0, 0), (49, 0), (50, 0), (549, 0), (550, 2000), (1799, 2000), (1800, 5000), (3000, 6000),
        (5000, 10000), (10_000, 10000), (15000, 30000), (60_000, 30000),
    ],
)  # fmt: skip
def test_the_classes_are_those_of_java_5(latency_ms, avoided_ms):
    assert avoided_for_ms(latency_ms) == avoided_ms


def test_a_slow_broker_is_available_again_when_its_time_is_over(clock):
    table = FaultTable(clock)
    assert table.is_available("a")
    table.note("a", ISOLATION_LATENCY_MS)
    assert not table.is_available("a")
    assert table.is_available("b")
    clock.turn(9.9)
    assert not table.is_available("a")
    clock.turn(0.1)
    assert table.is_available("a")


def test_a_quick_answer_ends_the_avoidance():
    table = FaultTable(HandClock())
    table.note("a", ISOLATION_LATENCY_MS)
    table.note("a", 3)
    assert table.is_available("a")
