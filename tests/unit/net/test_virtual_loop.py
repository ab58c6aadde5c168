"""A loop under virtual time: the clock goes where the next timer is, and everything is done on one thread."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time

import pytest

from cometmq.codec.remoting import Command
from cometmq.model.errors import RequestTimeout
from cometmq.net.channel import Channel
from cometmq.net.loop import (
    beat_later,
    beat_sleep,
    beat_wait,
    loop_chance,
    loop_clock,
    loop_network,
    may_have_threads,
    not_quiet,
)
from cometmq.net.virtual_loop import (
    BEAT_SECONDS_MAX,
    QUIET_SECONDS,
    START_MS,
    LoopDeadlock,
    VirtualLoop,
)
from cometmq.wire.connection import Connection
from tests.support.virtual import run_virtually


def run(main, **settings):
    return run_virtually(main(), **settings)


def test_days_pass_in_a_moment_and_both_clocks_say_so():
    async def main():
        clock = loop_clock()
        began = clock.monotonic()
        assert clock.now_ms() == START_MS
        await asyncio.sleep(3 * 86_400)
        return clock.monotonic() - began, clock.now_ms() - START_MS

    began = time.monotonic()
    seconds, ms = run(main)
    assert time.monotonic() - began < 5
    assert seconds == pytest.approx(3 * 86_400, abs=0.01)
    assert ms == pytest.approx(3 * 86_400_000, abs=10)


def test_timers_come_in_their_order_each_at_its_time():
    async def main():
        loop, came = asyncio.get_running_loop(), []
        began = loop.time()

        def note(seconds):
            came.append((seconds, loop.time() - began))

        for seconds in (5.0, 0.25, 3600.0, 1.0):
            loop.call_later(seconds, note, seconds)
        await asyncio.sleep(4000)
        return came

    came = run(main)
    assert [due for due, _ in came] == [0.25, 1.0, 5.0, 3600.0]
    for due, at in came:
        assert at == pytest.approx(due, abs=0.001)


def test_a_timeout_is_virtual_too():
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(86_400):
                await asyncio.get_running_loop().create_future()

    run(main)


def test_who_looks_again_and_again_until_some_time_has_passed_comes_to_an_end():
    async def main():
        clock = loop_clock()
        until = clock.monotonic() + 0.001
        while clock.monotonic() < until:  # noqa: ASYNC110  As the broker's busy poll does.
            await asyncio.sleep(0)

    run(main)


def test_where_nothing_can_happen_any_more_it_says_so_instead_of_waiting_for_ever():
    async def main():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(LoopDeadlock, match="no timer is set"):
        run(main)


def test_work_for_threads_is_done_on_the_loop_in_the_time_that_it_is_given():
    async def main():
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        assert not may_have_threads()
        assert await asyncio.to_thread(threading.get_ident) == threading.get_ident()
        loop.executor_seconds = 2.0
        began = loop.time()
        done: list[int] = []
        work = loop.run_in_executor(None, done.append, 1)
        given_up = loop.run_in_executor(None, done.append, 2)
        await asyncio.sleep(1)
        assert done == []
        given_up.cancel()
        await work
        await asyncio.sleep(5)
        assert done == [1]
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)
        return loop.time() - began

    assert run(main) == pytest.approx(9.0, abs=0.001)


def test_chance_is_the_seeds():
    async def main():
        return [loop_chance().random() for _ in range(3)]

    assert run(main, seed=7) == run(main, seed=7) != run(main, seed=8)


def test_who_comes_while_the_address_is_given_up_is_turned_away():
    async def main():
        loop = asyncio.get_running_loop()
        came: list[object] = []
        assert isinstance(loop, VirtualLoop)
        bound = loop.network.bind("127.0.0.1", 9876)
        bound.listen(came.append)
        reader, writer = await asyncio.open_connection("127.0.0.1", 9876)
        bound.close()
        assert await reader.read() == b""
        writer.close()
        return came

    assert run(main) == []


def test_it_begins_when_it_is_told_to():
    async def main():
        return loop_clock().now_ms()

    assert run(main, start_ms=5) == 5


async def channel_to_nobody() -> Channel:
    """A channel on which nobody answers."""
    bound, tasks = loop_network().bind("127.0.0.1", 0), set()

    def take(accepted):
        tasks.add(asyncio.ensure_future(accepted.attach(asyncio.Protocol())))

    bound.listen(take)
    _, channel = await asyncio.get_running_loop().create_connection(
        lambda: Channel("nobody", loop_clock()), "127.0.0.1", bound.port
    )
    return channel


def test_a_channel_that_waits_for_long_is_left_alone_and_notices_a_short_timeout_in_time(
    monkeypatch,
):
    async def main():
        clock, looks = loop_clock(), []
        channel = await channel_to_nobody()
        expire = Connection.expire

        def look(wire, now):
            looks.append(now)
            return expire(wire, now)

        monkeypatch.setattr(Connection, "expire", look)
        began, late = clock.monotonic(), []

        async def call(seconds):
            with pytest.raises(RequestTimeout):
                await channel.call(Command(11), timeout_ms=seconds * 1000)
            late.append((seconds, clock.monotonic() - began - seconds))

        async with asyncio.TaskGroup() as group:
            group.create_task(call(3600))
            await asyncio.sleep(1000)
            began += 1000
            group.create_task(call(0.3))
            group.create_task(call(60))
            await asyncio.sleep(100)
            began -= 1000
        channel.close()
        return late, len(looks)

    late, looks = run(main)
    assert [seconds for seconds, _ in late] == [0.3, 60, 3600]
    assert all(0 <= seconds < 0.11 for _, seconds in late)
    assert looks < 12  # Each 50 ms made it 72,000.


def test_a_day_of_beats_is_leapt_over_and_leases_are_as_they_were():
    async def main():
        clock, beats = loop_clock(), []

        async def beat():
            while True:
                await beat_sleep(30)
                beats.append(clock.monotonic())

        lease_ends = clock.monotonic() + 2 * QUIET_SECONDS
        beating = asyncio.create_task(beat())
        began, began_ms = asyncio.get_running_loop().time(), clock.now_ms()
        await asyncio.sleep(86_400)
        assert asyncio.get_running_loop().time() - began == pytest.approx(86_400, abs=0.01)
        assert clock.now_ms() - began_ms == pytest.approx(86_400_000, abs=10)
        assert clock.monotonic() < lease_ends
        await asyncio.sleep(31)
        beating.cancel()
        return beats

    beats = run(main, has_leaps=True)
    assert len(beats) == QUIET_SECONDS / 30 + 1
    for earlier, later in itertools.pairwise(beats):
        assert later - earlier == pytest.approx(30, abs=0.01)


def test_without_leaps_each_beat_comes():
    async def main():
        count = 0

        def beat():
            nonlocal count
            count += 1
            beat_later(30, beat)

        beat_later(30, beat)
        await asyncio.sleep(3_601)
        return count

    assert run(main) == 120


@pytest.mark.parametrize("seconds", [60, BEAT_SECONDS_MAX + 1])
def test_what_is_no_beat_is_never_leapt_over(seconds):
    """Neither a timer of a program, nor a beat that is too long for one."""

    async def main():
        loop, came = asyncio.get_running_loop(), []
        began = loop.time()

        def note():
            came.append(loop.time() - began)
            set_timer(seconds, note)

        set_timer = loop.call_later if seconds == 60 else beat_later
        beat_later(1, lambda: None)
        note()
        await asyncio.sleep(10 * seconds + 1)
        return came

    assert len(run(main, has_leaps=True)) == 11


def test_who_asks_again_and_again_waits_as_long_as_without_leaps():
    async def main():
        loop = asyncio.get_running_loop()
        began = loop.time()
        ends = loop.call_later(86_400, lambda: None)
        for _ in range(100):
            not_quiet()
            await beat_sleep(20)
        ends.cancel()
        return loop.time() - began

    assert run(main, has_leaps=True) == pytest.approx(2_000, abs=1)


def test_a_wait_for_nothing_but_beats_is_told():
    async def main():
        def beat():
            beat_later(30, beat)

        beat()
        await asyncio.Event().wait()

    with pytest.raises(LoopDeadlock):
        run(main, has_leaps=True)


@pytest.mark.parametrize(("seconds", "is_event"), [(1, False), (3, True)])
def test_a_wait_ends_with_its_event_or_with_its_beat(seconds, is_event):
    async def main():
        event = asyncio.Event()
        asyncio.get_running_loop().call_later(2, event.set)
        return await beat_wait(event, seconds), event.is_set()

    assert run(main) == (is_event, True)


def test_a_beat_that_was_taken_back_never_comes():
    async def main():
        came = []
        beat_later(1, lambda: came.append(1))()
        await asyncio.sleep(2)
        return came

    assert run(main) == []
