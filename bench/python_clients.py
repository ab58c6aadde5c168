"""What Python's clients of several brokers do, each alone in a process, on uvloop; prints one line of JSON.

    python bench/python_clients.py cometmq|kafka|redis WORK ADDRESS SECONDS

A message has 128 bytes, and counts when it is stored and acknowledged: aiokafka with acks=1, redis-py with XADD. The
works: `alone` (one at a time), `in-flight` (256: a semaphore and a task for each message, as aiokafka's users
write it), `together` (256 gathered, and the next 256 when all of them are stored), `counted` (the same; SECONDS is the number of messages); for ours also `batched` (the same with batches that fill themselves, as aiokafka's always do),
`gathered` (1,024 futures at a time), `blocking` (one thread) and `push` (SECONDS is the number of messages then).
Imports nothing of this folder, for the peers live in a venv of their own.
"""

import asyncio
import json
import statistics
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import uvloop

if TYPE_CHECKING:
    from cometmq import AsyncProducer, StoredMessage

BODY = b"x" * 128
WINDOW = 256
AT_ONCE = 5_000  # tasks that wait for the window
GATHERED = 1_024
LISTENED = 32  # messages a listener is given, as in ClientBench.java
WARM_SECONDS = 1.5
PATIENT_MS = 600_000

Send = Callable[[], Awaitable[object]]
Row = dict[str, float]


# --- works


async def alone(send: Send, seconds: float) -> Row:
    latencies = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        await send()
        latencies.append(time.perf_counter() - began)
    return {"p50_us": statistics.median(latencies) * 1e6, "messages": len(latencies)}


async def in_flight(send: Send, seconds: float) -> Row:
    room = asyncio.Semaphore(WINDOW)

    async def one() -> None:
        async with room:
            await send()

    async def some() -> int:
        await asyncio.gather(*(one() for _ in range(AT_ONCE)))
        return AT_ONCE

    return await rate(some, seconds)


async def together(send: Send, seconds: float) -> Row:
    return await rate(lambda: window_of(send), seconds)


async def counted(send: Send, messages: float) -> Row:
    for _ in range(int(messages) // WINDOW):
        await window_of(send)
    return {"messages": int(messages) // WINDOW * WINDOW}


async def window_of(send: Send) -> int:
    """Send 256 messages at once and wait for all of them."""
    await asyncio.gather(*(send() for _ in range(WINDOW)))
    return WINDOW


async def rate(some: Callable[[], Awaitable[int]], seconds: float) -> Row:
    """Messages a second, and this process's processor time for each."""
    count = 0
    began, worked = time.perf_counter(), time.process_time()
    while (took := time.perf_counter() - began) < seconds:
        count += await some()
    worked = time.process_time() - worked
    return {"per_second": count / took, "client_us": worked / count * 1e6, "messages": count}


ASYNC_WORKS = {"alone": alone, "in-flight": in_flight, "together": together, "counted": counted}


# --- clients


async def aiokafka(work: str, address: str, seconds: float) -> Row:
    from aiokafka import AIOKafkaProducer  # type: ignore[import-not-found]

    async with AIOKafkaProducer(bootstrap_servers=address, acks=1) as producer:
        return await warmed(work, lambda: producer.send_and_wait("peers", BODY), seconds)


async def redis(work: str, address: str, seconds: float) -> Row:
    from redis import asyncio as client  # type: ignore[import-not-found]

    host, _, port = address.rpartition(":")
    pool = client.BlockingConnectionPool(host=host, port=int(port), max_connections=64)
    connection = client.Redis(connection_pool=pool)
    try:
        return await warmed(work, lambda: connection.xadd("peers", {"v": BODY}), seconds)
    finally:
        await connection.aclose()


async def warmed(work: str, send: Send, seconds: float) -> Row:
    await ASYNC_WORKS[work](send, WARM_SECONDS)
    return await ASYNC_WORKS[work](send, seconds)


@asynccontextmanager
async def our_producer(address: str, **settings: Any) -> "AsyncIterator[AsyncProducer]":
    from cometmq import AsyncProducer, ProducerSettings

    async with AsyncProducer(address, settings=ProducerSettings(**settings)) as producer:
        yield producer


async def ours(work: str, address: str, seconds: float) -> Row:
    from cometmq import Message

    settings: dict[str, Any] = {}
    if work == "batched":
        settings = {"auto_batch": True, "batch_delay_ms": 0}
    elif work == "counted":  # Under callgrind all is slow, which is no reason to fail a send.
        settings = {"send_timeout_ms": PATIENT_MS}
    async with our_producer(address, **settings) as producer:

        async def some() -> int:
            sends = [producer.send(Message("gathered", BODY)) for _ in range(GATHERED)]
            await asyncio.gather(*sends)
            return GATHERED

        if work == "gathered":
            await rate(some, WARM_SECONDS)
            return await rate(some, seconds)
        name = "in-flight" if work == "batched" else work
        return await warmed(name, lambda: producer.send(Message("peers", BODY)), seconds)


def our_blocking(address: str, seconds: float) -> Row:
    from cometmq import Message, Producer

    latencies = []
    with Producer(address) as producer:
        warm = time.perf_counter() + WARM_SECONDS
        end = warm + seconds
        while (began := time.perf_counter()) < end:
            producer.send(Message("blocking", BODY))
            if began > warm:
                latencies.append(time.perf_counter() - began)
    return {"p50_us": statistics.median(latencies) * 1e6, "messages": len(latencies)}


def our_push(address: str, messages: int) -> Row:
    """Messages a second from the first call of a listener that does nothing to the last."""
    from cometmq import ConsumeFrom, PushConsumer, PushConsumerSettings

    calls: list[tuple[float, int]] = []
    done = threading.Event()
    left = [messages]

    def listen(given: "list[StoredMessage]") -> None:
        calls.append((time.perf_counter(), len(given)))
        left[0] -= len(given)  # Threads may count at once: a few messages more are there.
        if left[0] <= 0:
            done.set()

    settings = PushConsumerSettings(consume_from=ConsumeFrom.FIRST, batch_count=LISTENED)
    with PushConsumer(
        address, group="bench_push", batch_listener=listen, subscriptions=["Consumed"],
        settings=settings,
    ):  # fmt: skip
        if not done.wait(120):
            raise RuntimeError(f"{left[0]} of {messages} messages did not come")
    took = max(at for at, _ in calls) - min(at for at, _ in calls)
    count = sum(count for _, count in calls)
    return {"per_second": count / took, "messages": count}


def main() -> None:
    """Do one work of one client."""
    name, work, address, amount = sys.argv[1:]
    if work == "blocking":
        row = our_blocking(address, float(amount))
    elif work == "push":
        row = our_push(address, int(amount))
    else:
        client = {"cometmq": ours, "kafka": aiokafka, "redis": redis}[name]
        row = uvloop.run(client(work, address, float(amount)))
    print(json.dumps(row))


if __name__ == "__main__":
    main()
