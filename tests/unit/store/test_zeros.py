"""What holds nothing is known at any length, and one byte anywhere is something."""

from __future__ import annotations

import pytest

from cometmq.store.zeros import is_zeros

MIB = 1 << 20


@pytest.mark.parametrize("size", [0, 1, 4 * MIB, 4 * MIB + 4096, 4 * MIB + 4097, 9 * MIB])
def test_zeros_are_zeros_and_one_other_byte_is_seen(size):
    assert is_zeros(bytes(size))
    for place in {0, size // 2, size - 1} if size else ():
        piece = bytearray(size)
        piece[place] = 1
        assert not is_zeros(bytes(piece)), place
