"""Brokers that left are remembered for a while, in bounded memory, and routes do not show them."""

from __future__ import annotations

from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.nameserver.expiry import Expiry
from cometmq.nameserver.lookup import find_route
from cometmq.nameserver.missing import BYTES_MAX, ORDERLY_SECONDS, MissingBrokers
from cometmq.nameserver.routes import BrokerKey, RouteTable
from tests.unit.nameserver.brokers import CLUSTER, Wire, header, topics


def missing(table: RouteTable) -> dict[str, dict[str, int]]:
    return {each.name: dict(each.queues) for each in table.missing_brokers()}


def test_a_broker_that_went_without_a_word_is_missing_until_it_is_back(table, clock):
    wire = Wire()
    table.register(header(), topics("A", "B"), wire)
    assert missing(table) == {}
    Expiry(table).closed(wire)
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
