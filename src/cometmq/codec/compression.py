"""Compression of message bodies: zlib, LZ4 frames and Zstandard, selected by bits of the record's sysFlag.

`model.flags.COMPRESSED` marks a compressed body and `COMPRESSION_MASK` selects the algorithm; 0 means zlib as well
(clients before 5.x). Producers may compress, consumers decompress, and the broker stores bodies unchanged. Decompression
always has a limit, because a few bytes can expand to gigabytes. Source: CompressionType, MessageSysFlag, Lz4Compressor,
ZstdCompressor of RocketMQ 5.3.3.
"""

import zlib
from enum import IntEnum

import lz4.frame
import zstandard

from cometmq.model import flags
from cometmq.model.errors import BombError, CodecError

LEVEL_DEFAULT = 5  # compressMsgLevel / rocketmq.message.compressLevel

# Maximum window of a Zstandard frame in addition to its output; RFC 8878 asks decoders to support 8 MiB.
ZSTD_WINDOW_MAX = 8 * 1024 * 1024


class Compression(IntEnum):
    """A compression algorithm: LZ4, ZSTD or ZLIB; the value is its bits in sysFlag."""

    LZ4 = flags.COMPRESSION_LZ4
    ZSTD = flags.COMPRESSION_ZSTD
    ZLIB = flags.COMPRESSION_ZLIB


def compressed_flag(sys_flag: int, algorithm: Compression) -> int:
    """Return the sysFlag of a record whose body was compressed with an algorithm."""
    return sys_flag & ~flags.COMPRESSION_MASK | flags.COMPRESSED | algorithm


def plain_flag(sys_flag: int) -> int:
    """Return a sysFlag without the bit COMPRESSED, for a decompressed body; the algorithm's bits stay, as in Java."""
    return sys_flag & ~flags.COMPRESSED


def compress(
    body: bytes, algorithm: Compression = Compression.ZLIB, *, level: int = LEVEL_DEFAULT
) -> bytes:
    """Compress a body; its record needs the sysFlag of `compressed_flag`.

    `level` is for zlib and Zstandard; LZ4 has none, as in Java.
    """
    match algorithm:
        case Compression.ZLIB:
            return zlib.compress(body, level)
        case Compression.LZ4:
            # lz4-java rejects frames with linked blocks.
            return bytes(lz4.frame.compress(body, block_linked=False))
        case Compression.ZSTD:
            return zstandard.ZstdCompressor(level=level).compress(body)


def decompress(body: bytes, sys_flag: int, *, limit: int) -> bytes:
    """Decompress the body of a record, or return it unchanged if its sysFlag does not mark it as compressed.

    Args:
        body: Body as stored.
        sys_flag: sysFlag of the record.
        limit: Maximum bytes of the result, and about of allocations (Zstandard: plus a window of at most the larger of
            `limit` and 8 MiB).

    Raises:
        BombError: The result would be longer, or a Zstandard frame needs a larger window.
        CodecError: The body is corrupt, truncated, or of an unknown algorithm.
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
        raise CodecError(f"a compressed body of {len(body)} bytes is incomplete")
    return plain


def _bomb_text(body: bytes, limit: int) -> str:
    return f"a body of {len(body)} bytes decompresses to more than {limit}"


def _unpack_zlib(body: bytes, most: int) -> tuple[bytes, bool]:
    """Return at most `most` bytes, and whether the stream is complete."""
    stream = zlib.decompressobj()
    return stream.decompress(body, most), stream.eof


def _unpack_lz4(body: bytes, most: int) -> tuple[bytes, bool]:
    """Return at most `most` bytes, and whether the frame is complete."""
    frame = lz4.frame.LZ4FrameDecompressor()
    return bytes(frame.decompress(body, max_length=most)), bool(frame.eof)


def _unpack_zstd(body: bytes, limit: int) -> bytes:
    """Decompress a frame, rejecting it by the content size or window in its header if possible."""
    header = zstandard.get_frame_parameters(body)
    is_size_known = header.content_size != zstandard.CONTENTSIZE_UNKNOWN
    if is_size_known and header.content_size > limit:
        raise BombError(_bomb_text(body, limit))
    window_max = max(limit, ZSTD_WINDOW_MAX)
    if header.window_size > window_max:
        raise BombError(
            f"a Zstandard body needs a window of {header.window_size} bytes; at most {window_max} are allowed"
        )
    unpacker = zstandard.ZstdDecompressor()
    try:
        return unpacker.decompress(body, max_output_size=limit)
    except zstandard.ZstdError:
        # Too long and truncated fail in the same way; reading one byte more than the limit tells which.
        if len(unpacker.stream_reader(body).read(limit + 1)) > limit:
            raise BombError(_bomb_text(body, limit)) from None
        raise
