"""The runner: pauses, work elsewhere, errors and stops, on a clock that the test turns."""

from __future__ import annotations

import logging

import pytest

from cometmq.broker.machines.runner import KeptMachine
from cometmq.broker.machines.steps import elsewhere, on_device, turn_end
from cometmq.model.errors import StoreError
from tests.support.hand_world import HandWorld


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
