"""A peer sits on this machine where the connection never left it."""

from __future__ import annotations

import pytest

from cometmq.net.own_machine import is_own_machine, plain_ip


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("::ffff:10.9.8.7", "10.9.8.7"),
        ("::1", "::1"),
        ("fe80::1%eth0", "fe80::1"),
    ],
)
def test_an_address_is_compared_without_its_dress(text, plain):
    assert plain_ip(text) == plain


@pytest.mark.parametrize(
    ("peer", "local", "is_own"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.9", "127.0.0.1", True),
        ("::1", "::1", True),
        ("10.9.8.7", "10.9.8.7", True),
        ("10.9.8.6", "10.9.8.7", False),
        ("fe80::2", "fe80::1", False),
    ],
)
def test_own_is_loopback_or_the_same_address(peer, local, is_own):
    assert is_own_machine(peer, local) is is_own
