"""GET_BROKER_HA_STATUS and EXCHANGE_BROKER_HA_INFO of a master, and who may copy its tables."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from cometmq.broker.requests import OF_SLAVES, RULES, own_machine_gate
from cometmq.broker.settings.broker_settings import BrokerRole
from cometmq.codec.bodies.ha_status import decode_ha_status
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import RequestError
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
