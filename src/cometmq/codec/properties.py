r"""A message's properties as stored in a record.

A property block is UTF-8 text, with each property as

| name | 01 | value | 02 |

without escaping, so neither name nor value may contain \x01 or \x02. The last non-empty value of a name counts. The
last \x02 may be missing (old writers omit it). Source: MessageDecoder.messageProperties2String and
string2messageProperties of RocketMQ 5.3.3; docs/format/properties.md.
"""

from collections.abc import Mapping

from cometmq.kernel import plain_block, plain_properties
from cometmq.kernel.keys import find_value
from cometmq.kernel.layouts import PROPERTIES_SIZE_MAX
from cometmq.model.errors import CodecError
from cometmq.model.properties import NAME_SEPARATOR, PROPERTY_SEPARATOR
from cometmq.model.text import in_quotes

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
    """Encode the properties of a message in the given order.

    Raises:
        CodecError: A name or value is empty, contains a separator or is no Unicode, or the block exceeds 32767 bytes.
    """
    block = plain_block(properties if type(properties) is dict else dict(properties))
    if block is None:
        raise _property_error(properties)
    return block


def _property_error(properties: Mapping[str, str]) -> CodecError:
    """Return an error that names the first invalid property, or says why their block is none."""
    for name, value in properties.items():
        if not name or not value:
            return CodecError(
                f"property {in_quotes(name)}={in_quotes(value)}: its name and value must not be empty"
            )
        if any(mark in name or mark in value for mark in (NAME_SEPARATOR, PROPERTY_SEPARATOR)):
            return CodecError(
                f"property {in_quotes(name)}={in_quotes(value)} contains the character U+0001 or U+0002, which "
                "separates properties"
            )
    try:
        size = sum(
            len(name.encode()) + len(value.encode()) + 2 for name, value in properties.items()
        )
    except UnicodeEncodeError as error:
        return CodecError(f"properties cannot be written as UTF-8: {error}")
    return CodecError(
        f"the properties have {size} bytes; a record has room for {PROPERTIES_SIZE_MAX}"
    )


def decode_properties(block: bytes) -> dict[str, str]:
    """Decode a property block; the last non-empty value of a name wins. Raises CodecError if it is not UTF-8.

    As in RocketMQ, a piece without name, separator or value is skipped, so that it cannot make a message undeliverable.
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
    """Return the last non-empty value of a property in a block, or None; raises CodecError if that is not UTF-8."""
    value = find_value(block, name)
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise CodecError(f"a property is not UTF-8: {error}") from None


def join_blocks(first: bytes, second: bytes) -> bytes:
    """Join two property blocks, adding a missing separator; non-empty values in `second` override those in `first`."""
    if first and second and not first.endswith(_VALUE_END):
        return first + _VALUE_END + second
    return first + second
