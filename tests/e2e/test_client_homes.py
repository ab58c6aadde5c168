"""Every client class and the loop, process, interpreter and block that it lives in: the answers are the same for all."""

import asyncio
import json
import re
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cometmq import Message
from cometmq.client.sync.portal import portal
from cometmq.errors import ClientClosed, CometError
from tests.support.client_lives import (
    CLASSES,
    EMPTY,
    SECONDS_MAX,
    TOPIC,
    Broken,
    break_start,
    left_of,
    make,
    small_cluster,
    use,
    use_blocking,
)
from tests.support.programs import run_program

ROOT = Path(__file__).parents[2]
ELSEWHERE = "the {0} .* was started on another event loop; create one {0} for each event loop"
CLOSED = "the {0} .* was closed and cannot be used again; create a new {0}"
BEFORE_FORK = "the {0} .* was started before fork\\(\\); create a new one here"
LOST = "this client was started before fork\\(\\); create a new one here"
EXITING = (
    "the interpreter is exiting and has cut the clients off; close them before the program ends"
)
each_class = pytest.mark.parametrize("name", CLASSES)


@pytest.fixture(scope="module")
def names() -> Iterator[str]:
    with small_cluster() as nameserver:
        yield nameserver


# --- where clients outlive their home


def said_of(names: str, way: str) -> list[dict[str, list[str]]]:
    """The answers of a program of `tests.support.client_lives`, which ends in time and says nothing else."""
    program = (sys.executable, "-m", "tests.support.client_lives", names, way)
    done = run_program(*program, seconds=2 * SECONDS_MAX, cwd=ROOT)
    assert done.stderr == "", done.stdout
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(said: dict[str, list[str]], prefix: str, *wanted: str) -> None:
    """Each class gave the wanted answers: "done", or the text of a ClientClosed."""
    assert said.keys() == CLASSES.keys()
    for name, found in said.items():
        for one, text in zip(found, wanted, strict=True):
            pattern = text if text == "done" else f"ClientClosed: {text.format(prefix + name)}"
            assert re.fullmatch(pattern, one), f"{prefix}{name}: {found}"


@pytest.mark.parametrize("way", ["loop_is_over", "exit_async"])
def test_an_asyncio_client_whose_loop_has_ended_is_refused_and_closes_quietly(names, way):
    """Also in a hook of the interpreter's exit."""
    (said,) = said_of(names, way)
    check(said, "Async", ELSEWHERE, ELSEWHERE, "done", CLOSED)


def test_a_blocking_client_is_refused_while_the_interpreter_exits_and_closes_quietly(names):
    (said,) = said_of(names, "exit_blocking")
    check(said, "", EXITING, EXITING, "done", EXITING)


@pytest.mark.parametrize(("way", "prefix"), [("fork_async", "Async"), ("fork_blocking", "")])
def test_a_client_stays_with_its_parent_unless_it_was_only_made_before_the_fork(
    names, way, prefix
):
    of_parent, of_child, after = said_of(names, way)
    if prefix:
        check(of_parent, prefix, BEFORE_FORK, BEFORE_FORK, "done", CLOSED)
    else:
        check(of_parent, prefix, LOST, LOST, "done", LOST)
    check(of_child, prefix, "done", "done", "done", CLOSED)
    check(after, prefix, "done", "done", "done", CLOSED)


# --- two loops


@contextmanager
def another_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def run_on(loop: asyncio.AbstractEventLoop, work: Any) -> Any:
    return asyncio.run_coroutine_threadsafe(work, loop).result(SECONDS_MAX)


@each_class
def test_an_asyncio_client_is_refused_on_another_loop_and_works_on_where_it_was_started(
    names, name
):
    one = make(name, names)
    with another_loop() as home:
        run_on(home, one.start())
        for call in (lambda: use(one, name), one.start, one.close):
            with pytest.raises(ClientClosed, match=ELSEWHERE.format(f"Async{name}")):
                asyncio.run(call())
        run_on(home, use(one, name))
        run_on(home, one.close())
        assert one._instance.channels.open_addresses() == []


async def test_a_send_that_is_refused_on_another_loop_is_not_stored(names):
    """The first send of an iteration is written by the call itself, so it is refused before."""
    reader, producer = make("PullConsumer", names), make("Producer", names)
    with another_loop() as home:
        await asyncio.to_thread(run_on, home, producer.start())
        await asyncio.to_thread(run_on, home, use(producer, "Producer"))
        async with reader:
            (queue,) = await reader.queues(TOPIC)
            before = await reader.max_offset(queue)
            with pytest.raises(ClientClosed, match="another event loop"):
                await producer.send(Message(TOPIC, b"of the wrong loop"))
            assert await reader.max_offset(queue) == before
        await asyncio.to_thread(run_on, home, producer.close())


@each_class
def test_a_client_whose_start_failed_can_be_started_on_another_loop(names, name, monkeypatch):
    one = make(name, names)
    break_start(one, monkeypatch)
    with pytest.raises(Broken):
        asyncio.run(one.start())
    monkeypatch.undo()

    async def live() -> list[str]:
        async with one:
            await use(one, name)
        return await left_of(one)

    assert asyncio.run(live()) == []


@each_class
def test_a_blocking_client_works_beside_any_loop_but_its_own(names, name):
    with make(name, names, prefix="") as one:

        async def work() -> None:
            use_blocking(one, name)

        for _ in range(2):
            asyncio.run(work())
        thread = threading.Thread(target=use_blocking, args=(one, name))
        thread.start()
        thread.join()

        async def work_at_home() -> None:
            use_blocking(one, name)

        with pytest.raises(ClientClosed, match="from the thread of its own event loop"):
            portal().call(work_at_home)
        use_blocking(one, name)


