"""The thread behind the blocking clients."""

import asyncio
import contextvars
import gc
import os
import signal
import threading
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from cometmq.client.sync import portal as portals
from cometmq.client.sync.portal import Handoff, portal
from cometmq.connect import PullStatus, RawPull
from cometmq.model.errors import ClientClosed, CometError, NetError


async def double(value: int) -> int:
    await asyncio.sleep(0)
    return 2 * value


async def fail() -> None:
    raise ZeroDivisionError("as asked")


async def count(most: int):
    for number in range(most):
        yield number


def test_a_call_gives_what_the_coroutine_the_future_or_the_function_gives():
    def future() -> asyncio.Future[str]:
        made = asyncio.get_running_loop().create_future()
        made.set_result("later")
        return made

    assert portal().call(double, 4) == 8
    assert portal().call(future) == "later"
    assert portal().do(str.upper, "x") == "X"


def test_an_error_comes_to_its_caller():
    with pytest.raises(ZeroDivisionError, match="as asked"):
        portal().call(fail)
    with pytest.raises(TypeError):
        portal().do(str.upper, 5)  # type: ignore[arg-type]


def test_an_async_iterator_is_read_step_by_step_and_closed():
    assert list(portal().iterate(count, 3)) == [0, 1, 2]
    closed = threading.Event()

    async def endless():
        try:
            while True:
                yield 1
        finally:
            closed.set()

    steps = portal().iterate(endless)
    assert next(steps) == 1
    steps.close()
    assert closed.wait(5)


def test_many_threads_call_at_once():
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(portal().call(double, n)))
        for n in range(50)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(results) == [2 * n for n in range(50)]


def test_a_call_from_the_loop_itself_is_refused():
    async def inside() -> None:
        portal().call(double, 1)

    with pytest.raises(ClientClosed, match="Async"):
        portal().call(inside)


@pytest.mark.threads
def test_an_interrupted_wait_cancels_the_work():
    started, cancelled = threading.Event(), threading.Event()

    async def long_work() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def interrupt() -> None:
        started.wait(10)
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        portal().call(long_work)
    assert cancelled.wait(10)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_client_from_before_a_fork_says_so_and_one_made_in_the_child_works():
    parent = portal()
    assert parent.call(double, 1) == 2
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = b"no error"
        try:
            parent.call(double, 1)
        except ClientClosed as error:
            said = str(error).encode()
        os.write(writer, b"%s|%d" % (said, portal().call(double, 21)))
        os._exit(0)
    os.waitpid(pid, 0)
    said, _, own = os.read(reader, 4096).partition(b"|")
    os.close(reader)
    os.close(writer)
    assert b"fork" in said
    assert own == b"42"


def begun(value: int) -> asyncio.Future[int]:
    made = asyncio.get_running_loop().create_future()
    if value < 0:
        made.set_exception(ZeroDivisionError("as asked"))
    else:
        made.set_result(2 * value)
    return made


def test_what_is_started_is_run_in_its_order_and_gives_futures():
    order: list[int] = []

    def note(value: int) -> asyncio.Future[int]:
        order.append(value)
        return begun(value)

    started = [portal().start(note, number) for number in range(1000)]
    assert [each.result(10) for each in started] == [2 * number for number in range(1000)]
    assert order == list(range(1000))
    with pytest.raises(ZeroDivisionError, match="as asked"):
        portal().start(begun, -1).result(10)
    with pytest.raises(TypeError):
        portal().start(begun).result(10)  # type: ignore[call-arg]


def test_what_is_started_can_be_cancelled_until_its_turn():
    ran = threading.Event()
    held, go_on = threading.Event(), threading.Event()

    def hold() -> asyncio.Future[int]:
        held.set()
        go_on.wait(10)
        return begun(1)

    def late() -> asyncio.Future[int]:
        ran.set()
        return begun(2)

    first = portal().start(hold)
    assert held.wait(10)
    second = portal().start(late)
    assert second.cancel()
    go_on.set()
    assert first.result(10) == 2
    assert portal().call(double, 1) == 2  # The turn of the second is over.
    assert not ran.is_set()


