r"""A message's properties as the record stores them.

A block is UTF-8 text, each property as

| name | 01 | value | 02 |

without any escape, so neither name nor value may hold \x01 or \x02. A name that comes twice
counts with its last value: a batch's properties follow those of its messages. The last \x02 may
be missing (old writers leave it out). Source: MessageDecoder.messageProperties2String and
string2messageProperties of RocketMQ 5.3.3; docs/format/properties.md.
"""

from collections.abc import Mapping

from cometmq.kernel import plain_properties
from cometmq.kernel.keys import find_value
from cometmq.kernel.layouts import PROPERTIES_SIZE_MAX
from cometmq.model.errors import CodecError
from cometmq.model.properties import NAME_SEPARATOR, PROPERTY_SEPARATOR

__all__ = [
    "PROPERTIES_SIZE_MAX",
    "decode_properties",
    "encode_properties",
    "find_property",
    "find_value",
    "join_blocks",
]

_VALUE_END = PROPERTY_SEPARATOR.encode()


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """The block of these properties, in their order.

    Raises:
        CodecError: a name or value is empty, holds a separator or cannot be UTF-8, or the block
            has more than 32767 bytes.
    """
    text = "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])
    count = len(properties)
    if (
        text.count(NAME_SEPARATOR) != count
        or text.count(PROPERTY_SEPARATOR) != count
        or "\x01\x02" in text
        or "\x02\x01" in text
        or text.startswith(NAME_SEPARATOR)
    ):
        raise _property_error(properties)
    try:
        block = text.encode()
    except UnicodeEncodeError as error:
        raise CodecError(f"properties cannot be written as UTF-8: {error}") from None
    if len(block) > PROPERTIES_SIZE_MAX:
        raise CodecError(
            f"properties of {len(block)} bytes; a record has room for {PROPERTIES_SIZE_MAX}"
        )
    return block


def _property_error(properties: Mapping[str, str]) -> CodecError:
    """Name the first property that cannot be stored."""
    for name, value in properties.items():
        if not name or not value:
            return CodecError(f"property {name!r}={value!r}: name and value must not be empty")
        if any(mark in name or mark in value for mark in (NAME_SEPARATOR, PROPERTY_SEPARATOR)):
            return CodecError(f"property {name!r}={value!r} holds \\x01 or \\x02")
    raise AssertionError("no property is at fault")


def decode_properties(block: bytes) -> dict[str, str]:
    """The properties of a block; a later one of the same name wins.

    Follows RocketMQ: a piece without a name, a separator or a value is passed over, so that no
    message becomes undeliverable by it.

    Raises:
        CodecError: it is not UTF-8.
    """
    plain = plain_properties(block)
    if plain is not None:
        return plain
    try:
        text = str(block, "utf-8")
    except UnicodeDecodeError as error:
        raise CodecError(f"properties are not UTF-8: {error}") from None
    properties = {}
    for piece in text.split(PROPERTY_SEPARATOR):
        name, _, value = piece.partition(NAME_SEPARATOR)
        if name and value:
            properties[name] = value
    return properties


def find_property(block: bytes, name: bytes) -> str | None:
    """One property of a block, without decoding the others; None when it is not there.

    Args:
        block: an encoded block.
        name: the name as UTF-8.

    Raises:
        CodecError: its value is not UTF-8.
    """
    value = find_value(block, name)
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise CodecError(f"a property is not UTF-8: {error}") from None


def join_blocks(first: bytes, second: bytes) -> bytes:
    """Two blocks as one; where both have a name, `second` wins.

    A separator is put between them when the first lacks its last one.
    """
    if first and second and not first.endswith(_VALUE_END):
        return first + _VALUE_END + second
    return first + second
