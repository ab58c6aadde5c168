"""The flusher's timer while there is nothing to do, and after it, under virtual time."""

from __future__ import annotations

import asyncio

import pytest

from cometmq.broker.loop.flusher import TICK_SECONDS, Flusher
from cometmq.net.loop import loop_clock
from cometmq.store.message_store import MessageStore
from cometmq.store.settings import StoreSettings
from tests.support.fake_disk import FakeDisk
from tests.support.store_puts import HOST_V4, make_put
from tests.unit.broker.conftest import serve
from tests.unit.broker.waiting import send

SMALL = StoreSettings(commitlog_file_size=1 << 20, queue_file_size=400, disk_reserve=0)


async def ticks_in(monkeypatch: pytest.MonkeyPatch, store: MessageStore, seconds: float) -> int:
    """How often the store is asked what is due."""
    ticks, tick = [], store.tick

    def counted() -> None:
        ticks.append(1)
        tick()

    with monkeypatch.context() as patched:
        patched.setattr(store, "tick", counted)
        await asyncio.sleep(seconds)
    return len(ticks)


async def test_a_store_at_rest_is_asked_once_a_second_and_a_write_begins_the_ticks_again(
    monkeypatch,
):
    clock = loop_clock()
    store = MessageStore.open("/store", SMALL, clock=clock, disk=FakeDisk())
    store.store_host = HOST_V4
    flusher = Flusher(store, clock)
    flusher.start()
    try:
        await asyncio.sleep(60)
        assert await ticks_in(monkeypatch, store, 60) <= 61
        store.put_many([make_put(store, body=b"x")])
        store.dispatch_pending()
        flusher.written()
        assert await ticks_in(monkeypatch, store, 1) >= 0.9 / TICK_SECONDS
        await asyncio.sleep(SMALL.flush_thorough_interval_ms / 1000)
        assert store.flushed_offset == store.max_offset
        await asyncio.sleep(60)  # A checkpoint follows.
        assert await ticks_in(monkeypatch, store, 60) <= 61
    finally:
        await flusher.close()
        store.close()
    assert store.is_at_rest()


@pytest.mark.parametrize("is_pooled", [False, True])
async def test_a_send_that_nobody_waits_for_ends_the_rest_too(tmp_path, is_pooled):
    async with serve(tmp_path, is_pool_used=is_pooled) as served:
        store = served.broker._store
        await send(served, b"the first makes the topic")
        await asyncio.sleep(100.3)
        assert store.is_at_rest()
        await send(served, b"x" * 20_000)  # More pages than a flush waits for.
        await asyncio.sleep(3 * TICK_SECONDS)
        # What waited in the pool is visible, and what lay in the page cache on the device.
        assert store.dispatched_offset == store.flushed_offset == store.max_offset
