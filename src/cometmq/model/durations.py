"""A parser of durations in human form: "250ms", "30s", "15m", "1h", "3d"."""

from cometmq.model.numbers import whole_number
from cometmq.model.text import in_quotes

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str) -> int:
    """Parse a duration such as "15m" or "250ms" to ms (without unit: ms); raise ValueError if the text is no duration."""
    digits = text.strip().rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text.strip()[len(digits) :] or "ms"
    number = whole_number(digits.strip())
    if number is None or unit not in _UNITS_MS:
        raise ValueError(f"{in_quotes(text)} is not a duration like 250ms, 30s, 15m, 1h or 1d")
    return number * _UNITS_MS[unit]
