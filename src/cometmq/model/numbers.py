"""Parsing of numbers in foreign texts, which may have any length: Python refuses to parse more than 4,300 digits."""

_DIGITS_MAX = 18  # Fits 64 bits.


def whole_number(text: str) -> int | None:
    """Return the number that a text of 1 to 18 ASCII digits stands for; None for any other text."""
    return (
        int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX else None
    )
