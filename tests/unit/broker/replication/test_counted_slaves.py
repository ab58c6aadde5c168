"""Which slaves a SYNC_MASTER counts, and for how much of its log: by bytes, under virtual time."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from cometmq.broker.settings.broker_settings import BrokerRole
from cometmq.replication import far_slave_rate
from tests.unit.broker.conftest import eventually, virtual_loop
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


async def _keep_sending(served, *, bytes_a_second):
    while True:
        await send(served, body=bytes(bytes_a_second // 10))
        await asyncio.sleep(0.1)


async def _far_behind(served, monkeypatch, *, bytes_a_second):
    """The seconds that a slave with an empty disk needs for a MB while so much is sent, and what it lacks second by second."""
    monkeypatch.setattr(far_slave_rate, "FAR_SIZE", 100_000)
    monkeypatch.setattr(far_slave_rate, "QUIET_SIZE", 1_000)
    monkeypatch.setattr(far_slave_rate, "MEAN_SECONDS", 0.1)
    for _ in range(10):
        await send(served, {"WAIT": "false"}, body=bytes(100_000))
    sending = None
    if bytes_a_second:
        sending = asyncio.ensure_future(_keep_sending(served, bytes_a_second=bytes_a_second))
    slave, store = await slave_of(served), served.broker._store
    began, gaps = virtual_loop().time(), [store.max_offset - slave.end]
    while gaps[-1] > 0 and len(gaps) < 40:
        await asyncio.sleep(0.5)
        gaps.append(store.max_offset - slave.end)
    if sending is not None:
        sending.cancel()
        await asyncio.wait([sending])
    return virtual_loop().time() - began, gaps


async def test_a_slave_far_behind_comes_nearer_evenly_while_others_send_however_fast(
    tmp_path, monkeypatch
):
    for rate, nearer_by in ((100_000, 700_000), (1_000_000, 200_000)):
        path = tmp_path / str(rate)
        async with master(path, BrokerRole.ASYNC_MASTER, ha_catch_up_rate=800_000) as served:
            seconds, gaps = await _far_behind(served, monkeypatch, bytes_a_second=rate)
            assert gaps[0] > 800_000
            assert abs(seconds - gaps[0] / nearer_by) < 2, gaps
            nearer = [before - after for before, after in pairwise(gaps) if after > 200_000]
            assert len(nearer) >= 2
            assert all(0.7 < 2 * step / nearer_by < 1.3 for step in nearer), gaps


async def test_a_slave_far_behind_gets_all_at_once_where_nobody_sends_or_somebody_waits_for_it(
    tmp_path, monkeypatch
):
    async with master(tmp_path / "a", BrokerRole.ASYNC_MASTER, ha_catch_up_rate=1) as served:
        seconds, gaps = await _far_behind(served, monkeypatch, bytes_a_second=0)
        assert seconds <= 0.5, gaps
    async with master(tmp_path / "s", BrokerRole.SYNC_MASTER, ha_catch_up_rate=1) as served:
        seconds, gaps = await _far_behind(served, monkeypatch, bytes_a_second=50_000)
        assert seconds <= 0.5, gaps


async def test_how_fast_a_slave_catches_up_is_changed_while_it_does(tmp_path, monkeypatch):
    monkeypatch.setattr(far_slave_rate, "FAR_SIZE", 100_000)
    monkeypatch.setattr(far_slave_rate, "QUIET_SIZE", 0)
    async with master(tmp_path, BrokerRole.ASYNC_MASTER, ha_catch_up_rate=1) as served:
        for _ in range(10):
            await send(served, body=bytes(100_000))
        slave, store = await slave_of(served), served.broker._store
        await asyncio.sleep(2)
        assert slave.end < 10
        settings = served.broker.in_force
        settings.change({"haCatchUpByteInSecond": "0"})
        await eventually(lambda: slave.end == store.max_offset, seconds=0.5)


async def test_the_smaller_of_two_bounds_holds(tmp_path, monkeypatch):
    async with master(
        tmp_path, BrokerRole.ASYNC_MASTER, is_ha_rate_bound=True, ha_rate_max=50_000,
        ha_catch_up_rate=1_000_000,
    ) as served:  # fmt: skip
        _, gaps = await _far_behind(served, monkeypatch, bytes_a_second=10_000)
        sent = [before - after + 5_000 for before, after in pairwise(gaps)]
        assert all(step < 31_000 for step in sent[1:10]), gaps
