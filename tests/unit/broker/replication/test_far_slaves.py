"""A slave that is far behind while others send, or nobody does, with slaves by bytes under virtual time."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from cometmq.broker.settings.broker_settings import BrokerRole
from cometmq.replication import far_slave_rate
from tests.unit.broker.conftest import eventually, virtual_loop
from tests.unit.broker.replication.test_masters import master, send, slave_of


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
