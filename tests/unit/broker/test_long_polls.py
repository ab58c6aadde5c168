"""Pulls that wait: arrivals and time come in, pulls to be done again go out; no loop, no socket, no second."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.broker.loop.sliced_work import SLICE_SECONDS
from cometmq.broker.tables import long_polls
from cometmq.broker.tables.long_polls import HeldPull, LongPolls
from cometmq.codec.headers.pull import PullRequest
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.store.consume_queue import ConsumeQueue
from tests.support.hand_clock import HandClock
from tests.unit.broker.list_caller import ListCaller


class Bench:
    """The machine, what it gave out, and the turns that it asked for."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.turns: list[Callable[[], None]] = []
        self.polls = LongPolls(self.clock, self.turns.append)
        self.queue = ConsumeQueue("Orders", 0)
        self.out: list[HeldPull] = []
        self.seconds_each = 0.0

    def hold(self, codes=None, seconds=20.0, caller=None, queue=None, **more) -> HeldPull:
        fields = {"subscription": None, "consumer_group": "g"} | more
        request = PullRequest(
            topic="Orders", queue_id=0, queue_offset=0, max_msg_nums=1, sys_flag=2, **fields
        )
        pull = HeldPull(
            request, caller or ListCaller(), codes, self.clock.monotonic() + seconds, self.done
        )
        self.polls.hold(queue or self.queue, pull)
        return pull

    def done(self, pull: HeldPull) -> None:
        self.clock.turn(self.seconds_each)
        self.out.append(pull)

    def pass_time(self, seconds: float) -> None:
        self.clock.turn(seconds)
        self.polls.expire(self.clock.monotonic())


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_an_arrival_wakes_those_whose_tags_it_has(bench):
    everything, one, other = (
        bench.hold(),
        bench.hold(frozenset({1})),
        bench.hold(frozenset({2})),
    )
    bench.polls.arrived(bench.queue, [2, 3])
    assert bench.out == [everything, other]
    assert len(bench.polls) == 1
    assert bench.queue.watched
    bench.polls.arrived(bench.queue, [1])
    assert bench.out[2:] == [one]
    assert not bench.queue.watched


def test_an_arrival_elsewhere_wakes_nobody(bench):
    bench.hold()
    bench.polls.arrived(ConsumeQueue("Orders", 1), [1])
    assert bench.out == []


def test_time_wakes_each_at_its_own_and_not_before(bench):
    late, early = bench.hold(seconds=2.0), bench.hold(seconds=1.0)
    bench.pass_time(0.999)
    assert bench.out == []
    bench.pass_time(0.001)
    assert bench.out == [early]
    bench.pass_time(1.0)
    assert bench.out == [early, late]
    assert len(bench.polls) == 0


def test_a_queue_that_is_deleted_is_waited_for_no_more(bench):
    pull = bench.hold()
    bench.queue.deleted = True
    bench.pass_time(0)
    assert bench.out == [pull]


def test_who_is_gone_is_forgotten_and_not_answered(bench):
    caller = ListCaller()
    bench.hold(caller=caller)
    caller.is_gone = True
    bench.pass_time(0)
    assert bench.out == []
    assert len(bench.polls) == 0


def test_a_reset_wakes_the_pulls_of_its_group(bench):
    mine = bench.hold(consumer_group="g")
    bench.hold(consumer_group="h")
    bench.polls.wake_group(bench.queue, "g")
    assert bench.out == [mine]
    assert bench.queue.watched


def test_a_pull_that_waits_on_is_found_by_the_next_arrival(bench):
    """What is done again may be held again, within the same arrival."""
    again: list[HeldPull] = []

    def wait_on(pull: HeldPull) -> None:
        again.append(pull)
        if len(again) == 1:
            bench.polls.hold(bench.queue, pull)

    pull = HeldPull(bench.hold().request, ListCaller(), None, 20.0, wait_on)
    bench.polls.hold(bench.queue, pull)
    bench.polls.arrived(bench.queue, [1])
    assert (again, len(bench.polls)) == ([pull], 1)
    bench.polls.arrived(bench.queue, [1])
    assert (again, len(bench.polls)) == ([pull, pull], 0)


def test_very_many_are_done_in_some_turns_and_each_once(bench):
    bench.seconds_each = SLICE_SECONDS / 4
    held = [bench.hold() for _ in range(50)]
    bench.polls.arrived(bench.queue, [1])
    turns = 1
    while bench.turns:
        assert len(bench.out) <= 6 * turns
        bench.turns.pop()()
        turns += 1
    assert bench.out == held
    assert turns >= 10


