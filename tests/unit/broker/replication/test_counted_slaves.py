"""Which slaves a SYNC_MASTER counts, and for how much of its log: by bytes, under virtual time."""

from __future__ import annotations

import asyncio

from tests.unit.broker.conftest import virtual_loop
from tests.unit.broker.replication.slaves import ByteSlave
from tests.unit.broker.replication.test_masters import (
    LATE,
    NONE,
    OK,
    master,
    own_slave,
    send,
    slave_of,
    visible,
)


async def test_what_a_slave_had_does_not_count_when_it_comes_back_without(tmp_path):
    """Its disk was lost, and its old connection is not yet known to be."""
    async with master(tmp_path, ha_gap_max=100_000) as served:
        store = served.broker._store
        first = await own_slave(served, 0, acks=True)
        assert (await send(served, body=bytes(200_000))).code == OK
        second = await own_slave(served, 0, acks=False)
        assert first.is_closed
        assert served.broker.role.replicas.state().in_sync == 1
        began = virtual_loop().time()
        assert (await send(served)).code == NONE
        assert virtual_loop().time() - began < 0.5
        second.report(store.max_offset)
        await asyncio.sleep(0.1)
        assert served.broker.role.replicas.state().in_sync == 2


async def test_what_a_java_slave_had_counts_no_longer_than_its_connection(tmp_path):
    """It is known by its address: what an older connection from there acknowledged ends with that one."""
    async with master(tmp_path, ha_gap_max=100_000) as served:
        first = await slave_of(served)
        assert (await send(served, body=bytes(200_000))).code == OK
        await slave_of(served, acks=False)  # With an empty disk.
        first.close()
        await asyncio.sleep(0.1)
        assert served.broker.role.replicas.state().in_sync == 1
        assert (await send(served)).code == NONE


async def test_a_slave_of_another_history_confirms_nothing(tmp_path):
    """Where it begins lies within this log, which says nothing of what it has before: it is still to be compared."""
    async with master(tmp_path) as served:
        await slave_of(served, acks=False)
        waiting = asyncio.ensure_future(send(served))
        await asyncio.sleep(0.5)
        end = served.broker._store.max_offset
        other = await own_slave(served, end, acks=False)
        await asyncio.sleep(0.1)
        assert not waiting.done()
        assert visible(served) == 0
        other.close()
        assert (await waiting).code == LATE


async def test_a_slave_whose_log_was_compared_confirms_what_it_has(tmp_path):
    async with master(tmp_path) as served:
        await slave_of(served, acks=False)
        waiting = [asyncio.ensure_future(send(served)) for _ in range(2)]
        await asyncio.sleep(0.5)
        end = served.broker._store.max_offset
        other = await own_slave(served, end // 2, acks=False)
        assert served.broker.role.replicas.state().in_sync == 3
        other.report(end)
        assert [(await each).code for each in waiting] == [OK, OK]


async def test_a_connection_that_says_nothing_keeps_no_slave_that_is_gone(tmp_path):
    async with master(tmp_path) as served:
        slave = await slave_of(served)
        assert (await send(served)).code == OK
        silent = await ByteSlave.connect(served.broker.ha_port)
        slave.close()
        await asyncio.sleep(0.1)
        assert not silent.is_closed
        assert served.broker.role.replicas.state().in_sync == 1
        assert (await send(served)).code == NONE
