"""The registrar by values: what it asks which nameserver, without a socket."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from cometmq.broker.registrar import Registrar
from cometmq.codec.bodies.topic_config import TopicTable
from cometmq.codec.headers.nameserver import BrokerIdentity
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import ConnectionLost
from cometmq.model.topic import TopicConfig
from cometmq.net.tasks import Tasks
from tests.unit.broker.service.client_by_hand import HandAnswer

REGISTER, LEAVE = RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER
ONE = RequestCode.REGISTER_TOPIC_IN_NAMESRV


class Call(NamedTuple):
    """What a nameserver was asked."""

    address: str
    code: int
    fields: dict[str, str]


class HandNameservers:
    """Nameservers that are lists."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.down: set[str] = set()
        self.losses = asyncio.Event()
        self.answer = HandAnswer()

    async def call(
        self, address: str, code: int, fields: dict[str, str], body: bytes, *, timeout_ms: int
    ) -> HandAnswer:
        self.calls.append(Call(address, code, fields))
        if address in self.down:
            raise ConnectionLost(address)
        return self.answer

    def is_connected(self, address: str) -> bool:
        return address not in self.down

    async def lost(self, address: str) -> None:
        if address not in self.down:
            await self.losses.wait()

    def codes(self, address: str) -> list[int]:
        return [call.code for call in self.calls if call.address == address]


@pytest.fixture
def nameservers():
    return HandNameservers()


def registrar_of(nameservers: HandNameservers, count: int = 1) -> Registrar:
    table = TopicTable(
        DataVersion(1, 1), {f"t{number}": TopicConfig(f"t{number}") for number in range(count)}
    )
    return Registrar(
        ["one", "two"],
        BrokerIdentity("broker-a", "127.0.0.1:10911", "DefaultCluster", 0),
        lambda: table,
        ha_address="127.0.0.1:10912",
        calls=nameservers,
        tasks=Tasks("registrar"),
    )


async def test_it_registers_everywhere_and_leaves_those_that_are_up(nameservers):
    nameservers.down = {"two"}
    registrar = registrar_of(nameservers)
    await registrar.start()
    assert sorted(call.address for call in nameservers.calls) == ["one", "two"]
    assert nameservers.calls[0].fields["haServerAddr"] == "127.0.0.1:10912"
    await registrar.close()
    assert nameservers.codes("one") == [REGISTER, LEAVE]
    assert nameservers.codes("two") == [REGISTER]


async def test_a_nameserver_that_was_lost_is_told_again_a_second_later(nameservers):
    registrar = registrar_of(nameservers)
    await registrar.start()
    await asyncio.sleep(29)
    assert nameservers.codes("one") == [REGISTER]
    nameservers.losses.set()
    await asyncio.sleep(0.9)
    nameservers.losses.clear()
    assert nameservers.codes("one") == [REGISTER]
    await asyncio.sleep(0.2)
    assert nameservers.codes("one") == [REGISTER, REGISTER]
    await asyncio.sleep(29)
    assert nameservers.codes("one") == [REGISTER, REGISTER]
    await registrar.close()


async def test_a_nameserver_that_refuses_is_not_up(nameservers):
    nameservers.answer = HandAnswer(ResponseCode.SYSTEM_ERROR, "no")
    registrar = registrar_of(nameservers)
    await registrar.start()
    await registrar.close()
    assert nameservers.codes("one") == [REGISTER]


@pytest.mark.parametrize(("count", "code"), [(1, REGISTER), (1001, ONE)])
async def test_of_very_many_topics_only_those_that_changed_are_told(nameservers, count, code):
    registrar = registrar_of(nameservers, count)
    await registrar.start()
    nameservers.calls.clear()
    registrar.changed("t0")
    async with asyncio.timeout(5):
        await registrar.register()
    assert nameservers.codes("one") == [code]
    await registrar.close()
