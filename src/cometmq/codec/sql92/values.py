"""Conversion of property values to numbers and booleans, mostly as Java's valueOf does.

Integer.valueOf and Long.valueOf accept decimal digits, maybe with a sign, within 32 or 64 bits. Double.valueOf accepts
surrounding blanks, an exponent, a suffix of f or d, NaN, Infinity and hexadecimal floats. A value that is
no such number ends the evaluation of the whole expression.
"""

import math
import re


class Incomparable(Exception):
    """Raised if Java throws an exception for a comparison, or a text is too long; the message is then filtered out."""


_INTEGER = re.compile(r"[+-]?\d+")
_DOUBLE = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?|[+-]?(?:NaN|Infinity)"
)
_HEX_DOUBLE = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?"
)
_BLANKS = "".join(map(chr, range(33)))
_DIGITS_MAX = 40  # Allows leading zeros; int() is quadratic in the number of digits.
# The smallest double has 1,074 decimal places; longer texts are no numbers and slow to parse.
_DOUBLE_LENGTH_MAX = 1_100
_INT32_END, _INT64_END = 1 << 31, 1 << 63


def read_int32(text: bytes) -> int:
    """Parse an integer as Integer.valueOf does; raises Incomparable if the text is no 32-bit integer or too long."""
    if len(text) < 10 and text.isdigit():
        return int(text)
    return _read_integer(text, _INT32_END)


def read_int64(text: bytes) -> int:
    """Parse an integer as Long.valueOf does; raises Incomparable if the text is no 64-bit integer or too long."""
    if len(text) < 19 and text.isdigit():
        return int(text)
    return _read_integer(text, _INT64_END)


def _read_integer(text: bytes, end: int) -> int:
    decoded = text.decode("utf-8", "replace")
    if len(decoded) > _DIGITS_MAX or _INTEGER.fullmatch(decoded) is None:
        raise Incomparable
    value = int(decoded)
    if not -end <= value < end:
        raise Incomparable
    return value


def read_double(text: bytes) -> float:
    """Parse a double as Double.valueOf does; raises Incomparable for other and very long texts."""
    decoded = text.decode("utf-8", "replace").strip(_BLANKS)
    if len(decoded) > _DOUBLE_LENGTH_MAX:
        raise Incomparable
    if _DOUBLE.fullmatch(decoded):
        return float(decoded.rstrip("fFdD"))
    if _HEX_DOUBLE.fullmatch(decoded):
        try:
            # The exponent is decimal, so a letter at the end is a suffix.
            return float.fromhex(decoded.rstrip("fFdD"))
        except OverflowError:
            return -math.inf if decoded.startswith("-") else math.inf
    raise Incomparable


def double_rank(text: bytes) -> tuple[bool, float, bool]:
    """Return a sort key that orders doubles as Double.compareTo does: -0.0 before 0.0, NaN last.

    Raises:
        Incomparable: The text is no double.
    """
    value = read_double(text)
    if math.isnan(value):
        return True, 0.0, True
    return False, value, math.copysign(1.0, value) > 0


def read_boolean(text: bytes) -> bool:
    """Parse a boolean as Boolean.valueOf does: "true" in any case is true, everything else is false."""
    return text.lower() == b"true"
