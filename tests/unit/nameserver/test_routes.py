"""The rules by which brokers enter, change and leave the route table (RouteInfoManager 5.3.3).

Who may speak for a broker that is alive: its host; and a controller's new master.
"""

from __future__ import annotations

from typing import Any

import pytest

from cometmq.codec.bodies.register import RegisterBrokerBody
from cometmq.codec.headers.nameserver import BrokerIdentity, RegisterBrokerResponse
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.flags import TOPIC_UNIT, TOPIC_UNIT_SUB
from cometmq.model.route import QueueData
from cometmq.nameserver import lookup
from cometmq.nameserver.lookup import find_route
from cometmq.nameserver.owners import (
    OwnerLives,
    check_register,
    check_topic,
    check_unregister,
)
from cometmq.nameserver.routes import BrokerKey, RouteTable
from tests.support.hand_clock import HandClock
from tests.unit.nameserver.brokers import CLUSTER, Wire, header, route, topics

MASTER, SLAVE = "10.0.0.1:10911", "10.0.0.2:10911"


def addresses(table: RouteTable, name: str = "broker-a") -> dict[int, str]:
    return dict(table.groups[name].addresses)


def perm(table: RouteTable, topic: str, name: str = "broker-a") -> int:
    return table.topics[topic][name].perm


def test_a_registered_broker_is_in_its_cluster_and_its_topics_have_routes(table):
    table.register(header(), topics("A", "B"), Wire())
    assert table.clusters == {CLUSTER: {"broker-a"}}
    assert addresses(table) == {0: MASTER}
    assert route(table, "A").queues == (QueueData("broker-a", 4, 4, 6),)
    assert find_route(table, "missing") is None


def test_a_topic_of_two_brokers_has_the_queues_of_both(table):
    table.register(header(), topics("A", "B"), Wire())
    table.register(header(SLAVE, name="broker-b"), topics("A", "C"), Wire())
    found = route(table, "A")
    assert {data.broker_name for data in found.queues} == {"broker-a", "broker-b"}
    assert {broker.broker_name for broker in found.brokers} == {"broker-a", "broker-b"}


def test_a_slave_is_told_its_living_master_and_a_master_is_told_nothing(table):
    first = table.register(header(SLAVE, broker_id=1), topics("A", "B"), Wire())
    assert first == RegisterBrokerResponse()
    assert table.register(header(), topics("A", "B"), Wire()) == RegisterBrokerResponse()
    told = table.register(header(SLAVE, broker_id=1), topics("A", "B"), Wire())
    assert told == RegisterBrokerResponse(ha_server_addr="10.0.0.1:10912", master_addr=MASTER)


def test_the_topics_of_an_ordinary_slave_are_not_taken(table):
    table.register(header(SLAVE, broker_id=1), topics("A", "B"), Wire())
    assert table.topics == {}
    assert addresses(table) == {1: SLAVE}


ACTING: dict[str, Any] = {"enable_acting_master": True}


def test_the_first_slave_of_a_group_with_acting_master_gives_its_topics_without_write(table):
    table.register(header(SLAVE, broker_id=1, **ACTING), topics("A", "B"), Wire())
    assert perm(table, "A") == 4
    table.register(header(**ACTING), topics("A", "B"), Wire())
    assert perm(table, "A") == 6
    table.register(header("10.0.0.3:1", broker_id=2, **ACTING), topics("C", "D"), Wire())
    assert "C" not in table.topics


def test_a_slave_that_became_master_leaves_its_old_id(table):
    table.register(header(SLAVE, broker_id=1), topics("A", "B"), Wire())
    table.register(header(SLAVE, broker_id=0), topics("A", "B", counter=2), Wire())
    assert addresses(table) == {0: SLAVE}


def test_a_master_of_an_older_epoch_does_not_take_the_place_of_a_newer_one(table):
    table.register(header(MASTER), topics("A", "B", state=5), Wire())
    table.register(header(SLAVE), topics("A", "B", state=4), Wire())
    assert addresses(table) == {0: MASTER}
    assert BrokerKey(CLUSTER, SLAVE) not in table.live
    table.register(header(SLAVE), topics("A", "B", state=5), Wire())
    assert addresses(table) == {0: SLAVE}


