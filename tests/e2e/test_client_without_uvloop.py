"""The client on asyncio's own loop, as where uvloop is absent."""

import subprocess
import sys

import pytest

from cometmq.embedded import Embedded

# What imports uvloop meets an ImportError from the first line on.
HIDDEN = """
import sys
sys.modules["uvloop"] = None
"""
BLOCKING = """
import threading
from cometmq.client import Admin, Message, Producer, PullConsumer, PushConsumer
names = sys.argv[1]
got = threading.Event()
with Admin(names) as admin, Producer(names) as producer:
    admin.create_topic("plain", queues=1)
    print(producer.send(Message("plain", b"one")).status.value)
    print(producer.send_async(Message("plain", b"two")).result(30).queue_offset)
    with PullConsumer(names, group="pulls") as consumer:
        queue, = consumer.queues("plain")
        print([message.body for message in consumer.fetch(queue, 0).messages])
    with PushConsumer(
        names, group="pushes", subscriptions=["plain"], listener=lambda message: got.set()
    ):
        producer.send(Message("plain", b"three"))
        print(got.wait(60))
print(type(producer._portal._loop).__module__.split(".")[0])
"""
ASYNC = """
import asyncio
from cometmq.client import AsyncProducer, AsyncPullConsumer, Message
async def main():
    async with AsyncProducer(sys.argv[1]) as producer:
        sent = await producer.send(Message("plain", b"four"))
        async with AsyncPullConsumer(sys.argv[1], group="async") as consumer:
            pulled = await consumer.fetch(sent.queue, sent.queue_offset)
            print(pulled.messages[0].body)
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def names():
    with Embedded() as mq:
        yield mq.nameserver


def run(code: str, names: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN + code, names],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_client_sends_and_consumes_without_uvloop(names):
    assert run(BLOCKING, names) == [
        "SEND_OK", "1", "[b'one', b'two']", "True", "asyncio",
    ]  # fmt: skip
    assert run(ASYNC, names) == ["b'four'"]


def test_the_import_brings_neither_a_loop_nor_a_codec():
    """Within 0.15 s of processor time: it brings next to nothing."""
    code = "import sys, cometmq.client; print([m for m in ('asyncio', 'uvloop', 'orjson', 'zstandard') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
