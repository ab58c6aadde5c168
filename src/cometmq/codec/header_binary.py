"""The binary coding of command headers (ROCKETMQ), selected by the kind byte of each frame.

| field | bytes |
| --- | --- |
| code | 2 |
| language | 1 |
| version | 2 |
| opaque | 4 |
| flag | 4 |
| remark length | 4 |
| remark | n |
| fields length | 4 |
| fields: name length 2, name, value length 4, value, repeated | n |

Java truncates a code above 32767 to 16 bits (200050 becomes 3442). `FULL_CODES` restores those of the pop family
only, so that pop works with this coding (docs/format/remoting.md).
"""

import struct

from cometmq.codec.header_json import Header
from cometmq.model.codes import Language
from cometmq.model.errors import CodecError

_HEAD = struct.Struct(">hbhiii")  # code, language, version, opaque, flag, remark length
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")

# Codes of more than 16 bits, by their truncated value (RequestCode 200050-200056, 200151).
FULL_CODES = {code & 0xFFFF: code for code in (*range(200050, 200057), 200151)}
_CODE_MAX = 0x7FFF


def decode_binary_header(header: bytes) -> Header:
    """Decode a binary header to (code, flag, opaque, language, version, remark, fields).

    Raises:
        CodecError: The header is too short, a length in it is negative or too large, or a text is not UTF-8.
    """
    try:
        code, language, version, opaque, flag, remark_size = _HEAD.unpack_from(header)
        position = _HEAD.size
        remark = None
        if remark_size > 0:
            remark = _text(header, position, remark_size)
            position += remark_size
        (fields_size,) = _INT.unpack_from(header, position)
        position += 4
        if remark_size < 0 or fields_size < 0 or position + fields_size > len(header):
            raise CodecError(
                f"fields of {fields_size} bytes do not fit into a header of {len(header)}"
            )
        fields = _decode_fields(header, position, position + fields_size)
    except (struct.error, UnicodeDecodeError) as error:
        raise CodecError(f"{len(header)} bytes are not a ROCKETMQ header: {error}") from error
    if not 0 <= language <= Language.NODE_JS:
        language = Language.OTHER
    return FULL_CODES.get(code, code), flag, opaque, int(language), version, remark, fields


def _decode_fields(header: bytes, position: int, end: int) -> dict[str, str]:
    fields: dict[str, str] = {}
    while position < end:
        (name_size,) = _SHORT.unpack_from(header, position)
        name = _text(header, position + 2, name_size)
        position += 2 + name_size
        (value_size,) = _INT.unpack_from(header, position)
        fields[name] = _text(header, position + 4, value_size)
        position += 4 + value_size
    if position != end:
        raise CodecError("the last field extends beyond the end of the header")
    return fields


def _text(header: bytes, start: int, size: int) -> str:
    if size < 0 or start + size > len(header):
        raise CodecError(
            f"a text of {size} bytes at byte {start} does not fit into a header of {len(header)}"
        )
    return str(header[start : start + size], "utf-8")


def encode_binary_header(header: Header) -> bytes:
    """Encode a binary header; the code is truncated to 16 bits, and fields with an empty name are left out.

    Raises:
        CodecError: A field name exceeds 32767 bytes.
    """
    code, flag, opaque, language, version, remark, fields = header
    words = remark.encode() if remark else b""
    parts: list[bytes] = []
    for name, value in fields.items():
        name_bytes, value_bytes = name.encode(), value.encode()
        if not name_bytes:
            continue
        if len(name_bytes) > _CODE_MAX:
            raise CodecError(f"a field name has {len(name_bytes)} bytes; the limit is 32767")
        parts += (
            _SHORT.pack(len(name_bytes)),
            name_bytes,
            _INT.pack(len(value_bytes)),
            value_bytes,
        )
    packed = b"".join(parts)
    short_code = (code + 0x8000 & 0xFFFF) - 0x8000
    head = _HEAD.pack(short_code, language, version, opaque, flag, len(words))
    return b"".join((head, words, _INT.pack(len(packed)), packed))