def test_an_unknown_broker_with_one_topic_only_is_refused_and_leaves_no_trace(table):
    with pytest.raises(RequestError, match=r"^register broker failed") as refused:
        table.register(header(), topics("A"), Wire())
    assert refused.value.code == ResponseCode.SYSTEM_ERROR
    assert (table.groups, table.clusters, table.live) == ({}, {}, {})
    table.register(header(), topics("A", "B"), Wire())
    table.register(header(), topics("C", counter=2), Wire())
    assert set(table.topics) == {"A", "B", "C"}


def test_what_has_the_same_version_is_taken_only_where_it_is_missing(table):
    table.register(header(), topics("A", "B"), Wire())
    table.wipe_write_perm("broker-a")
    table.delete_topic("B")
    table.register(header(), topics("A", "B"), Wire())
    assert (perm(table, "A"), perm(table, "B")) == (4, 6)
    table.register(header(), topics("A", "B", counter=2), Wire())
    assert perm(table, "A") == 6


def test_missing_topics_stay_unless_their_deletion_is_switched_on(table):
    table.register(header(), topics("A", "B", "C"), Wire())
    table.register(header(), topics("A", "B", counter=2), Wire())
    assert "C" in table.topics
    table.register(header(), topics("A", "B", counter=3), Wire(), deletes_missing_topics=True)
    assert "C" not in table.topics


def test_queue_mappings_of_static_topics_are_in_their_routes(table):
    mapping = {"topic": "A", "bname": "broker-a", "totalQueues": 8}
    body = topics("A", "B")
    table.register(header(), RegisterBrokerBody(body.table, (), {"A": mapping}), Wire())
    assert route(table, "A").queue_mappings == {"broker-a": mapping}
    assert route(table, "B").queue_mappings is None


def test_a_group_goes_with_its_last_address_and_its_topics_with_it(table):
    table.register(header(), topics("A", "B"), Wire())
    table.register(header(SLAVE, broker_id=1), topics("A", "B"), Wire())
    table.unregister(BrokerKey(CLUSTER, MASTER), "broker-a")
    assert addresses(table) == {1: SLAVE}
    assert perm(table, "A") == 6
    table.unregister(BrokerKey(CLUSTER, SLAVE), "broker-a")
    assert (table.groups, table.clusters, table.topics, table.live) == ({}, {}, {}, {})


def test_nobody_sends_to_a_group_with_acting_master_once_its_master_is_gone(table):
    table.register(header(**ACTING), topics("A", "B"), Wire())
    table.register(header(SLAVE, broker_id=1, **ACTING), topics("A", "B"), Wire())
    table.unregister(BrokerKey(CLUSTER, MASTER), "broker-a")
    assert perm(table, "A") == 4


def test_to_unregister_a_stranger_changes_nothing(table):
    table.register(header(), topics("A", "B"), Wire())
    table.unregister(BrokerKey("other", "1.2.3.4:5"), "broker-z")
    table.drop(BrokerKey("other", "1.2.3.4:5"))
    assert addresses(table) == {0: MASTER}


def test_write_permission_is_wiped_and_given_back_on_all_topics_of_a_broker(table):
    table.register(header(), topics("A", "B", perm=7), Wire())
    table.register(header(SLAVE, name="broker-b"), topics("A", "B"), Wire())
    assert table.wipe_write_perm("broker-a") == 2
    assert (perm(table, "A"), perm(table, "A", "broker-b")) == (5, 6)
    assert table.add_write_perm("broker-a") == 2
    assert perm(table, "B") == 6
    assert table.wipe_write_perm("broker-z") == 0


def test_a_topic_is_deleted_in_one_cluster_or_everywhere(table):
    table.register(header(), topics("A", "B"), Wire())
    table.register(
        header(SLAVE, name="broker-b", cluster_name="other"), topics("A", "B"), Wire()
    )
    table.delete_topic("A", "nowhere")
    table.delete_topic("A", "other")
    assert set(table.topics["A"]) == {"broker-a"}
    table.delete_topic("B")
    table.delete_topic("missing")
    assert set(table.topics) == {"A"}


def test_one_topic_is_added_at_known_brokers_only(table):
    table.register(header(), topics("A", "B"), Wire())
    table.register_topic("N", (QueueData("broker-a", 2, 2, 6), QueueData("stranger", 2, 2, 6)))
    assert "N" not in table.topics
    table.register_topic("N", (QueueData("broker-a", 2, 2, 6),))
    assert route(table, "N").queues == (QueueData("broker-a", 2, 2, 6),)


