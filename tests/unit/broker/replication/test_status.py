"""GET_BROKER_HA_STATUS and EXCHANGE_BROKER_HA_INFO of a master, and who may copy its tables."""

from __future__ import annotations

import asyncio
import json
import logging
from types import SimpleNamespace

import pytest

from cometmq.broker.replication.allowed_addresses import (
    AllowedAddresses,
    members_by_nameservers,
)
from cometmq.broker.requests import OF_SLAVES, RULES, own_machine_gate
from cometmq.broker.settings.broker_settings import BrokerRole
from cometmq.broker.tables.replication_state import CopyState, ReplicationState
from cometmq.broker.tables.table_copies import TABLES, TableCopies
from cometmq.codec.bodies.cluster import ClusterInfo, encode_cluster_info
from cometmq.codec.bodies.ha_status import decode_ha_status
from cometmq.codec.remoting import Command
from cometmq.model.clock import Clock
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.codes import RequestCode as Code
from cometmq.model.errors import ConnectionLost, RequestError
from cometmq.model.route import BrokerData
from cometmq.net.loop import loop_clock
from tests.support.hand_clock import HandClock
from tests.support.steps import run
from tests.unit.broker.conftest import eventually, serve
from tests.unit.broker.replication.test_masters import master, own_slave, send, slave_of

STATUS, EXCHANGE = RequestCode.GET_BROKER_HA_STATUS, RequestCode.EXCHANGE_BROKER_HA_INFO
RESET, MIN_ID = RequestCode.RESET_MASTER_FLUSH_OFFSET, RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE


async def test_a_master_tells_of_its_slaves_what_mqadmin_shows(tmp_path):
    async with master(tmp_path) as served:
        slave = await slave_of(served)
        assert (await send(served)).code == ResponseCode.SUCCESS
        end = served.broker._store.max_offset
        body = (await served.ask(STATUS)).body
        status = decode_ha_status(body)
        (told,) = status.slaves
        assert (status.is_master, status.max_offset, status.in_sync_slaves) == (True, end, 1)
        assert (told.acked, told.gap, told.is_in_sync, told.sent) == (end, 0, True, end)
        assert told.address.startswith("127.0.0.1:")
        assert (status.needed, status.refused, status.master) == (2, 0, None)
        assert status.stored_ms is not None
        # The names that RocketMQ's HARuntimeInfo has.
        assert json.loads(body)["haConnectionInfo"][0].keys() >= {
            "addr", "slaveAckOffset", "diff", "inSync", "transferredByteInSecond", "transferFromWhere",
        }  # fmt: skip
        slave.close()


async def test_a_slave_that_copies_again_is_shown_without_its_old_error(tmp_path):
    async def error(served):
        (told,) = decode_ha_status((await served.ask(STATUS)).body).slaves
        return told.error

    async with master(tmp_path) as served:
        slave = await own_slave(served, 0, acks=True)
        assert (await send(served)).code == ResponseCode.SUCCESS
        slave.report(1 << 40)
        await eventually(lambda: slave.is_closed)
        again = await own_slave(served, served.broker._store.max_offset, acks=True)
        assert "acknowledged physical offset" in await error(served)
        assert (await send(served)).code == ResponseCode.SUCCESS
        assert await error(served) is None
        again.close()


async def test_a_master_without_slaves_says_so(tmp_path):
    async with master(tmp_path, BrokerRole.ASYNC_MASTER) as served:
        status = decode_ha_status((await served.ask(STATUS)).body)
        assert (status.is_master, status.slaves, status.in_sync_slaves) == (True, (), 0)
        assert (status.needed, status.stored_ms) == (1, None)


async def test_a_member_is_told_where_the_log_is_and_nobody_says_who_the_master_is(tmp_path):
    async with master(tmp_path) as served:
        told = await served.ask(EXCHANGE)
        assert told.fields == {
            "masterAddress": served.broker.address,
            "masterFlushOffset": "0",
            "masterHaAddress": f"127.0.0.1:{served.broker.ha_port}",
        }
        await served.refused(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            "nameservers",
            EXCHANGE,
            {"masterHaAddress": "203.0.113.9:10912"},
        )


