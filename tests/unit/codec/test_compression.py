"""Compressed bodies: what Java wrote, what comes back, and bombs."""

import tracemalloc
import zlib

import lz4.frame
import pytest
import zstandard

from cometmq.codec.compression import (
    Compression,
    compress,
    compressed_flag,
    decompress,
    plain_flag,
)
from cometmq.model.errors import BombError, CodecError

TEXT = b"hello " * 6
LIMIT = 4 * 1024 * 1024

# What the compressors of RocketMQ 5.3.3 (lz4-java 1.8.0, zstd-jni 1.5.2) made of TEXT.
FROM_JAVA = [
    (0x101, "04224d18607073100000006f68656c6c6f2006000650656c6c6f2000000000"),
    (0x201, "28b52ffd00586400003068656c6c6f200100114b11010000"),
    (0x301, "785ecb48cdc9c957c8c04b0200f88e0d39"),
    (0x001, "785ecb48cdc9c957c8c04b0200f88e0d39"),  # A client before 5.x names no algorithm.
]


@pytest.mark.parametrize(("sys_flag", "content"), FROM_JAVA)
def test_what_java_compressed_is_read(sys_flag, content):
    assert decompress(bytes.fromhex(content), sys_flag, limit=36) == TEXT


@pytest.mark.parametrize("algorithm", Compression)
@pytest.mark.parametrize("body", [b"", b"x", TEXT, bytes(range(256)) * 500])
def test_a_body_comes_back_at_its_very_limit(algorithm, body):
    packed = compress(body, algorithm)
    sys_flag = compressed_flag(2, algorithm)
    assert decompress(packed, sys_flag, limit=len(body)) == body
    if body:
        with pytest.raises(BombError, match=f"to more than {len(body) - 1}"):
            decompress(packed, sys_flag, limit=len(body) - 1)


def test_the_bits_of_sysflag_name_the_algorithm():
    assert compressed_flag(0, Compression.ZLIB) == 769
    assert compressed_flag(0x302, Compression.ZSTD) == 0x203
    assert plain_flag(769) == 768
    assert decompress(b"as it is", 0x300, limit=1) == b"as it is"
    with pytest.raises(CodecError, match="0x400"):
        decompress(b"", 0x401, limit=1)


def test_lz4_blocks_do_not_build_on_each_other_because_javas_reader_refuses_that():
    packed = compress(bytes(300_000), Compression.LZ4)
    assert lz4.frame.get_frame_info(packed)["block_linked"] is False


@pytest.mark.parametrize("algorithm", Compression)
def test_cut_and_broken_bodies_are_codec_errors(algorithm):
    packed = compress(b"some text " * 100, algorithm)
    sys_flag = compressed_flag(0, algorithm)
    for size in range(len(packed)):
        with pytest.raises(CodecError, match=r"incomplete|broken"):
            decompress(packed[:size], sys_flag, limit=LIMIT)
    with pytest.raises(CodecError, match="broken"):
        decompress(b"garbage" + packed, sys_flag, limit=LIMIT)


def zstd_stream(body: bytes, level: int) -> bytes:
    """A frame that does not announce its size, as Java's stream writes it."""
    stream = zstandard.ZstdCompressor(level=level, write_content_size=False).compressobj()
    return stream.compress(body) + stream.flush()


ZEROS = bytes(64 * 1024 * 1024)
BOMBS = {
    "zlib": (769, lambda: zlib.compress(ZEROS, 9)),
    "lz4": (0x101, lambda: lz4.frame.compress(ZEROS)),
    "zstd": (0x201, lambda: zstandard.ZstdCompressor().compress(ZEROS)),
    "zstd stream": (0x201, lambda: zstd_stream(ZEROS, 5)),
    "zstd with a large window": (0x201, lambda: zstd_stream(ZEROS, 22)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_within_the_bound_of_memory(name):
    sys_flag, make = BOMBS[name]
    bomb = make()
    tracemalloc.start()
    try:
        with pytest.raises(BombError):
            decompress(bomb, sys_flag, limit=LIMIT)
        assert tracemalloc.get_traced_memory()[1] < 3 * LIMIT
    finally:
        tracemalloc.stop()