def routed(table: RouteTable, topic: str, **options) -> dict[int, str]:
    return dict(route(table, topic, **options).brokers[0].addresses)


def test_the_first_slave_stands_in_for_a_lost_master_where_that_is_supported(table):
    member_topic = "rmq_sys_SYNC_BROKER_MEMBER_broker-a"
    table.register(header("h:1", broker_id=2, **ACTING), topics("A", member_topic), Wire())
    table.register(header("h:2", broker_id=3, **ACTING), topics("A", member_topic), Wire())
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


@pytest.fixture
def owned() -> RouteTable:
    """A master of epoch 3 and its slave, each registered from its host."""
    owned = RouteTable(HandClock())
    for address, number in ((MASTER, 0), (SLAVE, 2)):
        wire = Wire(address.partition(":")[0])
        owned.register(
            header(address, broker_id=number), topics("A", "B", state=3 - number), wire
        )
    return owned


def register(owned: RouteTable, address: str, ip: str, *, state: int) -> None:
    check_register(owned, header(address), topics("A", "B", state=state).table.version, ip)


def test_a_member_with_a_higher_epoch_becomes_the_master(owned):
    register(owned, SLAVE, "10.0.0.2", state=4)


@pytest.mark.parametrize(
    ("address", "ip", "state"),
    [
        (SLAVE, "10.0.0.2", 3),  # No higher epoch.
        ("10.0.0.9:10911", "10.0.0.9", 4),  # No member.
        (SLAVE, "10.0.0.9", 4),  # Not the member's host.
        (MASTER, "10.0.0.9", 4),
    ],
)
def test_nobody_else_takes_a_living_masters_place(owned, address, ip, state):
    with pytest.raises(RequestError) as refused:
        register(owned, address, ip, state=state)
    assert refused.value.code == ResponseCode.NO_PERMISSION


def test_an_unknown_broker_has_nobody_to_ask(owned):
    assert not check_unregister(owned, BrokerIdentity("x", "h:1", CLUSTER, 0), "10.0.0.9")


def test_a_slave_tells_of_its_groups_topics(owned):
    check_topic(owned, "A", ["broker-a"], "10.0.0.2")
    with pytest.raises(RequestError):
        check_topic(owned, "A", ["broker-a"], "10.0.0.9")


def owner_to_ask(owned: RouteTable, address: str, ip: str, *, state: int) -> str | None:
    """The owner whose silence would let a broker register; None: none would."""
    with pytest.raises(OwnerLives) as refused:
        register(owned, address, ip, state=state)
    return refused.value.owner.address if refused.value.owner else None


def test_a_host_of_the_group_has_the_owner_asked_and_no_other_host_does(owned):
    assert owner_to_ask(owned, "10.0.0.2:1", "10.0.0.2", state=3) == MASTER
    assert owner_to_ask(owned, "10.0.0.2:1", "10.0.0.2", state=4) == MASTER
    assert owner_to_ask(owned, "10.0.0.2:1", "10.0.0.2", state=2) is None
    assert owner_to_ask(owned, "10.0.0.9:1", "10.0.0.9", state=4) is None


def test_who_was_displaced_on_one_host_takes_its_place_back_only_from_one_that_is_silent(owned):
    other = "10.0.0.1:20911"
    register(owned, other, "10.0.0.1", state=3)  # The last one wins, as in RocketMQ.
    owned.register(header(other), topics("A", "B", state=3), Wire("10.0.0.1"))
    assert owner_to_ask(owned, MASTER, "10.0.0.1", state=3) == other
    register(owned, MASTER, "10.0.0.1", state=4)  # A higher epoch asks nobody.
    owned.clock.turn(121)
    register(owned, MASTER, "10.0.0.1", state=3)


def test_a_displaced_broker_learns_of_it_by_its_connection_and_operators_by_its_claim(owned):
    live = owned.live[BrokerKey(CLUSTER, MASTER)]
    owned.register(header("10.0.0.1:20911"), topics("A", "B", state=4), Wire("10.0.0.1"))
    assert live.connection.closings == 1
    [rival] = owned.rivals.known(owned.clock.monotonic())
    assert (rival.name, rival.broker_id, rival.address) == ("broker-a", 0, MASTER)
    owned.register(header(MASTER, broker_id=5), topics("A", "B", state=4), Wire("10.0.0.1"))
    assert owned.rivals.known(owned.clock.monotonic()) == []
