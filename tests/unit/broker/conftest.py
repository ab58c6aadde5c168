"""A whole broker in the test's own loop, and a channel to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from inspect import isawaitable
from pathlib import Path

import pytest

from cometmq.broker.inner.puts import InnerMessage
from cometmq.broker.parts import Parts
from cometmq.broker.server import Broker
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.codec.remoting import Command
from cometmq.kernel import KERNEL
from cometmq.model.clock import Clock
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.group import GroupConfig
from cometmq.model.topic import TopicConfig
from cometmq.net.channels import Channels
from cometmq.net.loop import loop_clock
from cometmq.net.virtual_loop import VirtualLoop
from cometmq.store.conf_file import ConfFile
from tests.support.request_fields import short_fields
from tests.unit.broker.parts_by_hand import tables_by_hand

# The tests of the fast path. A broker without the compiled kernel has none (test_sends.py).
collect_ignore = [] if KERNEL == "fast" else ["test_ack_intake.py", "test_pull_intake.py"]


class Served:
    """A running broker and a client's connections to it."""

    def __init__(self, broker: Broker, channels: Channels) -> None:
        self.broker = broker
        self.channels = channels

    async def ask(self, code: int, fields=None, body: bytes = b"", **more) -> Command:
        command = Command(int(code), fields=fields or {}, body=body, **more)
        return await self.channels.call(self.broker.address, command, timeout_ms=20_000)

    async def done(self, code: int, fields=None, body: bytes = b"", **more) -> Command:
        """Ask for what must succeed."""
        answer = await self.ask(code, fields, body, **more)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer

    async def refused(
        self, with_code: int, words: str, code: int, fields=None, body: bytes = b"", **more
    ) -> Command:
        """Ask for what must be refused with a code, and in such words."""
        answer = await self.ask(code, fields, body, **more)
        assert answer.code == with_code, answer.remark
        assert words in (answer.remark or "")
        return answer

    async def send(
        self, body: bytes, topic="Orders", queue_id=0, properties=None, **more
    ) -> Command:
        """Send a message, which must be stored."""
        fields = short_fields(topic, queue_id, properties, **more)
        return await self.done(RequestCode.SEND_MESSAGE_V2, fields, body)

    async def begin(self, code: int, fields=None, body: bytes = b"") -> asyncio.Future[Command]:
        """Send a request and do not wait for its answer."""
        channel = await self.channels.get(self.broker.address)
        command = Command(int(code), fields=fields or {}, body=body)
        return channel.start_call(command, timeout_ms=30_000)

    def feature(self, attribute: str):
        """The feature that has it."""
        (found,) = [each for each in self.broker.role.features if hasattr(each, attribute)]
        return found

    @property
    def parts(self) -> Parts:
        """What the features have in common."""
        some = [each._parts for each in self.broker.role.features if hasattr(each, "_parts")]
        assert {id(each) for each in some} == {id(some[0])}
        return some[0]


async def eventually(look, *, seconds: float = 30):
    """Look until the answer is true; give it."""
    async with asyncio.timeout(seconds):
        while True:
            answer = look()
            if isawaitable(answer):
                answer = await answer
            if answer:
                return answer
            await asyncio.sleep(0.01)


def put_as_broker(served: Served, topic: str, body: bytes, properties, queue_id: int = 0):
    """Write a message as the broker does, where no client may: one that a Java broker left in the store, say."""
    parts = served.parts
    config = parts.topics.get(topic)
    assert config is not None
    host, now_ms = parts.store.store_host, parts.clock.now_ms()
    message = InnerMessage(config, queue_id, body, properties, born_ms=now_ms, born_host=host)
    return parts.inner.put(message)


def virtual_loop() -> VirtualLoop:
    """The running loop, whose time a test may turn."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


@asynccontextmanager
async def serve(
    path: Path, clock: Clock | None = None, conf: ConfFile | None = None, **settings
):
    """A broker on free ports with its store at `path`; closed in the end."""
    clock = clock or loop_clock()
    values = {
        "listen_port": 0,
        "store_path": str(path),
        "commitlog_file_size": 1 << 20,
        "busy_timeout_ms": 60_000,  # A busy test machine is no reason to refuse.
    }
    given = BrokerSettings(broker_name="broker-a", **{**values, **settings})
    broker = Broker(given, clock, conf=conf)
    await broker.start()
    channels = Channels(loop_clock())
    try:
        yield Served(broker, channels)
    finally:
        await channels.close()
        await broker.close()


@pytest.fixture
async def served(tmp_path):
    async with serve(tmp_path / "store") as running:
        yield running


@pytest.fixture
async def tables(tmp_path: Path) -> AsyncIterator[Parts]:
    """Store and tables, with a topic of two queues and a group."""
    async with tables_by_hand(tmp_path, TopicConfig("orders", 2, 2)) as parts:
        parts.groups.put(GroupConfig("g"))
        yield parts
