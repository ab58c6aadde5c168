"""Address patterns of ACL 1.0."""

from __future__ import annotations

import pytest

from cometmq.access.address_pattern import AddressPattern


@pytest.mark.parametrize(
    ("pattern", "within", "without"),
    [
        ("", [], ["10.0.0.1", "::1"]),
        ("*", ["10.0.0.1", "::1"], []),
        ("*.*.*.*", ["10.0.0.1", "::1"], []),
        ("10.0.0.1", ["10.0.0.1"], ["10.0.0.10", "10.0.0.2"]),
        ("10.0.*.*", ["10.0.0.1", "10.0.255.3"], ["10.1.0.1", "::1"]),
        ("10.0.0.1-20", ["10.0.0.1", "10.0.0.20"], ["10.0.0.0", "10.0.0.21"]),
        ("10.0.1-2.*", ["10.0.1.9", "10.0.2.0"], ["10.0.3.0"]),
        ("10.0.0.{1,22}", ["10.0.0.1", "10.0.0.22"], ["10.0.0.2"]),
        ("10.0.0.1,10.0.0.7", ["10.0.0.7"], ["10.0.0.2"]),
        ("1050::5:600:300c:1", ["1050::5:600:300c:1"], ["1050::5:600:300c:2"]),
        ("[1050::5:600:300c:1]", ["1050::5:600:300c:1"], ["1050::5:600:300c:2"]),
        ("1050:0:0:0:5:600:300c:*", ["1050::5:600:300c:9"], ["1051::5:600:300c:9", "10.0.0.1"]),
        ("1050:0:0:0:5:600:300c:1-a", ["1050::5:600:300c:a"], ["1050::5:600:300c:b"]),
    ],
)
def test_a_pattern_means_these_addresses(pattern, within, without):
    read = AddressPattern(pattern)
    assert [ip for ip in within if not read.holds(ip)] == []
    assert [ip for ip in without if read.holds(ip)] == []


@pytest.mark.parametrize(
    "pattern",
    ["10.0.0", "10.0.*", "256.0.0.1", "10.0.0.5-1", "10.0.0.a-b", "host", "10.0.0.{}", "10.0.0.1/24", "1::*", "-", "10.0.0.-5"],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(pattern):
    with pytest.raises(ValueError, match="is not an address"):
        AddressPattern(pattern)
