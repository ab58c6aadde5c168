"""Programs whose threads gevent or eventlet have replaced: refused at once; where threads are real, they work."""

from __future__ import annotations

import sys

import pytest

from tests.support.programs import run_program

# How a program patches, and what the refusal tells to call instead.
CALLS = {
    "gevent.monkey.patch_all()": "gevent.monkey.patch_all(thread=False, queue=False)",
    "gevent.monkey.patch_all(thread=False)": "gevent.monkey.patch_all(thread=False, queue=False)",
    "eventlet.monkey_patch()": "eventlet.monkey_patch(thread=False)",
}
PROGRAM = """
import asyncio, sys
from cometmq import AsyncPushConsumer, ConsumeFrom, Message, Producer, PushConsumerSettings
from cometmq.embedded import Embedded
from cometmq.errors import SettingsError

MESSAGE = Message("greenlets", b"x")


def blocking():
    with Producer(sys.argv[1]) as producer:
        return producer.send(MESSAGE, timeout_ms=30_000).status.name


async def push():
    '''With a listener that runs in threads.'''
    got, loop = asyncio.Event(), asyncio.get_running_loop()
    consumer = AsyncPushConsumer(
        sys.argv[1], group="greenlets", listener=lambda _: loop.call_soon_threadsafe(got.set),
        subscriptions=["greenlets"], settings=PushConsumerSettings(consume_from=ConsumeFrom.FIRST),
    )
    async with consumer:
        await got.wait()
    return "consumed"


def embedded():
    with Embedded() as cluster:
        return cluster.put(MESSAGE)[0].status.name


for run in (blocking, lambda: asyncio.run(push()), embedded):
    try:
        print(run())
    except SettingsError as error:
        print(error)
"""


def said(call: str, names: str) -> list[str]:
    """What a program prints that begins with a call; one that hangs fails the test."""
    module = call.partition("(")[0].rpartition(".")[0]
    program = f"import {module}\n{call}\n{PROGRAM}"
    return run_program(sys.executable, "-c", program, names).stdout.splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_a_program_of_greenlets_is_refused_at_once(call, names):
    """The first wait for a thread would never end."""
    library = call.partition(".")[0]
    refusal = (
        f"CometMQ needs real threads, and {library} has replaced them; call {CALLS[call]}, "
        "or use a worker with threads"
    )
    assert said(call, names) == [refusal] * 3


@pytest.mark.parametrize("call", sorted({*CALLS.values()}))
def test_a_program_with_real_threads_works_as_the_refusal_says(call, names):
    assert said(call, names) == ["OK", "consumed", "OK"]
