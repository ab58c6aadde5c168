"""CRC-32 where the faster library is, and where it is not."""

import importlib
import sys
import zlib

from cometmq.kernel import crc


def test_both_libraries_agree(monkeypatch):
    pieces = [b"", b"a", b"123456789", bytes(range(256)) * 40]
    expected = [zlib.crc32(piece) for piece in pieces]
    assert crc.crc32.__module__ == "zlib_ng.zlib_ng"
    assert list(map(crc.crc32, pieces)) == expected
    monkeypatch.setitem(sys.modules, "zlib_ng.zlib_ng", None)
    try:
        assert importlib.reload(crc).crc32 is zlib.crc32
    finally:
        monkeypatch.undo()
        importlib.reload(crc)
