"""Pops that wait: arrivals and time come in, callers are answered; no socket, no second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from cometmq.broker.pop import waiting
from cometmq.broker.pop.waiting import HeldPop, HeldState, PopLongPolls
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.steps.steps import Done, Steps, called_back
from tests.support.hand_clock import HandClock
from tests.support.store_puts import put
from tests.unit.broker.list_caller import ListCaller

KEY = ("orders", "g")


class Said(NamedTuple):
    """What an attempt gives here."""

    word: str


FOUND, LATE = Said("found"), Said("late")


class Bench:
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
async def bench(tables) -> Bench:
    return Bench(tables)


async def test_an_arrival_is_noted_and_answers_in_the_next_turn(bench):
    caller = bench.hold()
    put(bench.store, b"x")
    assert bench.tried == []
    bench.world.settle()
    assert caller.answers == [FOUND]
    assert (len(bench.polls), bench.is_free) == (0, True)


async def test_they_are_tried_in_their_order_until_one_finds_nothing(bench):
    left = [FOUND]
    callers = [bench.hold(lambda: left.pop() if left else None) for _ in range(3)]
    bench.arrive()
    assert bench.tried == callers[:2]
    assert [caller.answers for caller in callers] == [[FOUND], [], []]
    left += [FOUND, FOUND]
    bench.arrive()
    assert bench.tried[2:] == callers[1:]
    assert bench.is_free


async def test_who_asks_for_another_queue_is_tried_too(bench):
    one = bench.hold(lambda: None, queue_id=1)
    other = bench.hold(queue_id=0)
    bench.arrive()
    assert (one.answers, other.answers) == ([], [FOUND])
    assert bench.polls.count(KEY, 1) == 1


async def test_time_answers_each_at_its_own_and_not_before(bench):
    late, early = bench.hold(seconds=2), bench.hold(seconds=1)
    bench.pass_time(0.999)
    assert (early.answers, late.answers) == ([], [])
    bench.pass_time(0.001)
    assert (early.answers, late.answers) == ([LATE], [])
    bench.pass_time(1)
    assert late.answers == [LATE]
    assert bench.tried == []
    assert (len(bench.polls), bench.is_free) == (0, True)


async def test_who_is_gone_is_forgotten_and_not_answered(bench):
    by_time, by_arrival = bench.hold(), bench.hold()
    by_time.is_gone = True
    bench.pass_time(1)
    assert len(bench.polls) == 1
    by_arrival.is_gone = True
    bench.arrive()
    assert (bench.tried, by_time.answers, by_arrival.answers) == ([], [], [])
    assert (len(bench.polls), bench.is_free) == (0, True)


async def test_a_topic_that_is_deleted_is_looked_at_and_its_attempt_says_so(bench):
    def refuse() -> None:
        raise RequestError(ResponseCode.TOPIC_NOT_EXIST, "gone")

    caller = bench.hold(refuse)
    bench.topics.delete("orders", end=0)
    bench.pass_time(1)
    assert [error.code for error in caller.answers] == [ResponseCode.TOPIC_NOT_EXIST]
    assert (len(bench.polls), bench.is_free) == (0, True)


async def test_one_owner_may_let_so_many_wait_and_others_still_may(bench, monkeypatch):
    monkeypatch.setattr(waiting, "PEER_WAITING_MAX", 2)
    polls = bench.polls = PopLongPolls(bench.parts)
    for _ in range(2):
        bench.hold()
    assert not polls.hold(bench.pop()[1])
    bench.hold(caller=ListCaller("other"))
    bench.pass_time(20)
    bench.hold()  # What was answered counts no more.


async def test_expressions_are_weighed(bench):
    size = waiting.PEER_SIZE_MAX // 4
    for _ in range(3):
        bench.hold(text_size=size)
    assert not bench.polls.hold(bench.pop(text_size=size)[1])
    assert bench.polls.hold(bench.pop()[1])


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


async def test_an_attempt_under_way_waits_for_nothing_and_answers_when_it_is_done(bench):
    read = Reading()
    caller = bench.hold(read.steps)
    bench.arrive()
    assert (len(bench.polls), bench.is_free) == (0, False)
    bench.pass_time(30)
    assert caller.answers == []
    read.end(FOUND, None)
    assert (caller.answers, bench.is_free) == ([FOUND], True)


async def test_an_attempt_that_need_not_wait_is_as_one_without_steps(bench):
    def found() -> Steps[Said]:
        yield from ()
        return FOUND

    def nothing() -> Steps[None]:
        yield from ()

    gives = iter([nothing(), nothing(), found()])
    caller = bench.hold(lambda: next(gives))
    for count in (1, 1, 0):
        bench.arrive()
        assert (len(bench.polls), bench.polls.count(KEY, -1)) == (count, count)
    assert (caller.answers, bench.is_free) == ([FOUND], True)


async def test_an_attempt_that_found_nothing_waits_on_in_front_of_the_others(bench):
    read = Reading()
    gives = iter([read.steps(), None, FOUND])
    first = bench.hold(lambda: next(gives))
    bench.arrive()
    second = bench.hold()
    read.end(None, None)
    assert (first.answers, len(bench.polls)) == ([], 2)
    bench.arrive()
    bench.arrive()
    assert bench.tried == [first, first, first, second]
    assert (first.answers, second.answers, bench.is_free) == ([FOUND], [FOUND], True)


async def test_an_attempt_that_did_not_look_at_everything_is_tried_again_at_once(bench):
    read = Reading()
    gives = iter([read.steps(), FOUND])
    caller, held = bench.pop(lambda: next(gives))
    bench.polls.hold(held)
    bench.arrive()
    assert held.state is HeldState.READING
    held.is_unfinished = True
    read.end(None, None)
    bench.world.settle()
    assert caller.answers == [FOUND]


async def test_what_came_while_an_attempt_was_under_way_leads_to_another_one(bench):
    reads = [Reading() for _ in range(2)]
    gives = iter([*(read.steps() for read in reads), FOUND])
    caller = bench.hold(lambda: next(gives))
    bench.arrive()
    bench.arrive()  # Behind the place where the attempt has looked already.
    assert len(bench.tried) == 1
    reads[0].end(None, None)
    bench.world.settle()
    assert len(bench.tried) == 2
    reads[1].end(None, None)
    bench.world.settle()
    assert len(bench.tried) == 2  # Nothing came this time.
    bench.arrive()
    assert (caller.answers, bench.is_free) == ([FOUND], True)
    assert not bench.parts.polls._watchers


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_an_attempt_that_fails_or_is_stopped_waits_no_more(bench, is_stopped):
    read = Reading()
    caller = bench.hold(read.steps)
    bench.arrive()
    (run,) = caller.later
    error = RequestError(1, "bad")
    if is_stopped:
        run.stop(lambda: None)
    else:
        read.end(None, error)
    assert caller.answers == ([] if is_stopped else [error])
    assert (len(bench.polls), bench.is_free) == (0, True)


async def test_who_cannot_be_tried_waits_no_more(bench):
    """A connection of which too much is worked on refuses the attempt, and is answered so."""

    class Busy(ListCaller):
        def answer(self, work: Callable[[], Any]) -> None:
            self.answers.append("busy")

    caller = bench.hold(caller=Busy())
    bench.arrive()
    assert (bench.tried, caller.answers, bench.is_free) == ([], ["busy"], True)
