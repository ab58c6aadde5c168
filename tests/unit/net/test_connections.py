"""Who goes when a server is full: counted by network, the silent first."""

from __future__ import annotations

from typing import Any

import pytest

from cometmq.net.connections import OWN_MACHINE, Connections, network_of
from tests.support.hand_clock import HandClock


class Sitter:
    """What `Connections` sees of a peer."""

    def __init__(self, network, now, *, has_spoken=False):
        self.network = network
        self.has_read = False
        self.has_spoken = has_spoken
        self.silent_since = now
        self.dropped = False

    def drop(self, _why):
        self.dropped = True


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


def test_another_address_always_gets_in_and_the_own_one_waits_for_a_silent_one():
    clock = HandClock()
    connections: Any = Connections(4, clock)
    crowd = [Sitter("10.0.0.1", clock.monotonic(), has_spoken=True) for _ in range(4)]
    for one in crowd:
        assert connections.admit(one, 5)
    assert not connections.admit(Sitter("10.0.0.1", clock.monotonic()), 5)
    clock.turn(1)
    assert connections.admit(Sitter("10.0.0.2", clock.monotonic()), 5)
    assert [one.dropped for one in crowd].count(True) == 1
    clock.turn(60)
    assert connections.admit(Sitter("10.0.0.1", clock.monotonic()), 5)
    assert [one.dropped for one in crowd].count(True) == 2


def test_one_address_has_so_many_and_the_own_machine_as_many_as_there_are():
    clock = HandClock()
    connections: Any = Connections(100, clock, of_network_max=3)
    taken = [connections.admit(Sitter("10.0.0.1", 0.0), 5) for _ in range(5)]
    assert taken == [True, True, True, False, False]
    assert connections.admit(Sitter("10.0.0.2", 0.0), 5)
    assert all(connections.admit(Sitter(OWN_MACHINE, 0.0), 5) for _ in range(20))
    gone = next(iter(connections))
    while gone.network != "10.0.0.1":
        gone = next(peer for peer in connections if peer.network == "10.0.0.1")
    connections.forget(gone)
    assert connections.admit(Sitter("10.0.0.1", 0.0), 5)
