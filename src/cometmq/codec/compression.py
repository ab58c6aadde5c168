"""Compressed bodies: zlib, LZ4 frames and Zstandard, named by bits of the record's sysFlag.

`model.flags.COMPRESSED` says that a body is compressed, `COMPRESSION_MASK` how; 0 there is zlib
too, from clients before 5.x. A producer compresses, consumers decompress, the broker stores
bytes as they come. Whoever decompresses sets a bound: a few bytes can unpack to gigabytes.
Source: CompressionType, MessageSysFlag, Lz4Compressor, ZstdCompressor of RocketMQ 5.3.3.
"""

import zlib
from enum import IntEnum

import lz4.frame
import zstandard

from cometmq.model import flags
from cometmq.model.errors import BombError, CodecError

LEVEL_DEFAULT = 5  # compressMsgLevel / rocketmq.message.compressLevel

# What a Zstandard frame may ask for besides its output: RFC 8878 wants decoders to take 8 MiB.
ZSTD_WINDOW_MAX = 8 * 1024 * 1024


class Compression(IntEnum):
    """An algorithm, by its bits in sysFlag."""

    LZ4 = flags.COMPRESSION_LZ4
    ZSTD = flags.COMPRESSION_ZSTD
    ZLIB = flags.COMPRESSION_ZLIB


def compressed_flag(sys_flag: int, algorithm: Compression) -> int:
    """The sysFlag of a record whose body was compressed with this algorithm."""
    return sys_flag & ~flags.COMPRESSION_MASK | flags.COMPRESSED | algorithm


def plain_flag(sys_flag: int) -> int:
    """The sysFlag of the same record with its body decompressed, as RocketMQ's client clears it."""
    return sys_flag & ~flags.COMPRESSED


def compress(
    body: bytes, algorithm: Compression = Compression.ZLIB, *, level: int = LEVEL_DEFAULT
) -> bytes:
    """The compressed body; set `compressed_flag` in the record that carries it.

    Args:
        body: what to compress.
        algorithm: how.
        level: of zlib and Zstandard; LZ4 has none, as in Java.
    """
    match algorithm:
        case Compression.ZLIB:
            return zlib.compress(body, level)
        case Compression.LZ4:
            # lz4-java refuses frames whose blocks build on each other.
            return bytes(lz4.frame.compress(body, block_linked=False))
        case Compression.ZSTD:
            return zstandard.ZstdCompressor(level=level).compress(body)


def decompress(body: bytes, sys_flag: int, *, limit: int) -> bytes:
    """The plain body of a record; the body itself when sysFlag does not call it compressed.

    Args:
        body: as stored.
        sys_flag: of the record.
        limit: most bytes that the plain body may have; no more than about that are allocated
            (Zstandard: and a window of at most 8 MiB).

    Raises:
        BombError: the plain body would be longer.
        CodecError: the bytes are broken, cut short, or of an unknown algorithm.
    """
    if not sys_flag & flags.COMPRESSED:
        return body
    try:
        match sys_flag & flags.COMPRESSION_MASK:
            case flags.COMPRESSION_ZLIB | 0:
                plain, is_whole = _unpack_zlib(body, limit + 1)
            case flags.COMPRESSION_LZ4:
                plain, is_whole = _unpack_lz4(body, limit + 1)
            case flags.COMPRESSION_ZSTD:
                return _unpack_zstd(body, limit)
            case bits:
                raise CodecError(f"compression {bits:#x} is neither zlib, LZ4 nor Zstandard")
    except (zlib.error, RuntimeError, EOFError, zstandard.ZstdError) as error:
        raise CodecError(f"a compressed body of {len(body)} bytes is broken: {error}") from None
    if len(plain) > limit:
        raise BombError(_bomb_text(body, limit))
    if not is_whole:
        raise CodecError(f"a compressed body of {len(body)} bytes is cut short")
    return plain


def _bomb_text(body: bytes, limit: int) -> str:
    """The message for a body that would grow beyond the limit."""
    return f"a body of {len(body)} bytes decompresses to more than {limit}"


def _unpack_zlib(body: bytes, most: int) -> tuple[bytes, bool]:
    """At most that many bytes, and whether the stream ended."""
    stream = zlib.decompressobj()
    return stream.decompress(body, most), stream.eof


def _unpack_lz4(body: bytes, most: int) -> tuple[bytes, bool]:
    """At most that many bytes, and whether the frame ended."""
    frame = lz4.frame.LZ4FrameDecompressor()
    return bytes(frame.decompress(body, max_length=most)), bool(frame.eof)


def _unpack_zstd(body: bytes, limit: int) -> bytes:
    """The content of a frame, refused by what its header announces where it announces it."""
    header = zstandard.get_frame_parameters(body)
    is_size_known = header.content_size != zstandard.CONTENTSIZE_UNKNOWN
    if is_size_known and header.content_size > limit:
        raise BombError(_bomb_text(body, limit))
    window_max = max(limit, ZSTD_WINDOW_MAX)
    if header.window_size > window_max:
        raise BombError(
            f"a Zstandard body asks for a window of {header.window_size} bytes; "
            f"at most {window_max} are given"
        )
    unpacker = zstandard.ZstdDecompressor()
    try:
        return unpacker.decompress(body, max_output_size=limit)
    except zstandard.ZstdError:
        # Too long and cut short fail alike: one byte more than the limit tells them apart.
        if len(unpacker.stream_reader(body).read(limit + 1)) > limit:
            raise BombError(_bomb_text(body, limit)) from None
        raise
