"""Pop as services: what waits and what is read elsewhere (the rest: test_pop.py); values in, values out."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from cometmq.broker.pop import waiting
from cometmq.broker.pop.group_offsets import GroupOffsets
from cometmq.broker.pop.journal import Journal
from cometmq.broker.pop.orders import Orders
from cometmq.broker.pop.popping import NoticeResult, Popping, PopResult
from cometmq.broker.pop.reading import PopReader
from cometmq.broker.pop.revive import Revive
from cometmq.broker.pop.waiting import PopLongPolls
from cometmq.codec.headers.pop import (
    FROM_MAX,
    FROM_MIN,
    NotificationRequest,
    PollingInfoRequest,
    PopRequest,
)
from cometmq.codec.record import decode_records
from cometmq.model.codes import ResponseCode
from cometmq.steps.steps import elsewhere
from cometmq.store.real_disk import RealDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import put
from tests.unit.broker.list_caller import ListCaller


class Bench:
    """Pop's services over a store, all their time a hand clock's."""

    def __init__(self, parts) -> None:
        self.parts, self.world = parts, parts.world
        self.clock: HandClock = parts.clock
        self.journal = Journal(parts)
        self.check_points = self.journal.check_points
        offsets = GroupOffsets(parts, self.check_points)
        orders = Orders(parts)
        self.waiting = PopLongPolls(parts)
        reader = PopReader(
            parts, journal=self.journal, offsets=offsets, orders=orders, chance=Random(1)
        )
        self.popping = Popping(
            parts,
            reader=reader,
            waiting=self.waiting,
            check_points=self.check_points,
            orders=orders,
        )
        self.revive = Revive(parts, journal=self.journal, waiting=self.waiting)
        parts.store.on_arrival = parts.polls.arrived

    def send(self, *bodies: bytes) -> None:
        put(self.parts.store, *bodies)
        self.world.settle()

    def pop(self, caller: ListCaller | None = None, **more) -> ListCaller:
        """Pop, and give who asked."""
        fields = {
            "consumer_group": "g", "topic": "orders", "queue_id": -1, "max_msg_nums": 32,
            "invisible_time": 60_000, "poll_time": 0, "init_mode": FROM_MIN,
        }  # fmt: skip
        caller = caller or ListCaller(world=self.world)
        request = PopRequest(**{**fields, **more})
        caller.answer(lambda: self.popping.pop(request, caller))
        return caller

    def popped(self, **more) -> PopResult:
        (result,) = self.pop(**more).answers
        assert isinstance(result, PopResult)
        return result

    def asked(self, poll_time: int = 0) -> ListCaller:
        """Ask whether there is something to pop, and give who asked."""
        caller = ListCaller()
        request = NotificationRequest("g", "orders", -1, poll_time)
        caller.answer(lambda: self.popping.notification(request, caller))
        return caller

    def pass_time(self, seconds: float) -> None:
        """Let time go by, and what falls due then be done."""
        self.clock.turn(seconds)
        self.waiting.wake_ordered()
        self.waiting.expire(self.clock.monotonic())
        self.world.run(self.revive.hand_on(self.check_points.pop_due(self.clock.now_ms())))


def bodies(result: PopResult) -> list[bytes]:
    return [record.body for record in decode_records(b"".join(result.records))]


@pytest.fixture
async def bench(tables) -> Bench:
    return Bench(tables)


async def test_a_pop_that_waits_is_answered_by_a_message(bench):
    caller = bench.pop(poll_time=20_000)
    assert (caller.answers, caller.is_held) == ([], True)
    assert bench.popping.polling(PollingInfoRequest("g", "orders", -1)) == 1
    bench.send(b"1")
    (result,) = caller.answers
    assert (result.code, bodies(result)) == (ResponseCode.SUCCESS, [b"1"])
    assert bench.popping.polling(PollingInfoRequest("g", "orders", -1)) == 0


async def test_a_pop_that_waits_is_answered_late_and_not_before(bench):
    caller = bench.pop(poll_time=5_000)
    bench.pass_time(4.999)
    assert caller.answers == []
    bench.pass_time(0.001)
    (result,) = caller.answers
    assert (result.code, result.records) == (ResponseCode.POLLING_TIMEOUT, [])
    bench.send(b"1")
    assert len(caller.answers) == 1


async def test_what_came_while_a_pop_read_what_is_not_in_memory_answers_it(bench, monkeypatch):
    reader = bench.popping._reader
    collect = reader.collect

    def read_long(pop):
        monkeypatch.setattr(reader, "collect", collect)
        taken = yield from collect(pop)
        yield from elsewhere(lambda: put(bench.parts.store, b"meanwhile"))
        taken.is_cold = True
        return taken

    monkeypatch.setattr(reader, "collect", read_long)
    caller = bench.pop(poll_time=10_000)
    bench.world.settle()
    assert [bodies(answer) for answer in caller.answers] == [[b"meanwhile"]]


async def test_the_store_time_where_a_group_begins_is_not_read_on_the_loop(bench, monkeypatch):
    monkeypatch.setattr(bench.parts.store._reading._reader, "_in_memory_bytes", -1)
    bench.parts.offsets.commit("g", "orders", 1, offset=0)
    bench.clock.turn(1)
    bench.send(b"1", b"2")
    store_time, waits = bench.parts.store.earliest_store_time, []

    def cold(queue, *, may_wait=True):
        waits.append(may_wait)
        if not may_wait:
            raise BlockingIOError
        return store_time(queue)

    monkeypatch.setattr(bench.parts.store, "earliest_store_time", cold)
    callers = [bench.pop(queue_id=0, init_mode=FROM_MAX) for _ in range(2)]
    assert waits == [False, False]
    bench.world.settle()
    assert [bodies(answer) for each in callers for answer in each.answers] == [[b"1", b"2"], []]


async def test_a_new_group_is_not_sent_to_the_beginning_of_an_old_queue_whose_read_must_wait(
    bench, monkeypatch
):
    bench.send(b"1", b"2")
    reader = bench.parts.store._reading._reader
    monkeypatch.setattr(reader, "_in_memory_bytes", -1)
    monkeypatch.setattr(reader._log, "warm_start", 1 << 40)
    monkeypatch.setattr(RealDisk, "pread_nowait", lambda *_: None)
    caller = bench.pop(queue_id=0, init_mode=FROM_MAX)
    bench.world.settle()
    assert [bodies(answer) for answer in caller.answers] == [[b"2"]]


async def test_a_pop_that_was_answered_at_once_keeps_what_came_with_it(bench):
    bench.send(b"1")
    assert not bench.pop().is_held


async def test_what_an_expression_does_not_want_answers_nobody(bench):
    sql = {"exp_type": "SQL92", "exp": "k = 'other'"}
    caller = bench.pop(poll_time=20_000, **sql)
    bench.send(b"1")
    await asyncio.sleep(0.1)  # Filters have their turn in the loop.
    assert caller.answers == []
    assert len(bench.waiting) == 1
    bench.pass_time(20)
    assert [result.code for result in caller.answers] == [ResponseCode.POLLING_TIMEOUT]
    assert bodies(bench.popped(consumer_group="h", exp_type="SQL92", exp="k = 'v'")) == [b"1"]


async def test_more_than_may_wait_are_told_so(tables, monkeypatch):
    monkeypatch.setattr(waiting, "PEER_WAITING_MAX", 2)
    bench = Bench(tables)
    callers = [bench.pop(poll_time=5_000) for _ in range(3)]
    assert [len(caller.answers) for caller in callers] == [0, 0, 1]
    assert callers[2].answers[0].code == ResponseCode.POLLING_FULL


# --- is there something to pop?


async def test_a_notification_says_at_once_what_is_there(bench):
    assert bench.asked().answers == [NoticeResult(has_message=False)]
    bench.send(b"1")
    assert bench.asked(20_000).answers == [NoticeResult(has_message=True)]
    bench.popped()
    assert bench.asked().answers == [NoticeResult(has_message=False)]


async def test_a_notification_waits_for_a_message_or_its_time(bench):
    caller, late = bench.asked(20_000), bench.asked(1_000)
    assert (caller.answers, caller.is_held) == ([], True)
    bench.pass_time(1)
    assert late.answers == [NoticeResult(has_message=False)]
    bench.send(b"1")
    assert caller.answers == [NoticeResult(has_message=True)]
    assert bodies(bench.popped()) == [b"1"]  # It took nothing.


# --- acknowledged, or not
