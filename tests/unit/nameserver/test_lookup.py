"""What is read from the route table: stand-ins for lost masters, zones, lists of topics."""

from __future__ import annotations

from typing import Any

from cometmq.codec.bodies.register import RegisterBrokerBody
from cometmq.model.flags import TOPIC_UNIT, TOPIC_UNIT_SUB
from cometmq.nameserver import lookup
from cometmq.nameserver.routes import BrokerKey, RouteTable
from tests.unit.nameserver.brokers import CLUSTER, Wire, header, route, topics


def routed(table: RouteTable, topic: str, **options) -> dict[int, str]:
    return dict(route(table, topic, **options).brokers[0].addresses)


def test_the_first_slave_stands_in_for_a_lost_master_where_that_is_supported(table):
    acting: dict[str, Any] = {"enable_acting_master": True}
    member_topic = "rmq_sys_SYNC_BROKER_MEMBER_broker-a"
    table.register(header("h:1", broker_id=2, **acting), topics("A", member_topic), Wire())
    table.register(header("h:2", broker_id=3, **acting), topics("A", member_topic), Wire())
    assert routed(table, "A") == {2: "h:1", 3: "h:2"}
    assert routed(table, "A", supports_acting_master=True) == {0: "h:1", 3: "h:2"}
    assert routed(table, member_topic, supports_acting_master=True) == {2: "h:1", 3: "h:2"}


def test_a_master_that_lives_is_not_replaced(table):
    table.register(header("h:1", enable_acting_master=True), topics("A", "B"), Wire())
    table.wipe_write_perm("broker-a")
    assert routed(table, "A", supports_acting_master=True) == {0: "h:1"}


def test_a_zone_sees_its_own_brokers_and_groups_without_a_master(table):
    table.register(header("h:1"), topics("A", "B"), Wire(), zone_name="north")
    table.register(header("h:2", name="broker-b"), topics("A", "B"), Wire(), zone_name="south")
    table.register(header("h:3", name="broker-c"), topics("A", "B"), Wire())
    table.register(header("h:4", name="broker-c", broker_id=1), topics("A", "B"), Wire())
    table.unregister(BrokerKey(CLUSTER, "h:3"), "broker-c")
    near = lookup.in_zone(route(table, "A"), "NORTH")
    assert {broker.broker_name for broker in near.brokers} == {"broker-a", "broker-c"}
    assert {data.broker_name for data in near.queues} == {"broker-a", "broker-c"}


def test_filter_servers_are_in_the_route_by_broker_address(table):
    body = topics("A", "B")
    table.register(header("h:1"), RegisterBrokerBody(body.table, ("f:1",)), Wire())
    assert route(table, "A").filter_servers == {"h:1": ["f:1"]}


def test_clusters_members_and_system_topics_are_listed(table):
    assert lookup.system_topics(table).broker_address is None
    table.register(header("h:1"), topics("A", "B"), Wire())
    table.register(header("h:2", broker_id=1), topics("A", "B"), Wire())
    table.register(header("h:3", name="b-2", cluster_name="other"), topics("A", "C"), Wire())
    clusters = lookup.cluster_info(table)
    assert clusters.broker_names == {CLUSTER: ("broker-a",), "other": ("b-2",)}
    assert dict(clusters.brokers["broker-a"].addresses) == {0: "h:1", 1: "h:2"}
    assert lookup.topics_of_cluster(table, "other").topics == ("A", "C")
    assert lookup.topics_of_cluster(table, "nowhere").topics == ()
    system = lookup.system_topics(table)
    assert set(system.topics) == {CLUSTER, "broker-a", "other", "b-2"}
    assert system.broker_address == "h:1"
    assert dict(lookup.member_group(table, CLUSTER, "broker-a").addresses) == {
        0: "h:1",
        1: "h:2",
    }
    assert lookup.member_group(table, CLUSTER, "stranger").addresses == {}


def test_topics_are_found_by_their_unit_bits(table):
    table.register(header("h:1"), topics("unit", "plain", sys_flag=TOPIC_UNIT), Wire())
    table.register(
        header("h:2", name="b-2"),
        topics("both", "x", sys_flag=TOPIC_UNIT | TOPIC_UNIT_SUB),
        Wire(),
    )
    table.register(
        header("h:3", name="b-3"), topics("sub", "y", sys_flag=TOPIC_UNIT_SUB), Wire()
    )
    found = lookup.topics_with_flag(table, wanted=TOPIC_UNIT).topics
    assert set(found) == {"unit", "plain", "both", "x"}
    only = lookup.topics_with_flag(table, wanted=TOPIC_UNIT_SUB, unwanted=TOPIC_UNIT).topics
    assert set(only) == {"sub", "y"}
