"""Brokers leave when they fall silent or their connection closes, and not before."""

from __future__ import annotations

from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.nameserver.lookup import find_route
from cometmq.nameserver.missing import BYTES_MAX, ORDERLY_SECONDS, MissingBrokers
from cometmq.nameserver.routes import SILENCE_MS_MAX, BrokerKey, RouteTable
from tests.unit.nameserver.brokers import CLUSTER, Wire, header, topics


def test_a_broker_that_was_silent_for_120_s_leaves_and_its_connection_is_closed(table, clock):
    wire = Wire()
    table.register(header(), topics("A", "B"), wire)
    clock.turn(SILENCE_MS_MAX / 1000)
    table.drop_silent()
    assert wire.closings == 0
    clock.turn(0.001)
    table.drop_silent()
    assert wire.closings == 1
    assert (table.groups, table.topics, table.live) == ({}, {}, {})


def test_a_heartbeat_is_a_sign_of_life(table, clock):
    table.register(header(), topics("A", "B"), Wire())
    clock.turn(100)
    table.touch(CLUSTER, "10.0.0.1:10911")
    table.touch(CLUSTER, "stranger:1")
    clock.turn(100)
    table.drop_silent()
    assert "A" in table.topics


def test_a_broker_may_name_its_own_timeout(table, clock):
    table.register(header("h:1", heartbeat_timeout_millis=10_000), topics("A", "B"), Wire())
    table.register(header("h:2", name="broker-b"), topics("A", "B"), Wire())
    clock.turn(10.5)
    table.drop_silent()
    assert set(table.groups) == {"broker-b"}


def test_a_closed_connection_takes_its_brokers_away_at_once(table):
    wire, other = Wire(), Wire()
    table.register(header("h:1"), topics("A", "B"), wire)
    table.register(header("h:2", name="broker-b"), topics("A", "B"), wire)
    table.register(header("h:3", name="broker-c"), topics("A", "B"), other)
    table.drop_closed(wire)
    assert set(table.live) == {BrokerKey(CLUSTER, "h:3")}
    assert set(table.topics["A"]) == {"broker-c"}


def test_the_old_connection_of_a_broker_that_came_back_takes_nothing_away(table):
    old, new = Wire(), Wire()
    table.register(header(), topics("A", "B"), old)
    table.register(header(), topics("A", "B"), new)
    table.drop_closed(old)
    assert "A" in table.topics


def test_what_is_left_behind_is_swept_later_and_nobody_sees_it_meanwhile(table):
    wanted: list[bool] = []
    table.on_leave = lambda: wanted.append(True)
    names = [f"T{number}" for number in range(1_200)]
    for letter in ("a", "b"):
        wire = Wire()
        table.register(header(f"h:{letter}", name=letter), topics(*names), wire)
    table.drop(BrokerKey(CLUSTER, "h:a"))
    assert wanted == [True]
    assert set(table.queues_of("T1")) == {"b"}
    table.drop(BrokerKey(CLUSTER, "h:b"))
    assert not table.queues_of("T1")
    assert not table.topic_names()
    steps = table.sweep()
    next(steps)
    assert 0 < len(table.topics["T1199"]) <= 2
    # One of them is back before the sweep is through: with what it tells now.
    table.register(header("h:a", name="a"), topics("T1", "New"), Wire())
    for _ in steps:
        pass
    assert {topic: set(queues) for topic, queues in table.topics.items()} == {
        "T1": {"a"},
        "New": {"a"},
    }
    assert [broker.name for broker in table.missing_brokers()] == ["b"]
    assert len(table.missing_brokers()[0].queues) == 1_200


def missing(table: RouteTable) -> dict[str, dict[str, int]]:
    return {each.name: dict(each.queues) for each in table.missing_brokers()}


def test_a_broker_that_went_without_a_word_is_missing_until_it_is_back(table, clock):
    wire = Wire()
    table.register(header(), topics("A", "B"), wire)
    assert missing(table) == {}
    table.drop_closed(wire)
    assert find_route(table, "A") is None
    assert missing(table) == {"broker-a": {"A": 4, "B": 4}}
    table.delete_topic("B")
    assert missing(table) == {"broker-a": {"A": 4}}
    table.register(header("other:1"), topics("A", "B"), Wire())
    assert missing(table) == {}


def test_a_broker_that_said_goodbye_is_forgotten_sooner(table, clock):
    for name, address in (("broker-a", "h:1"), ("broker-b", "h:2")):
        table.register(header(address, name=name), topics("A", "B"), Wire())
    table.unregister(BrokerKey(CLUSTER, "h:1"), "broker-a")
    table.drop(BrokerKey(CLUSTER, "h:2"))
    assert set(missing(table)) == {"broker-a", "broker-b"}
    clock.turn(ORDERLY_SECONDS + 1)
    assert set(missing(table)) == {"broker-b"}
    clock.turn(72 * 3600)
    assert missing(table) == {}


def test_a_group_with_a_member_left_is_not_missing(table):
    table.register(header("h:1"), topics("A", "B"), Wire())
    table.register(header("h:2", broker_id=1), topics("A", "B"), Wire())
    table.drop(BrokerKey(CLUSTER, "h:1"))
    assert missing(table) == {}


def test_the_memory_is_bounded_in_bytes():
    memory = MissingBrokers()
    for number in range(100):
        queues = {f"{'x' * 200}{number}-{topic}": 4 for topic in range(1000)}
        memory.note(
            MissingBroker(f"b{number}", CLUSTER, 0, queues), now=number, is_orderly=False
        )
    kept = [each.name for each in memory.known(100)]
    assert kept == [f"b{number}" for number in range(100 - len(kept), 100)]
    assert sum(len(topic) for each in memory.known(100) for topic in each.queues) < BYTES_MAX
    assert len(kept) > 10
