"""A check of compressed headers (RFC 7541) for what the decoder of `jh2` does not refuse by itself.

A block that ends within a field makes its compiled part fail an assertion, which prints a stack trace for each bad block;
and it accepts a change of the table's size between fields. Indexes and Huffman codes are the decoder's business. The
largest string and integer are those of nghttp2.
"""

_INTEGER_BYTES_MAX = 5
_STRING_MAX = 64 << 10


def check_header_block(block: bytes) -> None:
    """Raise ValueError if a block ends within a field, has too long an integer, or string, or resizes the table after a field."""
    at, end = 0, len(block)
    has_field = False
    while at < end:
        first = block[at]
        if first & 0x80:  # An indexed field.
            at, _ = _integer(block, at, 0x7F)
        elif first & 0xE0 == 0x20:
            if has_field:
                raise ValueError("the size of the table changes after a field")
            at, _ = _integer(block, at, 0x1F)
            continue
        else:  # A literal, with its name unless that is indexed.
            at, name = _integer(block, at, 0x3F if first & 0x40 else 0x0F)
            if not name:
                at = _after_string(block, at)
            at = _after_string(block, at)
        has_field = True


def _after_string(block: bytes, at: int) -> int:
    start, length = _integer(block, at, 0x7F)
    if length > _STRING_MAX:
        raise ValueError("a string has more than 64 KiB")
    if start + length > len(block):
        raise ValueError("a string ends after the block")
    return start + length


def _integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """Return the position after an integer, whose first byte has it in the bits of `mask`, and its value."""
    if at >= len(block):
        raise ValueError("the block ends within a field")
    value = block[at] & mask
    at += 1
    if value < mask:
        return at, value
    for place, byte in enumerate(block[at : at + _INTEGER_BYTES_MAX]):
        value += (byte & 0x7F) << (7 * place)
        if not byte & 0x80:
            return at + place + 1, value
    raise ValueError("an integer does not end")
