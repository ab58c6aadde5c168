"""The registrar against real nameservers in this process: changes, losses, leaving."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cometmq.broker.registration.registrar import Registrar
from cometmq.broker.registration.requests import NameserverChannels
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.codec.bodies.topic_config import TopicTable
from cometmq.codec.headers.nameserver import RegisterBrokerResponse
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.data_version import DataVersion
from cometmq.model.topic import TopicConfig
from cometmq.nameserver.server import NameServer
from cometmq.nameserver.settings import NameServerSettings
from cometmq.net.answer import Answer
from cometmq.net.channels import Channels
from cometmq.net.clock import SystemClock
from cometmq.net.requests import Handler
from cometmq.net.server import Server
from cometmq.steps.on_loop import Machines
from tests.support.no_log import system_world
from tests.support.processes import free_port
from tests.support.scripted import until
from tests.support.steps import run
from tests.support.tables import answering


class Topics:
    """The broker's topics, as the registrar sees them."""

    def __init__(self, *names: str) -> None:
        self.table = TopicTable(DataVersion(1, 1), {name: TopicConfig(name) for name in names})

    def add(self, name: str) -> None:
        version = self.table.version.next(2)
        self.table = TopicTable(version, {**self.table.topics, name: TopicConfig(name)})

    def __call__(self) -> TopicTable:
        return self.table


@asynccontextmanager
async def nameserver(port: int = 0) -> AsyncIterator[NameServer]:
    settings = NameServerSettings(listen_port=port, kv_config_path=None)
    server = NameServer(settings, SystemClock())
    await server.start()
    try:
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def registrar(
    *nameservers: str, topics: Topics, broker_id: int = 0, is_compressed: bool = False
) -> AsyncIterator[Registrar]:
    channels = Channels(SystemClock())
    world = system_world()
    registrar = Registrar(
        BrokerSettings(
            broker_name="broker-a",
            broker_id=broker_id,
            nameservers=";".join(nameservers),
            is_registration_compressed=is_compressed,
        ),
        f"127.0.0.1:1091{broker_id + 1}",
        topics,
        ha_address="127.0.0.1:10920",
        ask=NameserverChannels(channels),
        timers=world,
    )
    machines = Machines(world, "registrar")
    await machines.run(registrar.start(machines.keep))
    try:
        yield registrar
    finally:
        await machines.close()
        await machines.run(registrar.leave())
        await channels.close()


@asynccontextmanager
async def told_by(register: Handler, topics: Topics) -> AsyncIterator[Registrar]:
    """A registrar, and a nameserver that answers registrations so."""
    dispatcher = answering(
        {
            RequestCode.REGISTER_BROKER: register,
            RequestCode.UNREGISTER_BROKER: lambda _command, _peer: Answer(),
        }
    )
    server = Server(dispatcher, SystemClock())
    port = await server.start("127.0.0.1", 0)
    async with registrar(f"127.0.0.1:{port}", topics=topics) as told:
        yield told
    await server.close()


@pytest.mark.parametrize("is_compressed", [False, True])
async def test_after_the_start_every_nameserver_knows_the_broker(is_compressed):
    async with nameserver() as first, nameserver() as second:
        servers = (first, second)
        addresses = [server.address for server in servers]
        topics = Topics("A", "B")
        async with registrar(*addresses, topics=topics, is_compressed=is_compressed):
            assert all(set(server.routes.topics) == {"A", "B"} for server in servers)
        assert all(server.routes.groups == {} for server in servers)


async def test_a_change_is_known_when_register_returns():
    async with nameserver() as names:
        topics = Topics("A", "B")
        async with registrar(names.address, topics=topics) as told:
            topics.add("C")
            await run(told.register())
            assert set(names.routes.topics) == {"A", "B", "C"}
            topics.add("D")
            told.changed()
            await until(lambda: "D" in names.routes.topics, "the change")


async def test_many_changes_at_once_are_told_together():
    counts: list[int] = []

    def count(command: Command, _peer: object) -> Answer:
        counts.append(len(command.body))
        return Answer()

    topics = Topics("A", "B")
    async with told_by(count, topics) as told:
        for number in range(100):
            topics.add(f"T{number}")
            told.changed()
        await run(told.register())
        assert len(counts) <= 3


async def test_a_nameserver_that_hangs_delays_a_change_by_the_time_that_it_may_take():
    answers = [Answer()]
    topics = Topics("A")
    async with told_by(lambda *_: answers.pop() if answers else None, topics) as told:
        topics.add("B")
        began = time.monotonic()
        await run(told.register(1.0))
        assert 1.0 <= time.monotonic() - began < 2.0


async def test_a_nameserver_that_is_down_delays_nobody_and_is_told_once_it_is_up():
    port = free_port()
    async with nameserver() as up:
        topics = Topics("A", "B")
        async with registrar(f"127.0.0.1:{port}", up.address, topics=topics) as told:
            assert set(up.routes.topics) == {"A", "B"}
            topics.add("C")
            async with asyncio.timeout(5):
                await run(told.register())
            assert "C" in up.routes.topics
            async with nameserver(port) as late:
                await until(lambda: set(late.routes.topics) == {"A", "B", "C"}, "all topics")


async def test_a_nameserver_that_was_restarted_is_told_again():
    port = free_port()
    topics = Topics("A", "B")
    async with nameserver(port) as before:
        made = registrar(before.address, topics=topics)
        await made.__aenter__()
    try:
        async with nameserver(port) as after:
            await until(lambda: set(after.routes.topics) == {"A", "B"}, "its topics")
    finally:
        await made.__aexit__(None, None, None)


async def test_a_slave_learns_its_master():
    async with (
        nameserver() as names,
        registrar(names.address, topics=Topics("A", "B")) as first,
        registrar(names.address, topics=Topics("A", "B"), broker_id=1) as told,
    ):
        assert first.master == RegisterBrokerResponse()
        news: list[RegisterBrokerResponse] = []
        told.on_master.append(news.append)
        await run(told.register())
        assert not news, "nothing has changed"
        assert told.master == RegisterBrokerResponse(
            ha_server_addr="127.0.0.1:10920", master_addr="127.0.0.1:10911"
        )


async def test_who_wants_to_know_the_master_is_told_when_it_changes():
    async with (
        nameserver() as names,
        registrar(names.address, topics=Topics("A", "B"), broker_id=1) as told,
    ):
        news: list[RegisterBrokerResponse] = []
        told.on_master.append(news.append)
        async with registrar(names.address, topics=Topics("A", "B")):
            await run(told.register())
            await run(told.register())
            master = RegisterBrokerResponse(
                ha_server_addr="127.0.0.1:10920", master_addr="127.0.0.1:10911"
            )
            assert news == [master]
        await run(told.register())
        assert told.master == master, "who is gone is still the one to be asked"
        assert news == [master]


async def test_without_nameservers_there_is_nothing_to_do():
    async with registrar(topics=Topics("A", "B")) as told:
        await run(told.register())