def may(gate, rule, peer) -> bool:
    try:
        gate.check(rule, Command(rule.code), peer)
    except RequestError as refused:
        return refused.code != ResponseCode.NO_PERMISSION
    return True


@pytest.mark.parametrize(
    ("ip", "copies"), [("10.0.0.2", True), ("10.0.0.3", False)], ids=["slave", "stranger"]
)
def test_the_tables_go_to_slaves_of_the_group_and_administration_stays_on_this_machine(
    ip, copies
):
    gate = own_machine_gate(lambda address: address == "10.0.0.2")
    peer = SimpleNamespace(ip=ip, is_on_own_machine=False)
    passed = {rule.code for rule in RULES if gate.is_asked(rule) and may(gate, rule, peer)}
    assert passed == (OF_SLAVES if copies else set())


async def test_a_slave_notes_what_its_master_is_said_to_have_flushed_and_a_master_does_not(
    tmp_path,
):
    """908; a Java broker that is given the slave's directory finds it in the checkpoint."""
    async with master(tmp_path / "m") as served:
        await served.done(RESET, {"masterFlushOffset": "4711"})
        assert served.broker._store.replica_side.master_flushed == 0
    async with serve(tmp_path / "s", broker_role=BrokerRole.SLAVE, broker_id=1) as served:
        refused = await served.ask(RESET, {"masterFlushOffset": "-1"})
        assert refused.code == ResponseCode.INVALID_PARAMETER
        assert (await served.ask(RESET)).code != 0
        await served.done(RESET, {"masterFlushOffset": "4711"})
        told = decode_ha_status((await served.ask(STATUS)).body).master
        assert told is not None
        assert told.master_flushed == 4711
    async with serve(tmp_path / "s", broker_role=BrokerRole.SLAVE, broker_id=1) as served:
        assert served.broker._store.replica_side.master_flushed == 4711


async def test_who_has_the_smallest_id_is_taken_and_changes_nothing(tmp_path):
    """905, as RocketMQ without enableSlaveActingMaster."""
    async with master(tmp_path) as served:
        told = {"minBrokerId": "1", "brokerName": "a", "minBrokerAddr": "203.0.113.9:1"}
        await served.done(MIN_ID, told)
        assert served.broker.role.replicas.state().is_master


class Slave:
    """The connection of a slave that asks for all tables as soon as it is told to."""

    def __init__(self) -> None:
        self.told: list[int] = []

    def notify(self, code: int, _fields: dict[str, str], _body: bytes = b"") -> None:
        self.told.append(code)


async def test_a_deletion_names_the_slaves_that_were_there_and_are_away(
    caplog: pytest.LogCaptureFixture,
):
    connected = [1, 2]

    def replication() -> ReplicationState:
        copies = tuple(
            CopyState(address="127.0.0.1:1", broker_id=each, acked=0, gap=0, is_in_sync=True)
            for each in connected
        )
        return ReplicationState(True, 0, copies, len(copies) + 1, 1, 0, None)

    copies = TableCopies(replication)
    slaves = {"1": Slave(), "2": Slave()}
    for slave, peer in slaves.items():
        for code in TABLES:
            copies.asked(code, slave, peer)
    connected.clear()
    with caplog.at_level(logging.WARNING):
        await run(copies.deleted(Code.GET_ALL_TOPIC_CONFIG, "orders"))
    assert "orders is deleted while the slaves with these ids are not connected: 1, 2" in (
        caplog.text
    )
    assert [slave.told for slave in slaves.values()] == [[], []]


class Calls:
    """Nameservers by lists."""

    def __init__(self, **answers: Command | None) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def call(self, address, code, fields, body, *, timeout_ms):
        assert code == RequestCode.GET_BROKER_CLUSTER_INFO
        self.asked.append(address)
        await asyncio.sleep(0)
        answer = self.answers[address]
        if answer is None:
            raise ConnectionLost("gone")
        return answer

    def is_connected(self, address):
        return True

    async def lost(self, address):
        pass


