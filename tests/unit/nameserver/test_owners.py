"""Who may speak for a broker that is alive: its host; and a controller's new master."""

from __future__ import annotations

import pytest

from cometmq.codec.headers.nameserver import BrokerIdentity
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.nameserver.owners import (
    OwnerLives,
    check_register,
    check_topic,
    check_unregister,
)
from cometmq.nameserver.routes import BrokerKey, RouteTable
from tests.support.hand_clock import HandClock
from tests.unit.nameserver.brokers import CLUSTER, Wire, header, topics

MASTER, SLAVE = "10.0.0.1:10911", "10.0.0.2:10911"


@pytest.fixture
def table() -> RouteTable:
    """A master of epoch 3 and its slave, each registered from its host."""
    table = RouteTable(HandClock())
    for address, number in ((MASTER, 0), (SLAVE, 2)):
        wire = Wire(address.partition(":")[0])
        table.register(
            header(address, broker_id=number), topics("A", "B", state=3 - number), wire
        )
    return table


def register(table: RouteTable, address: str, ip: str, *, state: int) -> None:
    check_register(table, header(address), topics("A", "B", state=state).table.version, ip)


def test_a_member_with_a_higher_epoch_becomes_the_master(table):
    register(table, SLAVE, "10.0.0.2", state=4)


@pytest.mark.parametrize(
    ("address", "ip", "state"),
    [
        (SLAVE, "10.0.0.2", 3),  # No higher epoch.
        ("10.0.0.9:10911", "10.0.0.9", 4),  # No member.
        (SLAVE, "10.0.0.9", 4),  # Not the member's host.
        (MASTER, "10.0.0.9", 4),
    ],
)
def test_nobody_else_takes_a_living_masters_place(table, address, ip, state):
    with pytest.raises(RequestError) as refused:
        register(table, address, ip, state=state)
    assert refused.value.code == ResponseCode.NO_PERMISSION


def test_an_unknown_broker_has_nobody_to_ask(table):
    assert not check_unregister(table, BrokerIdentity("x", "h:1", CLUSTER, 0), "10.0.0.9")


def test_a_slave_tells_of_its_groups_topics(table):
    check_topic(table, "A", ["broker-a"], "10.0.0.2")
    with pytest.raises(RequestError):
        check_topic(table, "A", ["broker-a"], "10.0.0.9")


def owner_to_ask(table: RouteTable, address: str, ip: str, *, state: int) -> str | None:
    """The owner whose silence would let a broker register; None: none would."""
    with pytest.raises(OwnerLives) as refused:
        register(table, address, ip, state=state)
    return refused.value.owner.address if refused.value.owner else None


def test_a_host_of_the_group_has_the_owner_asked_and_no_other_host_does(table):
    assert owner_to_ask(table, "10.0.0.2:1", "10.0.0.2", state=3) == MASTER
    assert owner_to_ask(table, "10.0.0.2:1", "10.0.0.2", state=4) == MASTER
    assert owner_to_ask(table, "10.0.0.2:1", "10.0.0.2", state=2) is None
    assert owner_to_ask(table, "10.0.0.9:1", "10.0.0.9", state=4) is None


def test_who_was_displaced_on_one_host_takes_its_place_back_only_from_one_that_is_silent(table):
    other = "10.0.0.1:20911"
    register(table, other, "10.0.0.1", state=3)  # The last one wins, as in RocketMQ.
    table.register(header(other), topics("A", "B", state=3), Wire("10.0.0.1"))
    assert owner_to_ask(table, MASTER, "10.0.0.1", state=3) == other
    register(table, MASTER, "10.0.0.1", state=4)  # A higher epoch asks nobody.
    table.clock.turn(121)
    register(table, MASTER, "10.0.0.1", state=3)


def test_a_displaced_broker_learns_of_it_by_its_connection_and_operators_by_its_claim(table):
    live = table.live[BrokerKey(CLUSTER, MASTER)]
    table.register(header("10.0.0.1:20911"), topics("A", "B", state=4), Wire("10.0.0.1"))
    assert live.connection.closings == 1
    [rival] = table.rivals.known(table.clock.monotonic())
    assert (rival.name, rival.broker_id, rival.address) == ("broker-a", 0, MASTER)
    table.register(header(MASTER, broker_id=5), topics("A", "B", state=4), Wire("10.0.0.1"))
    assert table.rivals.known(table.clock.monotonic()) == []
