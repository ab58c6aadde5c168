r"""The CRC of a record, which a broker may append as the last property.

    __CRC32# 8 | \1 | ten decimal digits, least significant first | \2

The CRC covers all bytes of the record before the property, whereas the body CRC covers the body only. Source:
MessageExtEncoder and MessageDecoder.createCrc32 of RocketMQ 5.3.3 (`enabledAppendPropCRC`).
"""

from cometmq.kernel.crc import crc32
from cometmq.model.errors import RecordIllegal

NAME = b"__CRC32#"
_START = NAME + b"\1"
_DIGITS = 10
TAIL_SIZE = len(_START) + _DIGITS + 1  # CommitLog.CRC32_RESERVED_LEN
_ROOM = _START + b"0" * _DIGITS + b"\2"
_PROPERTIES_SIZE_MAX = 0x7FFF  # Short.MAX_VALUE: Java reads a signed size.

Buffer = bytes | bytearray | memoryview


def with_room(block: Buffer) -> bytes:
    """Return a property block with space for the record's CRC at its end, after removing any old CRC.

    Raises:
        RecordIllegal: The result is too long.
    """
    kept = bytes(block)
    if NAME in kept:
        pieces = kept.split(b"\2")
        kept = b"\2".join(piece for piece in pieces if not piece.startswith(_START))
    if kept and kept[-1] != 2:
        kept += b"\2"
    if len(kept) + TAIL_SIZE > _PROPERTIES_SIZE_MAX:
        raise RecordIllegal(
            f"the properties have {len(kept)} bytes; with a CRC after them (enabledAppendPropCRC) a "
            f"record has room for {_PROPERTIES_SIZE_MAX - TAIL_SIZE}"
        )
    return kept + _ROOM


def fill_in(records: bytearray, start: int, size: int) -> None:
    """Write the CRC of a record into the space that `with_room` reserved at the end of its properties."""
    end = start + size
    crc = _crc(memoryview(records)[start : end - TAIL_SIZE])
    records[end - _DIGITS - 1 : end - 1] = b"%010d" % crc
    records[end - _DIGITS - 1 : end - 1] = records[end - _DIGITS - 1 : end - 1][::-1]


def is_crc_right(buffer: Buffer, start: int, size: int) -> bool | None:
    """Return whether the record at `start` of a buffer, of `size` bytes, matches its CRC; None if it has none."""
    end = start + size
    tail = bytes(buffer[end - TAIL_SIZE : end])
    digits = tail[len(_START) : -1]
    if not tail.startswith(_START) or tail[-1:] != b"\2" or not digits.isdigit():
        return None
    return int(digits[::-1]) == _crc(memoryview(buffer)[start : end - TAIL_SIZE])


def _crc(piece: memoryview) -> int:
    """Return the CRC-32 without its sign bit (UtilAll.crc32)."""
    return crc32(piece) & 0x7FFF_FFFF