def group(*addresses: str) -> Command:
    members = dict(enumerate(addresses))
    info = ClusterInfo({"a": BrokerData("c", "a", members)}, {"c": ("a",)})
    return Command(0, body=encode_cluster_info(info))


async def ips_of(name: str) -> frozenset[str]:
    """Host names, and who has them."""
    return frozenset({"slave.example": ["127.0.0.4", "::6"]}.get(name, []))


def allowed(calls: Calls, clock: Clock, text: str = "") -> AllowedAddresses:
    find = members_by_nameservers(list(calls.answers), "a", calls, ips_of)
    return AllowedAddresses(text, find, clock)


async def test_the_slaves_that_any_nameserver_knows_may_and_the_master_itself_may_not():
    calls = Calls(
        one=group("127.0.0.1:1", "127.0.0.2:1"),
        two=group("127.0.0.1:1", "127.0.0.3:1", "[::5]:1", "[fd00:0:0:0:0:0:0:2]:1", "b:1"),
        dead=None,
        odd=Command(0, body=b"no json"),
        none=Command(1),
    )
    who = allowed(calls, HandClock())
    assert not who.has("127.0.0.2")
    await who.look()
    slaves = ["127.0.0.2", "127.0.0.3", "::5", "fd00::2"]
    assert [ip for ip in ("127.0.0.1", *slaves) if who.has(ip)] == slaves


async def test_a_slave_of_javas_that_registers_its_name_may():
    calls = Calls(one=group("127.0.0.1:1", "slave.example:1", "nobody.example:1", ":1"))
    who = allowed(calls, HandClock())
    await who.look()
    assert [ip for ip in ("127.0.0.4", "::6", "127.0.0.1") if who.has(ip)] == [
        "127.0.0.4",
        "::6",
    ]


async def test_the_settings_may_name_more():
    who = allowed(Calls(), HandClock(), "10.1.0.0/16; 192.0.2.7,::7")
    assert all(map(who.has, ("10.1.2.3", "192.0.2.7", "::7")))
    assert not any(map(who.has, ("10.2.0.1", "192.0.2.8", "::8")))


async def test_nameservers_are_asked_once_a_second_whoever_comes():
    calls, clock = Calls(one=group("127.0.0.1:1", "127.0.0.2:1")), HandClock()
    who = allowed(calls, clock)
    await asyncio.gather(*[who.look() for _ in range(100)])
    await who.look()
    assert calls.asked == ["one"]
    clock.turn(1.0)
    await who.look()
    assert calls.asked == ["one", "one"]


async def test_who_was_a_member_stays_one_while_its_nameserver_does_not_answer(clock):
    """A stranger has the nameservers asked, and a slave that connects anew meanwhile is no stranger for that."""
    calls = Calls(one=group("127.0.0.1:1", "127.0.0.2:1"), two=group("127.0.0.1:1"))
    who = allowed(calls, clock)
    await who.look()
    calls.answers.update(one=None, two=group("127.0.0.1:1", "127.0.0.3:1"))
    for _ in range(2):
        clock.turn(1.0)
        await who.look()
        assert who.has("127.0.0.2")
        assert who.has("127.0.0.3")
    calls.answers.update(one=group("127.0.0.1:1"))
    clock.turn(1.0)
    await who.look()
    assert not who.has("127.0.0.2")


async def test_a_slave_that_registers_within_a_second_of_a_look_for_another_is_let_in():
    calls = Calls(one=group("127.0.0.1:1", "127.0.0.2:1"))
    who = allowed(calls, loop_clock())
    assert await who.admits("127.0.0.2")
    calls.answers.update(one=group("127.0.0.1:1", "127.0.0.2:1", "127.0.0.3:1"))
    assert await who.admits("127.0.0.3")
    assert not await who.admits("127.0.0.9")
    assert len(calls.asked) == 3
