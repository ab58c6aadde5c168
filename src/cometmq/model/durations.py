"""Durations as people write them: "250ms", "30s", "15m", "1h", "3d"."""

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str) -> int:
    """The ms of a duration like "15m", "30s" or "250ms"; a bare number is milliseconds.

    Raises:
        ValueError: it is none.
    """
    digits = text.strip().rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text.strip()[len(digits) :] or "ms"
    if not digits.strip().isdecimal() or unit not in _UNITS_MS:
        raise ValueError(f"{text!r} is no duration like 250ms, 30s, 15m, 1h or 1d")
    return int(digits) * _UNITS_MS[unit]
