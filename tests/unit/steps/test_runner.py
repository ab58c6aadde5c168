"""The runner: pauses, work elsewhere, errors and stops, on a clock that the test turns."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from cometmq.broker.statistics.requests import RuntimeHandler
from cometmq.codec.bodies.kv import decode_kv_table
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.errors import StoreError
from cometmq.net.peer import Peer
from cometmq.steps.runner import NEVER, KeptMachine
from cometmq.steps.shared import SharedSteps
from cometmq.steps.steps import elsewhere, on_device, turn_end
from tests.support.hand_clock import HandClock
from tests.support.hand_world import HandWorld, Outcome
from tests.unit.broker.parts_by_hand import load_tables, parts_by_hand


@pytest.fixture
def world() -> HandWorld:
    return HandWorld()


def nobody() -> None:
    pass


def test_a_step_is_taken_after_the_pause_that_the_one_before_asked_for(world):
    began = world.clock.monotonic()
    times = []

    def step() -> float:
        times.append(world.clock.monotonic() - began)
        return len(times)

    KeptMachine(world, "m", step).begin(0.5)
    world.pass_time(0.4)
    assert times == []
    world.pass_time(7)
    assert times == [0.5, 1.5, 3.5, 6.5]


def test_steps_get_what_was_done_elsewhere_and_what_the_device_says(world):
    seen = []

    def steps():
        seen.append((yield from elsewhere(lambda: 6 * 7)))
        seen.append((yield from on_device(100)))
        world.is_flushed = False
        seen.append((yield from on_device()))
        yield from turn_end()
        return "end"

    assert world.run(steps()) == "end"
    assert seen == [42, True, False]


def test_an_error_elsewhere_is_raised_in_the_step(world):
    def fail() -> int:
        raise OSError("the disk")

    def steps():
        try:
            yield from elsewhere(fail)
        except OSError as error:
            return str(error)

    assert world.run(steps()) == "the disk"


def test_the_end_of_a_turn_lets_others_come_between(world):
    order = []

    def steps(name):
        order.append(f"{name} begins")
        yield from turn_end()
        order.append(f"{name} ends")

    world.begin(steps("a"))
    world.begin(steps("b"))
    world.settle()
    assert order == ["a begins", "b begins", "a ends", "b ends"]


@pytest.mark.parametrize("is_waiting", [False, True])
@pytest.mark.parametrize(
    ("error", "level"),
    [(StoreError("full"), logging.WARNING), (OSError("gone"), logging.WARNING),
     (KeyError("a bug"), logging.ERROR)],
)  # fmt: skip
def test_an_error_is_logged_and_the_machine_goes_on_after_a_rest(
    world, caplog, error, level, is_waiting
):
    times = []

    def fail():
        times.append(world.clock.monotonic())
        raise error

    def steps():
        yield from elsewhere(fail)
        return 0.0

    KeptMachine(world, "timer/wheel", steps if is_waiting else fail, rest_seconds=2).begin()
    world.pass_time(5)
    assert times == [0, 2, 4]
    assert {record.levelno for record in caplog.records} == {level}
    assert "timer/wheel" in caplog.text
    assert (caplog.records[0].exc_info is not None) is (level == logging.ERROR)


def test_a_machine_that_rests_is_stopped_at_once_and_steps_no_more(world):
    steps, stops = [], []

    def step() -> float:
        steps.append(1)
        return 1.0

    machine = KeptMachine(world, "m", step)
    machine.begin()
    world.pass_time(2.5)
    machine.stop(lambda: stops.append(len(steps)))
    assert stops == [3]
    world.pass_time(10)
    assert (len(steps), world.timers) == (3, 0)


class Sleeper:
    """A machine that does what was brought, and sleeps where there is nothing."""

    def __init__(
        self, world: HandWorld, *, period: float = 0.0, is_waiting: bool = False
    ) -> None:
        self.brought = self.done = 0
        self.times: list[float] = []
        self._world, self._is_waiting = world, is_waiting
        step = self._wait if is_waiting else self._look
        self.machine = KeptMachine(world, "m", step, period_seconds=period)
        self.machine.begin()

    def bring(self) -> None:
        self.brought += 1
        self.machine.wake()

    def _look(self) -> float:
        self.times.append(self._world.clock.monotonic())
        self.done = self.brought
        return NEVER

    def _wait(self):
        pause = self._look()
        yield from on_device()
        return pause


def test_a_machine_that_sleeps_for_ever_has_no_timer_and_a_wake_has_it_step_at_once(world):
    sleeper = Sleeper(world)
    world.pass_time(1000)
    assert (sleeper.times, world.timers) == ([0], 0)
    sleeper.bring()
    assert sleeper.done == 0  # Who brings something is in the middle of its own work.
    world.pass_time(10)
    assert (sleeper.times, sleeper.done, world.timers) == ([0, 1000], 1, 0)


def test_wakes_of_one_period_lead_to_one_step(world):
    sleeper = Sleeper(world, period=0.5)
    world.pass_time(10)
    for _ in range(20):
        sleeper.bring()
        world.pass_time(0.125)
    world.pass_time(1)
    assert sleeper.times == [0, 10, 10.5, 11, 11.5, 12, 12.5]
    assert sleeper.done == 20
    assert world.timers == 0


def test_what_comes_while_a_step_is_under_way_leads_to_another_one(world):
    world.is_flushed = None
    sleeper = Sleeper(world, period=0.5, is_waiting=True)
    world.pass_time(1)  # It has looked, and waits for the device.
    sleeper.bring()
    assert sleeper.done == 0
    world.flush()
    world.pass_time(0.25)
    assert sleeper.done == 0
    world.pass_time(0.25)
    assert (sleeper.done, sleeper.times) == (1, [0, 1.5])
    world.flush()
    world.pass_time(100)
    assert sleeper.times == [0, 1.5]


def test_what_a_step_brings_itself_leads_to_another_one(world):
    times = []

    def step() -> float:
        times.append(world.clock.monotonic())
        if len(times) < 3:
            machine.wake()
        return NEVER

    machine = KeptMachine(world, "m", step, period_seconds=2)
    machine.begin(1)
    world.pass_time(100)
    assert times == [1, 3, 5]


def test_a_machine_can_be_woken_for_a_later_time_and_takes_the_soonest(world):
    sleeper = Sleeper(world, period=0.5)
    world.pass_time(1)
    sleeper.machine.wake_at(7)
    sleeper.machine.wake_at(5)
    sleeper.machine.wake_at(6)
    world.pass_time(9)
    assert sleeper.times == [0, 5]
    sleeper.machine.wake_at(5)  # It is over.
    world.pass_time(1)
    assert (sleeper.times, world.timers) == ([0, 5, 10], 0)


def test_a_wake_does_not_make_a_pause_longer_nor_the_rest_after_an_error_shorter(world):
    times = []

    def step() -> float:
        times.append(world.clock.monotonic())
        if len(times) == 3:
            raise StoreError("full")
        return 1.0

    machine = KeptMachine(world, "m", step, rest_seconds=8)
    machine.begin()
    world.pass_time(0.5)
    machine.wake_at(100)
    world.pass_time(0.75)
    assert times == [0, 1]
    machine.wake()
    world.pass_time(0.5)
    assert times == [0, 1, 1.25]
    machine.wake()
    world.pass_time(7.25)
    assert times == [0, 1, 1.25]
    world.pass_time(0.5)
    assert times == [0, 1, 1.25, 9.25]


def test_a_machine_that_was_stopped_is_woken_no_more(world):
    sleeper = Sleeper(world)
    world.pass_time(1)
    sleeper.machine.stop(nobody)
    sleeper.bring()
    world.pass_time(10)
    assert (sleeper.times, world.timers) == ([0], 0)


def test_what_is_done_elsewhere_ends_before_the_machine_is_stopped(world):
    order = []

    def steps():
        try:
            yield from elsewhere(lambda: order.append("work"))
            order.append("never")
        finally:
            order.append("left")
        return 1.0

    machine = KeptMachine(world, "m", steps)
    machine.begin()
    for _, _, entry in world._timers:
        entry[0]()
    machine.stop(lambda: order.append("stopped"))
    assert order == []
    world.settle()
    assert order == ["work", "left", "stopped"]


@pytest.mark.parametrize("wait", [on_device, turn_end])
def test_other_waits_are_left_at_once_and_their_news_comes_too_late(world, wait):
    world.is_flushed = None
    order = []

    def steps():
        try:
            yield from wait()
            order.append("never")
        finally:
            order.append("left")
        return 1.0

    machine = KeptMachine(world, "m", steps)
    machine.begin()
    world._timers[0][2][0]()
    machine.stop(lambda: order.append("stopped"))
    assert order == ["left", "stopped"]
    world.flush()
    assert order == ["left", "stopped"]


RUNTIME = RequestCode.GET_BROKER_RUNTIME_INFO


class Counting:
    """Steps that look at a number in a thread."""

    def __init__(self) -> None:
        self.world, self.number, self.begun = HandWorld(), 0, 0
        self.shared = SharedSteps(self.world, self.steps)

    def steps(self):
        self.begun += 1
        seen = self.number
        yield from elsewhere(lambda: None)
        if seen < 0:
            raise ValueError(seen)
        return seen

    def ask(self) -> Outcome:
        return self.world.begin(self.shared.result())


def test_all_who_ask_while_one_waits_share_the_next_run_and_see_what_came_before_they_asked():
    counting = Counting()
    first = counting.ask()
    counting.number = 1
    later = [counting.ask() for _ in range(1000)]
    counting.number = 2
    last = counting.ask()
    counting.world.settle()
    assert first.get() == 0
    assert {each.get() for each in (*later, last)} == {2}
    assert counting.begun == 2


def test_who_fails_takes_nothing_from_those_who_ask_next():
    counting = Counting()
    counting.number = -1
    failed = counting.ask()
    counting.world.settle()
    with pytest.raises(ValueError, match="-1"):
        failed.get()
    counting.number = 3
    asked = counting.ask()
    counting.world.settle()
    assert asked.get() == 3


async def test_a_thousand_requests_for_runtime_numbers_make_two_tables(tmp_path):
    """Each made its own and kept it while it waited for a thread: one connection held 16 MB more."""
    made: list[int] = []

    def told() -> dict[str, str]:
        made.append(1)
        return {"fact": "told"}

    with parts_by_hand(tmp_path, HandClock()) as parts:
        load_tables(parts)
        world = cast("HandWorld", parts.world)
        handle = cast("Any", RuntimeHandler(parts, facts=[told]).answers[RUNTIME])
        peer = cast("Peer", None)
        answers = [world.begin(handle(Command(RUNTIME), peer)) for _ in range(1000)]
        world.settle()
        bodies = [cast("bytes", each.get().body) for each in answers]
    assert {decode_kv_table(body)["fact"] for body in bodies} == {"told"}
    assert len(made) == 2
