"""Who runs listeners, and what becomes of what they say."""

import asyncio
import pickle
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from cometmq.client.consumer.listeners import (
    DeadLetter,
    ListenerCall,
    ListenerVerdict,
    OrderlyStatus,
    RetryLater,
    listener_call,
    verdict_of,
)
from cometmq.client.consumer.pull.process_queue import ProcessQueue
from cometmq.client.consumer.push.concurrent import (
    AnyJob,
    ListenerJob,
    TaskWorkers,
    ThreadWorkers,
    make_workers,
)
from cometmq.model.errors import SettingsError
from cometmq.net.clock import SystemClock

pytestmark = pytest.mark.threads


class Loop:
    """What a job needs of its pull loop."""

    is_dropped = False


def called(listener: Any) -> ListenerCall:
    return listener_call(listener, None, None)


def workers_of(listener: Any, done: Any, *, concurrency: int = 1) -> Any:
    return make_workers(
        called(listener), concurrency=concurrency, done=done, clock=SystemClock()
    )


class Named(str):
    """A text with what log lines show of a message."""

    __slots__ = ()

    message_id, queue, queue_offset = "id", "t@b:0", 0


def job(*messages: object) -> ListenerJob:
    given = [Named(each) if isinstance(each, str) else each for each in messages]
    return ListenerJob(Loop(), ProcessQueue(), given)  # type: ignore[arg-type]


class Results:
    """Collects what `done` is told."""

    def __init__(self) -> None:
        self.said: dict[object, bool] = {}
        self.verdicts: dict[object, ListenerVerdict] = {}

    def __call__(self, done: AnyJob, verdict: ListenerVerdict, seconds: float) -> None:
        assert seconds >= 0
        self.said[done.messages[0]] = verdict.is_consumed
        self.verdicts[done.messages[0]] = verdict

    async def wait(self, count: int) -> None:
        deadline = time.monotonic() + 10
        while len(self.said) < count:
            assert time.monotonic() < deadline, f"{len(self.said)} of {count}"
            await asyncio.sleep(0.005)


ANSWERS = {
    "none": None, "true": True, "false": False, "odd": "yes", "error": ValueError("no"),
    "exit": SystemExit(1), "cancelled": asyncio.CancelledError(), "skip": pytest.skip.Exception("x"),
    "stop": StopIteration(1), "closed": GeneratorExit(), "base": BaseException("x"),
}  # fmt: skip
CONSUMED = {"none", "true"}


def listen(message: str) -> Any:
    answer = ANSWERS[message]
    if isinstance(answer, BaseException):
        raise answer
    return answer


async def listen_later(message: str) -> Any:
    await asyncio.sleep(0)
    return listen(message)


@pytest.fixture
async def results():
    return Results()


@pytest.mark.parametrize("listener", [listen, listen_later])
async def test_what_a_listener_says_or_raises_is_told_and_ends_no_worker(results, listener):
    workers = workers_of(listener, results)
    for message in ANSWERS:
        workers.submit(job(message))
    await results.wait(len(ANSWERS))
    await workers.close(5000)
    assert results.said == {message: message in CONSUMED for message in ANSWERS}


@pytest.mark.parametrize(
    ("answer", "is_consumed", "is_fault"),
    [
        (None, True, False),
        (True, True, False),
        (False, False, False),
        (OrderlyStatus.COMMIT, True, False),
        (OrderlyStatus.ROLLBACK, False, False),
        (0, False, True),
        (1, False, True),
        ("", False, True),
        ({"ok": 1}, False, True),
    ],
)
def test_an_answer_that_means_nothing_is_a_fault_of_the_program(answer, is_consumed, is_fault):
    verdict = verdict_of(answer)
    assert (verdict.is_consumed, verdict.fault is not None) == (is_consumed, is_fault)


@pytest.mark.parametrize(
    ("seconds", "level"),
    [(0, 1), (1, 1), (2, 2), (10, 3), (59, 5), (61, 6), (7200, 18), (86_400, 18)],
)
def test_a_delay_of_the_listener_is_rounded_up_to_a_delay_level(seconds, level):
    def later(_message: object) -> None:
        raise RetryLater(timedelta(seconds=seconds))

    verdict = called(later).run(["x"])  # type: ignore[list-item]
    assert (verdict.is_consumed, verdict.delay_ms) == (False, seconds * 1000)
    assert verdict.delay_level("x") == level  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [DeadLetter("poison"), RetryLater(timedelta(minutes=5))])
