"""Who may fetch the log, and how often nameservers are asked."""

from __future__ import annotations

import asyncio

from cometmq.broker.replication.allowed_addresses import (
    AllowedAddresses,
    members_by_nameservers,
)
from cometmq.codec.bodies.cluster import ClusterInfo, encode_cluster_info
from cometmq.codec.remoting import Command
from cometmq.model.clock import Clock
from cometmq.model.codes import RequestCode
from cometmq.model.errors import ConnectionLost
from cometmq.model.route import BrokerData
from cometmq.net.loop import loop_clock
from tests.support.hand_clock import HandClock


class Calls:
    """Nameservers by lists."""

    def __init__(self, **answers: Command | None) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def call(self, address, code, fields, body, *, timeout_ms):
        assert code == RequestCode.GET_BROKER_CLUSTER_INFO
        self.asked.append(address)
        await asyncio.sleep(0)
        answer = self.answers[address]
        if answer is None:
            raise ConnectionLost("gone")
        return answer

    def is_connected(self, address):
        return True

    async def lost(self, address):
        pass


def group(*addresses: str) -> Command:
    members = dict(enumerate(addresses))
    info = ClusterInfo({"a": BrokerData("c", "a", members)}, {"c": ("a",)})
    return Command(0, body=encode_cluster_info(info))


async def ips_of(name: str) -> frozenset[str]:
    """Host names, and who has them."""
    return frozenset({"slave.example": ["127.0.0.4", "::6"]}.get(name, []))


def allowed(calls: Calls, clock: Clock, text: str = "") -> AllowedAddresses:
    find = members_by_nameservers(list(calls.answers), "a", calls, ips_of)
    return AllowedAddresses(text, find, clock)


async def test_the_slaves_that_any_nameserver_knows_may_and_the_master_itself_may_not():
    calls = Calls(
        one=group("127.0.0.1:1", "127.0.0.2:1"),
        two=group("127.0.0.1:1", "127.0.0.3:1", "[::5]:1", "[fd00:0:0:0:0:0:0:2]:1", "b:1"),
        dead=None,
        odd=Command(0, body=b"no json"),
        none=Command(1),
    )
    who = allowed(calls, HandClock())
    assert not who.has("127.0.0.2")
    await who.look()
    slaves = ["127.0.0.2", "127.0.0.3", "::5", "fd00::2"]
    assert [ip for ip in ("127.0.0.1", *slaves) if who.has(ip)] == slaves


async def test_a_slave_of_javas_that_registers_its_name_may():
    calls = Calls(one=group("127.0.0.1:1", "slave.example:1", "nobody.example:1", ":1"))
    who = allowed(calls, HandClock())
    await who.look()
    assert [ip for ip in ("127.0.0.4", "::6", "127.0.0.1") if who.has(ip)] == [
        "127.0.0.4",
        "::6",
    ]


async def test_the_settings_may_name_more():
    who = allowed(Calls(), HandClock(), "10.1.0.0/16; 192.0.2.7,::7")
    assert all(map(who.has, ("10.1.2.3", "192.0.2.7", "::7")))
    assert not any(map(who.has, ("10.2.0.1", "192.0.2.8", "::8")))


async def test_nameservers_are_asked_once_a_second_whoever_comes():
    calls, clock = Calls(one=group("127.0.0.1:1", "127.0.0.2:1")), HandClock()
    who = allowed(calls, clock)
    await asyncio.gather(*[who.look() for _ in range(100)])
    await who.look()
    assert calls.asked == ["one"]
    clock.turn(1.0)
    await who.look()
    assert calls.asked == ["one", "one"]


async def test_who_was_a_member_stays_one_while_its_nameserver_does_not_answer():
    """A stranger has the nameservers asked, and a slave that connects anew meanwhile is no stranger for that."""
    calls, clock = (
        Calls(one=group("127.0.0.1:1", "127.0.0.2:1"), two=group("127.0.0.1:1")),
        HandClock(),
    )
    who = allowed(calls, clock)
    await who.look()
    calls.answers.update(one=None, two=group("127.0.0.1:1", "127.0.0.3:1"))
    for _ in range(2):
        clock.turn(1.0)
        await who.look()
        assert who.has("127.0.0.2")
        assert who.has("127.0.0.3")
    calls.answers.update(one=group("127.0.0.1:1"))
    clock.turn(1.0)
    await who.look()
    assert not who.has("127.0.0.2")


async def test_a_slave_that_registers_within_a_second_of_a_look_for_another_is_let_in():
    calls = Calls(one=group("127.0.0.1:1", "127.0.0.2:1"))
    who = allowed(calls, loop_clock())
    assert await who.admits("127.0.0.2")
    calls.answers.update(one=group("127.0.0.1:1", "127.0.0.2:1", "127.0.0.3:1"))
    assert await who.admits("127.0.0.3")
    assert not await who.admits("127.0.0.9")
    assert len(calls.asked) == 3