def test_an_expiry_under_way_is_not_begun_again(bench):
    queues = [ConsumeQueue("Orders", number) for number in range(20)]
    for queue in queues:
        bench.hold(queue=queue, seconds=1)
    bench.seconds_each = 2 * SLICE_SECONDS
    bench.pass_time(1)
    bench.pass_time(1)
    while bench.turns:
        bench.turns.pop()()
    assert len(bench.out) == 20
    assert len(bench.polls) == 0


def test_one_owner_may_let_so_many_wait_and_others_still_may(bench):
    for _ in range(long_polls.PEER_HELD_MAX):
        bench.hold()
    with pytest.raises(RequestError) as refused:
        bench.hold()
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    bench.hold(caller=ListCaller("two"))
    bench.polls.arrived(bench.queue, [1])
    bench.hold()  # What was answered counts no more.


def test_expressions_and_tags_are_weighed(bench):
    codes = frozenset(range(1000))
    for _ in range(long_polls.PEER_SIZE_MAX // (20_000 + 80 * 1000 + 1_000)):
        bench.hold(codes, subscription="x" * 20_000)
    with pytest.raises(RequestError):
        bench.hold(codes, subscription="x" * 20_000)


def test_a_watcher_is_told_of_each_arrival_whoever_waits(bench):
    seen: list[ConsumeQueue] = []
    bench.polls.watch(bench.queue, seen.append)
    bench.hold()
    bench.polls.arrived(bench.queue, [1])
    assert bench.queue.watched
    bench.polls.arrived(bench.queue, [1])
    bench.polls.unwatch(bench.queue, seen.append)
    assert seen == [bench.queue, bench.queue]
    assert not bench.queue.watched


def test_the_soonest_end_of_a_wait_is_told(bench):
    told: list[float] = []
    bench.polls.on_due = told.append
    began = bench.clock.monotonic()
    for seconds in (20.0, 30.0, 10.0):
        bench.hold(seconds=seconds)
    bench.pass_time(12)
    assert [due - began for due in told] == [20.0, 10.0, 20.0]
    bench.pass_time(9)
    assert told[-1] - began == 30.0
    assert len(bench.out) == 2


def test_watchers_of_one_queue_do_not_know_of_each_other(bench):
    one: list[ConsumeQueue] = []
    other: list[ConsumeQueue] = []
    bench.polls.watch(bench.queue, one.append)
    bench.polls.watch(bench.queue, other.append)
    bench.polls.arrived(bench.queue, [1])
    bench.polls.unwatch(bench.queue, one.append)
    bench.polls.arrived(bench.queue, [1])
    assert (len(one), len(other)) == (1, 2)
    assert bench.queue.watched


EVENTS = st.one_of(
    st.tuples(
        st.just("hold"), st.integers(0, 2), st.sampled_from([None, 1, 2]), st.integers(1, 5)
    ),
    st.tuples(st.just("arrive"), st.integers(0, 2), st.integers(1, 2)),
    st.tuples(st.just("pass"), st.integers(0, 3)),
    st.tuples(st.just("leave"), st.integers(0, 5)),
)


@given(st.lists(EVENTS, max_size=40))
def test_whatever_comes_in_whatever_order_each_goes_out_once_and_when_it_is_due(events):
    bench = Bench()
    queues = [ConsumeQueue("Orders", number) for number in range(3)]
    waiting: list[tuple[HeldPull, int]] = []  # What a plain list says.
    for event in events:
        before = len(bench.out)
        due: list[HeldPull] = []
        match event:
            case ("hold", place, code, seconds):
                codes = None if code is None else frozenset({code})
                pull = bench.hold(codes, seconds, ListCaller(), queues[place])
                waiting.append((pull, place))
            case ("arrive", place, code):
                bench.polls.arrived(queues[place], [code])
                due = [
                    pull
                    for pull, at in waiting
                    if at == place and (pull.codes is None or code in pull.codes)
                ]
            case ("pass", seconds):
                bench.pass_time(seconds)
                now = bench.clock.monotonic()
                due = [
                    pull for pull, _ in waiting if pull.deadline <= now or pull.caller.is_gone
                ]
            case ("leave", number):
                if waiting:
                    waiting[number % len(waiting)][0].caller.is_gone = True
        waiting = [(pull, place) for pull, place in waiting if pull not in due]
        assert {id(pull) for pull in bench.out[before:]} == {
            id(pull) for pull in due if not pull.caller.is_gone
        }
        assert len(bench.out) - before == sum(not pull.caller.is_gone for pull in due)
        assert len(bench.polls) == len(waiting)
        assert [queue.watched for queue in queues] == [
            any(place == number for _, place in waiting) for number in range(3)
        ]
