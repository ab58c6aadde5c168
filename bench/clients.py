"""What our Python client does on our broker: sends in its ways, and a push consumer that does nothing.

    .venv/bin/python -m bench.clients [--seconds 4] [--rounds 3] [--system cometmq|java]

The sends are those of `python_peers`: 128 bytes, stored and acknowledged, one at a time and 256 in flight
(a semaphore and a task for each message, as aiokafka's users write it), so that rates may be set beside
aiokafka's on the same machine: 47,000 to 58,000/s where this was written. The client and the broker share
the machine's cores. The row of each round is printed, then the medians.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

from bench.systems import COMETMQ, JAVA, running
from cometmq.client import (
    AsyncProducer,
    AsyncPushConsumer,
    ConsumeFrom,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    StoredMessage,
)

BODY = b"x" * 128
IN_FLIGHT = 256
WARM_UP_SECONDS = 0.5
CONSUMED = 200_000

Row = dict[str, float]


def p50_us(latencies: list[float]) -> float:
    return statistics.median(latencies) * 1e6


async def one_at_a_time(producer: AsyncProducer, seconds: float) -> Row:
    latencies = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        await producer.send(Message("bench", BODY))
        latencies.append(time.perf_counter() - began)
    return {"async, one at a time: p50 us": p50_us(latencies)}


async def many_in_flight(producer: AsyncProducer, seconds: float) -> float:
    """Messages a second."""
    room = asyncio.Semaphore(IN_FLIGHT)
    tasks: set[asyncio.Task[None]] = set()
    count = 0

    async def one() -> None:
        await producer.send(Message("bench", BODY))
        room.release()

    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        await room.acquire()
        task = asyncio.create_task(one())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        count += 1
    await asyncio.gather(*tasks)
    return count / (time.perf_counter() - began)


async def asyncio_sends(nameserver: str, seconds: float) -> Row:
    async with AsyncProducer(nameserver) as producer:
        await one_at_a_time(producer, WARM_UP_SECONDS)
        row = await one_at_a_time(producer, seconds)
        row[f"async, {IN_FLIGHT} in flight: /s"] = await many_in_flight(producer, seconds)
        messages = [Message("bench", BODY) for _ in range(20_000)]
        began = time.perf_counter()
        await producer.send_many(messages)
        row["async, send_many: /s"] = len(messages) / (time.perf_counter() - began)
    gathering = ProducerSettings(is_auto_batch=True, batch_delay_ms=0)
    async with AsyncProducer(nameserver, settings=gathering) as producer:
        await many_in_flight(producer, WARM_UP_SECONDS)
        rate = await many_in_flight(producer, seconds)
        row[f"async, {IN_FLIGHT} in flight, gathered into batches: /s"] = rate
    return row


def blocking_sends(nameserver: str, seconds: float) -> Row:
    with Producer(nameserver) as producer:
        latencies = []
        warm = time.perf_counter() + WARM_UP_SECONDS
        end = warm + seconds
        while (began := time.perf_counter()) < end:
            producer.send(Message("bench", BODY))
            if began > warm:
                latencies.append(time.perf_counter() - began)
    return {"blocking, one thread: p50 us": p50_us(latencies)}


async def async_listener(nameserver: str, _seconds: float) -> Row:
    seen, done = Seen(), asyncio.Event()

    async def listen(_message: StoredMessage) -> None:
        if seen.one():
            done.set()

    settings = PushSettings(consume_from=ConsumeFrom.FIRST)
    async with AsyncPushConsumer(
        nameserver, group="bench_async", listener=listen, subscriptions={"consumed": "*"},
        settings=settings,
    ):  # fmt: skip
        await done.wait()
    return {"push, async listener: /s": seen.rate}


def blocking_listener(nameserver: str, _seconds: float) -> Row:
    seen = Seen()
    settings = PushSettings(consume_from=ConsumeFrom.FIRST)

    def count(_message: StoredMessage) -> None:
        seen.one()

    with PushConsumer(
        nameserver, group="bench_blocking", listener=count,
        subscriptions={"consumed": "*"}, settings=settings,
    ):  # fmt: skip
        while not seen.is_done:
            time.sleep(0.01)
    return {"push, blocking listener: /s": seen.rate}


class Seen:
    """Messages that a listener was given; the clock starts at the first."""

    def __init__(self) -> None:
        self._count = 0
        self._began = self._ended = 0.0

    def one(self) -> bool:
        """Count one; whether that was the last."""
        if not self._count:
            self._began = time.perf_counter()
        self._count += 1
        if self._count >= CONSUMED and not self._ended:
            self._ended = time.perf_counter()
        return self.is_done

    @property
    def is_done(self) -> bool:
        return self._ended > 0

    @property
    def rate(self) -> float:
        return CONSUMED / (self._ended - self._began)


async def fill(nameserver: str) -> None:
    """The messages that consumers are given; a little more, for threads count at once."""
    async with AsyncProducer(nameserver) as producer:
        batch = [Message("consumed", BODY) for _ in range(500)]
        for _ in range(CONSUMED // len(batch) + 2):
            await producer.send_batch(batch)


def measure(system: str, seconds: float, only: str) -> Row:
    with tempfile.TemporaryDirectory() as folder, running(system, Path(folder)) as cluster:
        names = cluster.nameserver
        row: Row = {}
        works: dict[str, Callable[[], Row]] = {
            "async": lambda: uvloop.run(asyncio_sends(names, seconds)),
            "blocking": lambda: blocking_sends(names, seconds),
            "push": lambda: (
                uvloop.run(async_listener(names, seconds)) | blocking_listener(names, seconds)
            ),
        }
        if only in ("", "push"):
            uvloop.run(fill(names))
        for name, work in works.items():
            if only in ("", name):
                row |= work()
        return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--system", choices=(COMETMQ, JAVA), default=COMETMQ)
    parser.add_argument("--only", choices=("async", "blocking", "push"), default="")
    given = parser.parse_args()
    rows = []
    for _ in range(given.rounds):
        rows.append(measure(given.system, given.seconds, given.only))
        print("  ".join(f"{name}: {value:,.0f}" for name, value in rows[-1].items()))
    for name in rows[0]:
        values = [row[name] for row in rows]
        print(f"| {name} | {statistics.median(values):,.0f} |")


if __name__ == "__main__":
    main()