def test_many_threads_start_and_all_are_answered():
    results: list[int] = []

    def many() -> None:
        started = [portal().start(begun, number) for number in range(500)]
        results.extend(each.result(10) for each in started)

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted(2 * number for number in range(500) for _ in range(4))


def test_sends_that_wait_for_the_loop_together_keep_the_variables_of_their_callers():
    tenant = contextvars.ContextVar("tenant", default="nobody")
    released = threading.Event()

    def look() -> asyncio.Future[str]:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        future.set_result(tenant.get())
        return future

    def start(name: str) -> Any:
        tenant.set(name)
        return portal().start(look)

    # The loop gets no turn in between.
    portal()._loop.call_soon_threadsafe(released.wait, 10)
    futures = [contextvars.copy_context().run(start, name) for name in ("a", "b", "c")]
    released.set()
    assert [future.result(10) for future in futures] == ["a", "b", "c"]


async def test_a_call_that_is_cut_off_before_its_first_step_leaves_no_coroutine_unawaited(
    recwarn,
):
    async def work() -> None:
        pytest.fail("it was cut off")

    call = Handoff(work, (), {})
    call.start(asyncio.get_running_loop())
    call.cancel()
    assert call._under_way is not None
    await asyncio.wait([call._under_way])
    await asyncio.sleep(0)
    assert isinstance(call.error, asyncio.CancelledError)
    gc.collect()
    assert [str(each.message) for each in recwarn] == []


class Source:
    """Gives answers, and knows how many were asked for and whether it was closed."""

    def __init__(
        self, count: int, *, size: int = 0, error: BaseException | None = None
    ) -> None:
        self.count = count
        self.size = size
        self.error = error
        self.given = 0
        self.closed = threading.Event()

    async def answers(self) -> AsyncGenerator[RawPull, None]:
        try:
            for number in range(self.count):
                self.given += 1
                yield RawPull(PullStatus.FOUND, number, 0, self.count, bytes(self.size))
            if self.error is not None:
                raise self.error
        finally:
            self.closed.set()


def test_all_answers_come_in_order_and_many_with_one_call(monkeypatch):
    source = Source(600)
    calls: list[object] = []
    call = portal().call

    def counted(function: Callable[..., Any], *args: Any) -> Any:
        calls.append(function)
        return call(function, *args)

    monkeypatch.setattr(portal(), "call", counted)
    found = [pull.next_offset for pull in portal().iterate_ahead(source.answers)]
    assert found == list(range(600))
    assert len(calls) <= 600 / portals.AHEAD_PULLS + 4
    assert source.closed.is_set()


def test_the_next_answers_are_gathered_meanwhile_and_no_more_than_these(monkeypatch):
    monkeypatch.setattr(portals, "AHEAD_PULLS", 10)
    source = Source(1000)
    answers = portal().iterate_ahead(source.answers)
    next(answers)
    portal().do(str)  # What was begun before has run.
    assert source.given == 20
    answers.close()
    assert source.closed.is_set()
    assert source.given == 20


def test_long_answers_are_held_by_their_bytes():
    source = Source(100, size=portals.AHEAD_BYTES // 2)
    answers = portal().iterate_ahead(source.answers)
    next(answers)
    portal().do(str)
    assert source.given == 4
    answers.close()


@pytest.mark.parametrize("error", [NetError("gone"), ZeroDivisionError("ours")])
def test_an_error_comes_behind_the_answers_before_it(error):
    source = Source(5, error=error)
    found: list[RawPull] = []
    with pytest.raises(type(error), match=str(error)):
        found.extend(portal().iterate_ahead(source.answers))
    # What is no error of the cluster's is a fault of ours: nobody counts on what came before.
    assert len(found) == 0 if not isinstance(error, CometError) else 5
    assert source.closed.is_set()
