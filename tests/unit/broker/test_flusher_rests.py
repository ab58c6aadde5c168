"""The flusher's timer while there is nothing to do, and after it, under virtual time."""

from __future__ import annotations

import asyncio

import pytest

from cometmq.broker.flusher import TICK_SECONDS, Flusher
from cometmq.net.loop import loop_clock
from cometmq.store.message_store import MessageStore
from cometmq.store.settings import StoreSettings
from tests.support.fake_disk import FakeDisk
from tests.support.store_puts import HOST_V4, make_put

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
