"""Pop as services: what waits and what is read elsewhere (the rest: test_pop.py); values in, values out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from cometmq.broker.pop import waiting
from cometmq.broker.pop.group_offsets import GroupOffsets
from cometmq.broker.pop.journal import Journal
from cometmq.broker.pop.orders import Orders
from cometmq.broker.pop.popping import NoticeResult, Popping, PopResult
from cometmq.broker.pop.reading import PopReader
from cometmq.broker.pop.revive import Revive
from cometmq.broker.pop.waiting import HeldPop, HeldState, PopLongPolls
from cometmq.codec.headers.pop import (
    FROM_MAX,
    FROM_MIN,
    NotificationRequest,
    PollingInfoRequest,
    PopRequest,
)
from cometmq.codec.record import decode_records
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.steps.steps import Done, Steps, called_back, elsewhere
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
        reader = PopReader(parts, journal=self.journal, offsets=offsets, orders=orders)
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


def came_again(bench: Bench) -> list[bytes]:
    records = bench.parts.store.get("%RETRY%g_orders", 0, 0).records
    return [record.body for record in decode_records(b"".join(records))]


@pytest.mark.parametrize("damaged", [1, 3])
async def test_a_damaged_message_that_is_not_to_come_again_stops_no_other(
    bench, tmp_path, damaged
):
    bench.send(*[b"%d" % number * 40 for number in range(4)])
    assert len(bodies(bench.popped(max_msg_nums=3))) == 3
    (point,) = bench.check_points.points()
    bench.check_points.acknowledge_bits(point, 1 << 1)
    entry = bench.parts.store.entries(bench.parts.store.queue("orders", 0), damaged, 1)[0]
    (log,) = (tmp_path / "commitlog").iterdir()
    with log.open("r+b") as file:
        file.seek(entry.physical_offset + 84)
        file.write(b"\x7f")
    bench.pass_time(61)
    assert came_again(bench) == [b"0" * 40, b"2" * 40]


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


KEY = ("orders", "g")


class Said(NamedTuple):
    """What an attempt gives here."""

    word: str


FOUND, LATE = Said("found"), Said("late")


class WaitBench:
    """The machine, and pops whose attempts the test decides."""

    def __init__(self, parts) -> None:
        self.parts = parts
        self.store, self.topics, self.world = parts.store, parts.topics, parts.world
        self.clock: HandClock = parts.clock
        self.polls = PopLongPolls(parts)
        self.tried: list[ListCaller] = []
        parts.store.on_arrival = parts.polls.arrived

    def pop(
        self,
        gives: Callable[[], Any] = lambda: FOUND,
        caller: ListCaller | None = None,
        *,
        queue_id: int = -1,
        seconds: float = 20,
        **more,
    ) -> tuple[ListCaller, HeldPop]:
        caller = caller or ListCaller()

        def attempt() -> Any:
            self.tried.append(caller)
            return gives()

        deadline = self.clock.monotonic() + seconds
        held = HeldPop(KEY, queue_id, caller, deadline, attempt, lambda: LATE, **more)
        return caller, held

    def hold(self, *args, **more) -> ListCaller:
        caller, held = self.pop(*args, **more)
        assert self.polls.hold(held)
        return caller

    def arrive(self, queue_id: int = 0) -> None:
        put(self.store, b"x", queue_id=queue_id)
        self.world.settle()

    def pass_time(self, seconds: float) -> None:
        self.clock.turn(seconds)
        self.polls.expire(self.clock.monotonic())
        self.world.settle()

    @property
    def is_free(self) -> bool:
        """Whether nothing counts in anybody's share any more."""
        return not self.polls._bounds._of


@pytest.fixture
async def waits(tables) -> WaitBench:
    return WaitBench(tables)


async def test_an_arrival_is_noted_and_answers_in_the_next_turn(waits):
    caller = waits.hold()
    put(waits.store, b"x")
    assert waits.tried == []
    waits.world.settle()
    assert caller.answers == [FOUND]
    assert (len(waits.polls), waits.is_free) == (0, True)


async def test_they_are_tried_in_their_order_until_one_finds_nothing(waits):
    left = [FOUND]
    callers = [waits.hold(lambda: left.pop() if left else None) for _ in range(3)]
    waits.arrive()
    assert waits.tried == callers[:2]
    assert [caller.answers for caller in callers] == [[FOUND], [], []]
    left += [FOUND, FOUND]
    waits.arrive()
    assert waits.tried[2:] == callers[1:]
    assert waits.is_free


async def test_who_asks_for_another_queue_is_tried_too(waits):
    one = waits.hold(lambda: None, queue_id=1)
    other = waits.hold(queue_id=0)
    waits.arrive()
    assert (one.answers, other.answers) == ([], [FOUND])
    assert waits.polls.count(KEY, 1) == 1


async def test_time_answers_each_at_its_own_and_not_before(waits):
    late, early = waits.hold(seconds=2), waits.hold(seconds=1)
    waits.pass_time(0.999)
    assert (early.answers, late.answers) == ([], [])
    waits.pass_time(0.001)
    assert (early.answers, late.answers) == ([LATE], [])
    waits.pass_time(1)
    assert late.answers == [LATE]
    assert waits.tried == []
    assert (len(waits.polls), waits.is_free) == (0, True)


