"""The rules by which brokers enter, change and leave the route table (RouteInfoManager 5.3.3)."""

from __future__ import annotations

from typing import Any

import pytest

from cometmq.codec.bodies.register import RegisterBrokerBody
from cometmq.codec.headers.nameserver import RegisterBrokerResponse
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.route import QueueData
from cometmq.nameserver.lookup import find_route
from cometmq.nameserver.routes import BrokerKey, RouteTable
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


def test_the_first_slave_of_a_group_with_acting_master_gives_its_topics_without_write(table):
    acting: dict[str, Any] = {"enable_acting_master": True}
    table.register(header(SLAVE, broker_id=1, **acting), topics("A", "B"), Wire())
    assert perm(table, "A") == 4
    table.register(header(**acting), topics("A", "B"), Wire())
    assert perm(table, "A") == 6
    table.register(header("10.0.0.3:1", broker_id=2, **acting), topics("C", "D"), Wire())
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
    acting: dict[str, Any] = {"enable_acting_master": True}
    table.register(header(**acting), topics("A", "B"), Wire())
    table.register(header(SLAVE, broker_id=1, **acting), topics("A", "B"), Wire())
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