# --- blocks that are left by an exception


ERRORS = (ValueError, asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)


@pytest.mark.parametrize("kind", ERRORS)
@each_class
async def test_a_block_of_an_asyncio_client_is_left_by_its_own_error_and_closes_it(
    names, name, kind
):
    one, own = make(name, names), kind("own")

    async def work() -> None:
        async with one:
            await use(one, name)
            raise own

    with pytest.raises(kind) as caught:
        await work()
    assert caught.value is own
    assert await left_of(one) == []
    with pytest.raises(ClientClosed, match=CLOSED.format(f"Async{name}")):
        await use(one, name)


@pytest.mark.parametrize("kind", ERRORS)
@each_class
def test_a_block_of_a_blocking_client_is_left_by_its_own_error_and_closes_it(names, name, kind):
    one, own = make(name, names, prefix=""), kind("own")

    def work() -> None:
        with one:
            use_blocking(one, name)
            raise own

    with pytest.raises(kind) as caught:
        work()
    assert caught.value is own
    assert one._client._instance.channels.open_addresses() == []
    with pytest.raises(ClientClosed, match=CLOSED.format(name)):
        use_blocking(one, name)


# --- a start and a close of blocking clients that fail or are cut off


@each_class
def test_a_start_of_a_blocking_client_that_fails_can_be_tried_again(names, name, monkeypatch):
    one = make(name, names, prefix="")
    break_start(one._client, monkeypatch)
    for _ in range(2):
        with pytest.raises(Broken), one:
            pytest.fail("it has not started")
        assert one._client._instance.channels.open_addresses() == []
    monkeypatch.undo()
    with one:
        use_blocking(one, name)


class CutOff(Exception):
    """An error of a signal's handler."""


@contextmanager
def signal_when(begun: threading.Event) -> Iterator[None]:
    """Signal this thread when something has begun; its handler raises CutOff."""
    main = threading.get_ident()

    def send() -> None:
        begun.wait(SECONDS_MAX)
        time.sleep(0.05)  # The caller sleeps now.
        signal.pthread_kill(main, signal.SIGUSR1)

    def cut_off(*_: object) -> None:
        raise CutOff

    before = signal.signal(signal.SIGUSR1, cut_off)
    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)


@each_class
def test_a_start_of_a_blocking_client_that_is_cut_off_can_be_tried_again(
    names, name, monkeypatch
):
    one, begun = make(name, names, prefix=""), threading.Event()
    opened = one._client._open

    async def hang() -> None:
        await opened()
        begun.set()
        await asyncio.sleep(SECONDS_MAX)

    monkeypatch.setattr(one._client, "_open", hang)
    with signal_when(begun), pytest.raises(CutOff):
        one.start()
    monkeypatch.undo()
    one.start()
    use_blocking(one, name)
    one.close()
    assert one._client._instance.channels.open_addresses() == []


@each_class
def test_a_close_of_a_blocking_client_that_is_cut_off_is_finished_by_the_next(names, name):
    one, begun, seconds = make(name, names, prefix=""), threading.Event(), [SECONDS_MAX, 0]

    async def hang() -> None:
        begun.set()
        await asyncio.sleep(seconds.pop(0))

    one.start()
    one._client._at_close(hang)
    with signal_when(begun), pytest.raises(CutOff):
        one.close()
    with pytest.raises(ClientClosed, match=CLOSED.format(name)):
        use_blocking(one, name)
    one.close()
    assert seconds == []
    assert one._client._instance.channels.open_addresses() == []


# --- calls that are under way at the close

# What waits for long in a client that nobody closes; the other classes make their call of the table.
WAITING: dict[str, Callable[[Any], Any]] = {
    "Producer": lambda one: one.request(Message(TOPIC, b"?"), timeout_ms=120_000),
    "PushConsumer": lambda one: one.wait(),
    "PullConsumer": lambda one: one.receive(1, wait_ms=120_000),
    "SimpleConsumer": lambda one: one.receive(1, wait_ms=25_000),
}


def make_waiting(name: str, names: str, prefix: str) -> tuple[Any, Callable[[], Any]]:
    more = {"subscriptions": [EMPTY]} if name.endswith("Consumer") else {}
    one = make(name, names, prefix=prefix, **more)
    call = WAITING.get(name, CLASSES[name][1])
    return one, lambda: call(one)


@each_class
async def test_a_call_of_an_asyncio_client_ends_when_it_is_closed(names, name):
    for turns in (0, 1, 2, 5, 13, 34, 300):
        one, call = make_waiting(name, names, "Async")
        await one.start()

        async def work(call: Callable[[], Any] = call) -> None:
            done = call()
            if isinstance(done, Awaitable):
                await done

        task = asyncio.ensure_future(work())
        for _ in range(turns):
            await asyncio.sleep(0)
        async with asyncio.timeout(SECONDS_MAX / 4):
            await one.close()
            (ended,) = await asyncio.gather(task, return_exceptions=True)
        assert ended is None or isinstance(ended, CometError), (turns, ended)
        assert await left_of(one) == [], turns


@each_class
def test_a_call_of_a_blocking_client_ends_when_it_is_closed(names, name):
    for wait_seconds in (0, 0.001, 0.2):
        one, call = make_waiting(name, names, "")
        one.start()
        ended: list[BaseException | None] = []

        def work(call: Callable[[], Any] = call, ended: list[Any] = ended) -> None:
            try:
                call()
            except BaseException as error:
                ended.append(error)
            else:
                ended.append(None)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        time.sleep(wait_seconds)
        one.close()
        thread.join(SECONDS_MAX / 4)
        assert ended, "it hangs"
        assert ended[0] is None or isinstance(ended[0], CometError), ended
