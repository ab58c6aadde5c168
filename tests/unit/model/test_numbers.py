"""Numbers in texts of others, which may have any length."""

from __future__ import annotations

import pytest

from cometmq.model.durations import duration_ms
from cometmq.model.numbers import whole_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("007", 7), ("9" * 18, 10**18 - 1), ("9" * 19, None), ("9" * 5000, None), ("", None),
        ("-1", None), ("+1", None), (" 1", None), ("1_0", None), ("1.0", None), ("²", None), ("٣", None),
    ],
)  # fmt: skip
def test_a_whole_number_has_at_most_18_digits(text, number):
    assert whole_number(text) == number


def test_a_duration_of_too_many_digits_is_none():
    with pytest.raises(ValueError, match="is not a duration like"):
        duration_ms("9" * 5000 + "s")
