"""A consumer that is changed while it runs: paused, given more hands; and one that works in processes."""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from cometmq import (
    AsyncProducer,
    AsyncPushConsumer,
    ConsumeFrom,
    Message,
    PushConsumer,
    PushConsumerSettings,
    StoredMessage,
)
from cometmq.client.consumer.push.in_processes import InProcesses
from cometmq.embedded.pair import AsyncEmbedded
from cometmq.model.errors import BrokerRefused, ClientClosed, SettingsError
from tests.support.scripted import until

SETTINGS = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, suspend_ms=200)


@pytest.fixture
async def producer(fresh: AsyncEmbedded) -> AsyncIterator[AsyncProducer]:
    async with AsyncProducer(fresh.nameserver) as running:
        await running.send(Message("orders", b"first"))
        yield running


async def test_a_paused_consumer_pulls_nothing_until_it_goes_on(fresh, producer):
    got: list[bytes] = []

    async def listen(message: StoredMessage) -> None:
        got.append(message.body)

    async with AsyncPushConsumer(
        fresh.nameserver, group="G", listener=listen, subscriptions=["orders"],
        settings=SETTINGS,
    ) as consumer:  # fmt: skip
        await until(lambda: got == [b"first"], "the first message")
        consumer.pause()
        await asyncio.sleep(2)  # Longer than a pull waits at the broker, which may be slow.
        await producer.send(Message("orders", b"second"))
        await asyncio.sleep(0.4)
        assert got == [b"first"]
        consumer.resume()
        await until(lambda: got == [b"first", b"second"], "the second message")


class Hands:
    """Counts how many listeners work at once."""

    def __init__(self) -> None:
        self.most = self.now = 0
        self.lock = threading.Lock()

    def begin(self) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def end(self) -> None:
        with self.lock:
            self.now -= 1


@pytest.mark.parametrize("is_async", [True, False])
async def test_more_and_fewer_listeners_at_once(fresh, producer, is_async):
    hands = Hands()

    async def wait(_message: StoredMessage) -> None:
        hands.begin()
        await asyncio.sleep(0.03)
        hands.end()

    def block(_message: StoredMessage) -> None:
        hands.begin()
        time.sleep(0.03)
        hands.end()

    consumer = AsyncPushConsumer(
        fresh.nameserver, group="G", listener=wait if is_async else block,
        subscriptions=["orders"],
        settings=PushConsumerSettings(consume_from=ConsumeFrom.FIRST, concurrency=2),
    )  # fmt: skip
    with pytest.raises(ClientClosed):
        consumer.set_concurrency(3)
    async with consumer:
        for most in (2, 6, 1):
            consumer.set_concurrency(most)
            await until(lambda: hands.now == 0, "quiet")
            hands.most, before = 0, consumed(consumer)
            await asyncio.gather(*(producer.send(Message("orders", b"x")) for _ in range(24)))
            goal = before + 24
            await until(lambda: consumed(consumer) >= goal, "all of them")  # noqa: B023
            assert hands.most == most
        with pytest.raises(SettingsError):
            consumer.set_concurrency(0)


def consumed(consumer: AsyncPushConsumer) -> int:
    return sum(each.consumed for each in consumer.statistics().values())


FAILURES: dict[bytes, BaseException] = {
    b"fails": ValueError("no such order"),
    b"exits": SystemExit(3),
    b"interrupted": KeyboardInterrupt(),
    b"cancelled": asyncio.CancelledError(),
    b"stops": StopIteration(1),
    b"skips": pytest.skip.Exception("of another test"),
}


def work(message: StoredMessage) -> bool:
    """What the processes do: it says where it ran by a file."""
    place = Path(message.properties["folder"], message.body.decode())
    place.write_text(str(os.getpid()))
    if (error := FAILURES.get(message.body)) is not None:
        raise error
    if message.body == b"dies" and message.reconsume_times == 0:
        os._exit(1)
    return True


async def test_listeners_in_processes_of_their_own(fresh, producer, tmp_path):
    bodies = [b"one", b"two", *FAILURES, b"dies", b"three"]

    def run() -> dict[str, int]:
        with (
            InProcesses(work, processes=2) as listener,
            PushConsumer(
                fresh.nameserver, group="G", listener=listener, subscriptions=["work"],
                settings=PushConsumerSettings(consume_from=ConsumeFrom.FIRST, concurrency=1),
            ) as consumer,
        ):  # fmt: skip
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                counts = consumer.statistics().get("work")
                if counts is not None and counts.calls >= len(bodies):
                    return {"consumed": counts.consumed, "failed": counts.failed}
                time.sleep(0.05)
        raise AssertionError("not all messages were given")

    properties = {"folder": str(tmp_path)}
    for body in bodies:
        await producer.send(
            Message("work", body, properties=properties), selector=lambda queues, _m: queues[0]
        )
    assert await asyncio.to_thread(run) == {"consumed": 3, "failed": len(FAILURES) + 1}
    pids = {int((tmp_path / body.decode()).read_text()) for body in bodies}
    assert os.getpid() not in pids


TENANT = ContextVar("TENANT", default="nobody")


def swap_tenant(given: Any) -> bool:
    before, _ = TENANT.get(), TENANT.set(given)
    return before == "nobody"


def test_calls_of_one_process_share_no_context_variables():
    with InProcesses(swap_tenant, processes=1) as listener:
        assert [listener(each) for each in ("a", "b", "c")] == [True, True, True]


class OwnError(Exception):
    """An error of a program, which cannot be made again of what it hands to its base."""

    def __init__(self, order: str, reason: str) -> None:
        super().__init__(f"{order}: {reason}")


ERRORS: dict[str, Callable[[], Exception]] = {
    "refused": lambda: BrokerRefused(13, "too large", "10.0.0.1:10911"),
    "own": lambda: OwnError("order 17", "no such customer"),
    "a lock within": lambda: ValueError("locked", threading.Lock()),
}


def fail_as_told(given: Any) -> Any:
    if given in ERRORS:
        error = ERRORS[given]()
        raise error
    return os.getpid()


def test_an_error_of_a_process_comes_back_or_is_told_as_text_and_the_process_goes_on():
    with InProcesses(fail_as_told, processes=1) as listener:
        before = listener("pid")
        with pytest.raises(BrokerRefused, match="too large") as refused:
            listener("refused")
        assert refused.value.code == 13
        with pytest.raises(RuntimeError, match="OwnError: order 17: no such customer"):
            listener("own")
        with pytest.raises(RuntimeError, match=r"ValueError: .*locked"):
            listener("a lock within")
        assert listener("pid") == before


def test_a_listener_that_never_blocks_needs_no_process():
    async def listen(_message: StoredMessage) -> None: ...

    with pytest.raises(SettingsError, match="async def"):
        InProcesses(listen)  # type: ignore[arg-type]