async def test_who_is_gone_is_forgotten_and_not_answered(waits):
    by_time, by_arrival = waits.hold(), waits.hold()
    by_time.is_gone = True
    waits.pass_time(1)
    assert len(waits.polls) == 1
    by_arrival.is_gone = True
    waits.arrive()
    assert (waits.tried, by_time.answers, by_arrival.answers) == ([], [], [])
    assert (len(waits.polls), waits.is_free) == (0, True)


async def test_a_topic_that_is_deleted_is_looked_at_and_its_attempt_says_so(waits):
    def refuse() -> None:
        raise RequestError(ResponseCode.TOPIC_NOT_EXIST, "gone")

    caller = waits.hold(refuse)
    waits.topics.delete("orders", end=0)
    waits.pass_time(1)
    assert [error.code for error in caller.answers] == [ResponseCode.TOPIC_NOT_EXIST]
    assert (len(waits.polls), waits.is_free) == (0, True)


async def test_one_owner_may_let_so_many_wait_and_others_still_may(waits, monkeypatch):
    monkeypatch.setattr(waiting, "PEER_WAITING_MAX", 2)
    polls = waits.polls = PopLongPolls(waits.parts)
    for _ in range(2):
        waits.hold()
    assert not polls.hold(waits.pop()[1])
    waits.hold(caller=ListCaller("other"))
    waits.pass_time(20)
    waits.hold()  # What was answered counts no more.


async def test_expressions_are_weighed(waits):
    size = waiting.PEER_SIZE_MAX // 4
    for _ in range(3):
        waits.hold(text_size=size)
    assert not waits.polls.hold(waits.pop(text_size=size)[1])
    assert waits.polls.hold(waits.pop()[1])


# --- attempts that take time


class Reading:
    """A read from the disk that ends when the test says so."""

    def __init__(self) -> None:
        self.end: Done = lambda *_: None

    def steps(self) -> Steps[Said | None]:
        result: Said | None = yield from called_back(self._begin)
        return result

    def _begin(self, done: Done) -> None:
        self.end = done


async def test_an_attempt_under_way_waits_for_nothing_and_answers_when_it_is_done(waits):
    read = Reading()
    caller = waits.hold(read.steps)
    waits.arrive()
    assert (len(waits.polls), waits.is_free) == (0, False)
    waits.pass_time(30)
    assert caller.answers == []
    read.end(FOUND, None)
    assert (caller.answers, waits.is_free) == ([FOUND], True)


async def test_an_attempt_that_need_not_wait_is_as_one_without_steps(waits):
    def found() -> Steps[Said]:
        yield from ()
        return FOUND

    def nothing() -> Steps[None]:
        yield from ()

    gives = iter([nothing(), nothing(), found()])
    caller = waits.hold(lambda: next(gives))
    for count in (1, 1, 0):
        waits.arrive()
        assert (len(waits.polls), waits.polls.count(KEY, -1)) == (count, count)
    assert (caller.answers, waits.is_free) == ([FOUND], True)


async def test_an_attempt_that_found_nothing_waits_on_in_front_of_the_others(waits):
    read = Reading()
    gives = iter([read.steps(), None, FOUND])
    first = waits.hold(lambda: next(gives))
    waits.arrive()
    second = waits.hold()
    read.end(None, None)
    assert (first.answers, len(waits.polls)) == ([], 2)
    waits.arrive()
    waits.arrive()
    assert waits.tried == [first, first, first, second]
    assert (first.answers, second.answers, waits.is_free) == ([FOUND], [FOUND], True)


async def test_an_attempt_that_did_not_look_at_everything_is_tried_again_at_once(waits):
    read = Reading()
    gives = iter([read.steps(), FOUND])
    caller, held = waits.pop(lambda: next(gives))
    waits.polls.hold(held)
    waits.arrive()
    assert held.state is HeldState.READING
    held.is_unfinished = True
    read.end(None, None)
    waits.world.settle()
    assert caller.answers == [FOUND]


async def test_what_came_while_an_attempt_was_under_way_leads_to_another_one(waits):
    reads = [Reading() for _ in range(2)]
    gives = iter([*(read.steps() for read in reads), FOUND])
    caller = waits.hold(lambda: next(gives))
    waits.arrive()
    waits.arrive()  # Behind the place where the attempt has looked already.
    assert len(waits.tried) == 1
    reads[0].end(None, None)
    waits.world.settle()
    assert len(waits.tried) == 2
    reads[1].end(None, None)
    waits.world.settle()
    assert len(waits.tried) == 2  # Nothing came this time.
    waits.arrive()
    assert (caller.answers, waits.is_free) == ([FOUND], True)
    assert not waits.parts.polls._watchers


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_an_attempt_that_fails_or_is_stopped_waits_no_more(waits, is_stopped):
    read = Reading()
    caller = waits.hold(read.steps)
    waits.arrive()
    (run,) = caller.later
    error = RequestError(1, "bad")
    if is_stopped:
        run.stop(lambda: None)
    else:
        read.end(None, error)
    assert caller.answers == ([] if is_stopped else [error])
    assert (len(waits.polls), waits.is_free) == (0, True)


async def test_who_cannot_be_tried_waits_no_more(waits):
    """A connection of which too much is worked on refuses the attempt, and is answered so."""

    class Busy(ListCaller):
        def answer(self, work: Callable[[], Any]) -> None:
            self.answers.append("busy")

    caller = waits.hold(caller=Busy())
    waits.arrive()
    assert (waits.tried, caller.answers, waits.is_free) == ([], ["busy"], True)
