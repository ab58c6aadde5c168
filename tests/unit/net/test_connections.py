"""Who goes when a door is full: counted by network, the silent first, and who works last."""

from __future__ import annotations

from typing import Any

import pytest

from cometmq.net.connections import (
    OWN_MACHINE,
    Bounds,
    Connections,
    ServedProtocol,
    network_of,
)
from tests.support.hand_clock import HandClock
from tests.support.hand_connection import connection_from

LOOPBACK = "127.0.0.1"


class Sitter(ServedProtocol):
    """A protocol without a connection, which notes that it is aborted."""

    is_busy = False

    def __init__(self, *, is_busy: bool) -> None:
        self.is_busy = is_busy
        self.has_read = self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


class Room:
    """Connections under a clock that the test turns."""

    def __init__(self, **bounds: Any) -> None:
        self.clock = HandClock()
        self.connections = Connections(Bounds(**bounds), self.clock)

    def come(self, ip: str, *, has_spoken: bool = False, is_busy: bool = False) -> bool:
        """Let somebody in if there is room."""
        if self.connections.refusal(came := connection_from(ip)) is not None:
            return False
        came.protocol, came.has_spoken = Sitter(is_busy=is_busy), has_spoken
        self.connections.add(came)
        return True

    def of(self, network: str) -> list[Any]:
        """The protocols of the connections of a network."""
        return [each.protocol for each in self.connections if each.network == network]


@pytest.mark.parametrize(
    ("ip", "is_own", "network"),
    [
        ("10.0.0.7", False, "10.0.0.7"),
        ("10.0.0.7", True, OWN_MACHINE),
        ("2001:db8:0:1::5", False, "2001:0db8:0000:0001::/64"),
        ("2001:db8:0:1:2:3:4:5", False, "2001:0db8:0000:0001::/64"),
    ],
)
def test_connections_are_counted_by_network(ip, is_own, network):
    assert network_of(ip, is_own=is_own) == network


@pytest.mark.parametrize(("is_busy", "of_the_own_one"), [(False, 1), (True, 0)])
def test_another_address_always_gets_in_and_the_own_one_waits_for_a_silent_one(
    is_busy, of_the_own_one
):
    room = Room(count_max=4)
    for _ in range(4):
        assert room.come("10.0.0.1", has_spoken=True, is_busy=is_busy)
    crowd = room.of("10.0.0.1")
    assert not room.come("10.0.0.1")
    room.clock.turn(1)
    assert room.come("10.0.0.2")
    assert [each.is_aborted for each in crowd].count(True) == 1
    assert len(room.connections) == 4
    room.clock.turn(60)
    assert room.come("10.0.0.1") is bool(of_the_own_one)
    assert [each.is_aborted for each in crowd].count(True) == 1 + of_the_own_one


def test_who_works_goes_after_who_is_silent():
    room = Room(count_max=4)
    for number in range(4):
        room.come("10.0.0.1", is_busy=number < 2)
    room.clock.turn(1)
    assert [room.come(f"10.0.0.{number}") for number in (2, 3)] == [True, True]
    assert [each.is_busy for each in room.of("10.0.0.1")] == [True, True]


def test_who_works_no_more_may_go_though_another_still_works():
    room = Room(count_max=2)
    for _ in range(2):
        room.come("10.0.0.1", is_busy=True)
    room.clock.turn(60)
    assert not room.come("10.0.0.1")
    room.of("10.0.0.1")[1].is_busy = False
    room.clock.turn(1)
    assert room.come("10.0.0.1")


def test_who_goes_counts_no_more_when_many_come_at_once():
    """They are closed in the loop's next iteration, and up to 128 come in this one."""
    room = Room(count_max=16)
    assert all(room.come(LOOPBACK) for _ in range(16))
    room.clock.turn(3)
    for _ in range(16):
        assert room.come(LOOPBACK)
        assert len(room.connections) == 16
    assert not room.come(LOOPBACK)


def test_one_address_has_so_many_and_the_own_machine_as_many_as_there_are():
    room = Room(count_max=100, of_network_max=3)
    assert [room.come("10.0.0.1") for _ in range(5)] == [True, True, True, False, False]
    assert room.come("10.0.0.2")
    assert all(room.come(LOOPBACK) for _ in range(20))
    room.connections.forget(room.of("10.0.0.1")[0])
    assert room.come("10.0.0.1")