def test_a_verdict_that_is_raised_travels_between_processes(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("messages", ["0A1B", ["0A1B"], [None], 7])
def test_a_dead_letter_that_is_no_message_is_a_failed_call_and_no_dead_worker(messages):
    def reject(_message: object) -> None:
        raise DeadLetter("poison", messages)

    verdict = called(reject).run([Named("x")])  # type: ignore[list-item]
    assert isinstance(verdict.error, SettingsError)
    assert "must be messages of the listener's call" in str(verdict.error)
    assert not verdict.dead(Named("x"))  # type: ignore[arg-type]


async def test_functions_run_in_threads_and_coroutines_on_the_loop():
    names: set[str] = set()

    def here(_message: object) -> None:
        names.add(threading.current_thread().name)

    class Callable:
        async def __call__(self, message: object) -> None:
            here(message)

    results = Results()
    for listener, kind in ((here, ThreadWorkers), (Callable(), TaskWorkers)):
        names.clear()
        workers = workers_of(listener, results, concurrency=2)
        assert isinstance(workers, kind)
        workers.submit(job(kind.__name__))
        await results.wait(1 if kind is ThreadWorkers else 2)
        await workers.close(5000)
        is_here = threading.current_thread().name in names
        assert is_here == (kind is TaskWorkers)


async def test_a_job_whose_queue_was_given_up_is_not_begun(results):
    workers = workers_of(listen, results)
    gone = job("none")
    gone.loop.is_dropped = True
    workers.submit(gone)
    workers.submit(job("true"))
    await results.wait(1)
    await workers.close(5000)
    assert results.said == {"true": True}


@pytest.mark.parametrize("is_async", [True, False])
async def test_close_begins_no_further_job_and_waits_for_those_under_way(is_async):
    started, may_end, may_end_here = threading.Event(), threading.Event(), asyncio.Event()

    def block(_message: object) -> None:
        started.set()
        may_end.wait(10)

    async def wait(_message: object) -> None:
        started.set()
        await may_end_here.wait()

    results = Results()
    workers = workers_of(wait if is_async else block, results)
    for message in ("first", "second"):
        workers.submit(job(message))
    assert await asyncio.to_thread(started.wait, 10)
    closing = asyncio.create_task(workers.close(10_000))
    await asyncio.sleep(0.05)
    assert not closing.done()
    may_end.set()
    may_end_here.set()
    await closing
    assert results.said == {"first": True}


async def test_close_does_not_wait_longer_than_it_was_told():
    may_end = threading.Event()
    workers = workers_of(lambda _message: may_end.wait(20), Results())
    workers.submit(job("x"))
    began = time.monotonic()
    await workers.close(100)
    assert time.monotonic() - began < 5
    may_end.set()


def meeting() -> Callable[[tuple[str, int]], None]:
    """A listener whose calls for a message "meets" end only when four of them run at once."""
    barrier = threading.Barrier(4)

    def listener(message: tuple[str, int]) -> None:
        if message[0] == "meets":
            barrier.wait(10)

    return listener


async def test_short_and_blocking_listeners_lose_no_job_and_no_result(results):
    workers = workers_of(meeting(), results, concurrency=4)
    given = [("short", number) for number in range(3000)]
    for place in range(0, 3000, 500):
        given[place:place] = [("meets", place + number) for number in range(4)]
    for message in given:
        workers.submit(job(message))
        if message[1] % 97 == 0:
            await asyncio.sleep(0)  # Let threads fall asleep and results come in now and then.
    await results.wait(len(given))
    await workers.close(5000)
    assert results.said == dict.fromkeys(given, True)


async def test_the_thread_that_fell_asleep_last_is_woken_and_no_other(results):
    names: list[str] = []
    workers = workers_of(
        lambda _message: names.append(threading.current_thread().name), results, concurrency=8
    )
    assert isinstance(workers, ThreadWorkers)
    for number in range(20):
        await until(lambda: len(workers._asleep) == 8)
        workers.submit(job(number))
        await results.wait(number + 1)
    await workers.close(5000)
    assert len(names) == 20
    assert len(set(names)) == 1


async def until(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not look():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)


async def test_short_calls_are_told_together_and_one_that_blocks_behind_them_holds_back_no_result(
    results,
):
    may_end = threading.Event()

    def listener(message: int) -> None:
        if message == 10:
            may_end.wait(10)

    workers = workers_of(listener, results)
    workers.submit(job(-1))  # From now on calls are short.
    await results.wait(1)
    for number in range(11):
        workers.submit(job(number))
    await results.wait(11)
    assert 10 not in results.said
    may_end.set()
    await results.wait(12)
    await workers.close(5000)


async def test_threads_that_are_sent_away_leave_no_job_behind(results):
    workers = workers_of(lambda _message: None, results, concurrency=8)
    assert isinstance(workers, ThreadWorkers)
    for number in range(400):
        workers.resize(1 + number % 8)
        workers.submit(job(number))
        if number % 7 == 0:
            await asyncio.sleep(0)
    await results.wait(400)
    await workers.close(5000)


async def test_a_listener_that_blocks_behind_short_calls_holds_nobody_up(results):
    workers = workers_of(meeting(), results, concurrency=4)
    given = []
    for number in range(20):
        some = [("short", 50 * number + each) for each in range(50)]
        some += [("meets", 4 * number + each) for each in range(4)]
        given += some
        for message in some:  # In one turn, so that one thread begins with them.
            workers.submit(job(message))
        await results.wait(len(given))
    await workers.close(5000)
    assert results.said == dict.fromkeys(given, True)
