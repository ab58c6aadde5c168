"""What a broker does now and then, by values: it sleeps while there is nothing, and is late with nothing."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from cometmq.broker.counters.counters import Counters
from cometmq.broker.housekeeping import MEMBERS_SECONDS, PERIOD_SECONDS, Housekeeping
from cometmq.broker.tables.locks import LOCK_SECONDS, QueueLocks
from cometmq.broker.tables.long_polls import LongPolls
from cometmq.broker.tables.members import Client, Members
from cometmq.broker.tables.saving import Saver
from cometmq.model.queue import MessageQueue
from cometmq.model.rights import EVERYBODY
from cometmq.net.loop import loop_clock
from cometmq.steps.on_loop import LoopWorld, Machines
from cometmq.store.config_file import ConfigFile
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.real_disk import RealDisk
from tests.unit.broker.client_by_hand import HandClientPeer

SAVE_SECONDS = 5.0
SILENT_SECONDS = 120.0


class House(SimpleNamespace):
    steps: int = 0


@pytest.fixture
async def house(tmp_path):
    numbers = count()
    clock, pool = loop_clock(), ThreadPoolExecutor(1)
    files = [ConfigFile(str(tmp_path / name), RealDisk()) for name in ("a.json", "locks.json")]
    made = House(
        clock=clock,
        path=tmp_path / "a.json",
        counters=Counters(clock),
        polls=LongPolls(clock),
        members=Members(
            clock, timeout_ms=int(SILENT_SECONDS * 1000), is_notified=lambda _: False
        ),
        locks=QueueLocks(files[1], clock=clock, pool=pool),
        saver=Saver(files[0], lambda: lambda: str(next(numbers)), pool),
    )
    keeping = Housekeeping(
        made,  # type: ignore[arg-type]  # It has the parts that are used.
        savers=(made.saver,),
        save_seconds=SAVE_SECONDS,
    )

    def step() -> float:
        made.steps += 1
        return keeping.step()

    machines = Machines(LoopWorld(pool, SimpleNamespace()), "test")
    keeping.woken_by(machines.keep("house", step, period_seconds=PERIOD_SECONDS))
    await asyncio.sleep(1)
    yield made
    await machines.close()
    pool.shutdown()


async def test_an_idle_day_is_no_step(house):
    before = house.steps
    await asyncio.sleep(86_400)
    assert house.steps == before


def count_puts(counters: Counters, number: int) -> None:
    queue = ConsumeQueue("orders", 0)
    counters.follow(queue)
    puts: Any = [(queue,)] * number
    results = [(0, 0, 10)] * number
    counters.count_puts(puts, results, counters.now(), counters.inner_puts)


async def test_what_is_counted_after_a_rest_is_in_the_rates_of_its_time_and_no_longer(house):
    await asyncio.sleep(3_600)
    count_puts(house.counters, 100)
    await asyncio.sleep(5)
    now = house.clock.monotonic()
    assert house.counters.rates(now)["put"] == pytest.approx((10, 100 / 60, 100 / 600))
    await asyncio.sleep(20)
    now = house.clock.monotonic()
    assert house.counters.rates(now)["put"] == pytest.approx((0, 100 / 60, 100 / 600))
    before = house.steps
    await asyncio.sleep(3_600)
    assert house.counters.rates(house.clock.monotonic())["put"] == (0, 0, 0)
    assert house.steps == before


async def test_a_busy_second_is_two_steps_at_most(house):
    before = house.steps
    for _ in range(1_000):
        count_puts(house.counters, 1)
        house.saver.changed()
        await asyncio.sleep(0.01)
    assert house.steps - before < 25
    rates = house.counters.rates(house.clock.monotonic())
    assert rates["put"][0] == pytest.approx(100, rel=0.02)


async def test_a_change_is_on_disk_in_its_time_and_saves_keep_their_distance(house):
    await asyncio.sleep(3_600)
    house.saver.changed()
    await asyncio.sleep(SAVE_SECONDS)
    assert house.path.exists()
    assert not house.saver.is_dirty
    house.path.unlink()
    house.saver.changed()
    await asyncio.sleep(PERIOD_SECONDS)
    house.saver.changed()
    await asyncio.sleep(SAVE_SECONDS)
    assert house.path.exists()


async def test_a_save_that_fails_is_tried_again(house):
    house.path.mkdir()
    house.saver.changed()
    await asyncio.sleep(1)
    assert house.saver.is_dirty
    house.path.rmdir()
    await asyncio.sleep(SAVE_SECONDS)
    assert house.path.is_file()


async def test_a_client_that_falls_silent_goes_in_its_time(house):
    await asyncio.sleep(3_600)
    peer = HandClientPeer()
    began = house.clock.monotonic()
    house.members.register_producer("g", Client("c", peer, EVERYBODY, 0, 0, began))
    await asyncio.sleep(SILENT_SECONDS - 1)
    assert not peer.is_closed
    await asyncio.sleep(1 + MEMBERS_SECONDS + PERIOD_SECONDS)
    assert peer.is_closed


async def test_a_lock_that_nobody_renews_is_forgotten_in_its_time(house):
    await asyncio.sleep(3_600)
    queue = MessageQueue("t", "b", 0)
    obtained, saved = house.locks.lock([queue], group="g", client_id="c")
    assert obtained == [queue]
    await saved
    await asyncio.sleep(LOCK_SECONDS + MEMBERS_SECONDS + PERIOD_SECONDS)
    assert not list(house.locks._all())
