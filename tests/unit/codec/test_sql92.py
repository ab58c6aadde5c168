"""SQL92 expressions: what they match, three-valued logic and types as Java has them, and how bad ones fail."""

from __future__ import annotations

import pytest

from cometmq.codec.properties import encode_properties
from cometmq.codec.sql92 import EXPRESSION_LENGTH_MAX, sql92_filter
from cometmq.model.errors import ExpressionError

MESSAGE = {
    "region": "hz", "price": "250", "ratio": "2.5", "big": "9000000000", "flag": "True",
    "name": "it's", "word": "abc", "emoji": "grün☂", "neg": "-7", "blank": " 5 ",
}  # fmt: skip
BLOCK = encode_properties(MESSAGE)


def matches(expression: str, block: bytes = BLOCK) -> bool:
    return sql92_filter(expression).matches(block)


@pytest.mark.parametrize(
    "expression",
    [
        "region = 'hz'",
        "region <> 'sh'",
        "REGION IS NULL",
        "region is not null",
        "price > 249 AND price >= 250 AND price < 251 AND price <= 250",
        "price BETWEEN 250 AND 300",
        "price NOT BETWEEN 1 AND 249",
        "ratio = 2.5 and ratio > .5e0 and ratio < 5.",
        "big > 2147483648",
        "big = 9000000000L",
        "neg = -7 AND neg < +1",
        "neg BETWEEN -8 AND -6",
        "250 = price",
        "100 < price",
        "region IN ('sh','hz')",
        "region NOT IN ('sh')",
        "name = 'it''s'",
        "word CONTAINS 'b' AND word STARTSWITH 'ab' AND word ENDSWITH 'bc'",
        "word NOT CONTAINS 'x' AND word NOT STARTSWITH 'b' AND word NOT ENDSWITH 'a'",
        "emoji ENDSWITH 'ün☂'",
        "flag = TRUE",
        "word = FALSE",  # Boolean.valueOf("abc")
        "(region = 'hz') = TRUE",
        "TRUE",
        "missing = 1 OR region = 'hz'",
        "NOT (missing = 1 AND region = 'sh')",
        "gone = missing",  # both are null: equal
        "5 <> missing",  # null at the right is not equal, at the left it is unknown
        "blank > 4.5",  # Double.valueOf takes blanks, Integer.valueOf does not
        "price > ratio",
        "region /* where */ = 'hz' -- the end\n",
        "a IS NULL AND\tb IS NULL\n",
    ],
)
def test_what_java_delivers_matches(expression):
    assert matches(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "region = 'HZ'",
        "missing = 1",
        "missing <> 1",
        "NOT (missing = 1)",
        "missing > 1 AND region = 'hz'",
        "missing IN ('a')",
        "missing NOT IN ('a')",
        "missing NOT CONTAINS 'a'",
        "word CONTAINS ''",
        "word NOT CONTAINS ''",
        "5 = missing",
        "region",  # a string is no truth value
        "NOT missing",
        "FALSE",
        "NULL",
        "flag = FALSE",
        "NOT region = 1",  # NOT binds tighter: a truth value is never a number
        # A comparison that Java cannot do delivers nothing, whatever follows.
        "word > 5 OR region = 'hz'",  # Integer.valueOf("abc") throws
        "ratio > 2 OR region = 'hz'",  # "2.5" is no Integer
        "big > 5 OR region = 'hz'",  # beyond 32 bits, and 5 is an Integer
        "blank = 5 OR region = 'hz'",
        "(missing = 1 AND word > 5) OR region = 'hz'",  # unknown does not spare the right side
        "word > region OR region = 'hz'",
        "(region = 'hz') = word OR region = 'hz'",
    ],
)
def test_what_java_does_not_deliver_does_not_match(expression):
    assert not matches(expression)


def test_what_decides_before_a_bad_comparison_is_reached_holds():
    assert matches("region = 'hz' OR word > 5")
    assert matches("NOT (region = 'sh' AND word > 5)")


def test_the_last_of_two_properties_of_one_name_counts_and_empty_ones_do_not():
    block = b"a\x011\x02xa\x019\x02a\x012\x02a\x01\x02b\x01a\x02"
    assert matches("a = 2", block)
    assert matches("xa = 9 AND b = 'a'", block)
    assert matches("b = 'a'", block[:-1])
    assert not matches("a = 2", b"")


@pytest.mark.parametrize(
    ("expression", "column"),
    [
        ("a >> 5 AND (", 4),
        ("", 1),
        ("a = ", 5),
        ("(a = 1", 7),
        ("a = 1)", 6),
        ("a = 'open", 5),
        ("a LIKE 'x%'", 3),
        ("a = 1 b = 2", 7),
        ("a = 9223372036854775808", 5),
        ("a = " + "9" * 10_000, 5),
        ("a = 1e999", 5),
        ("a = 1e-400", 5),
        ("a > 'x'", 3),
        ("a > TRUE", 3),
        ("a = NULL", 3),
        ("TRUE = 1", 6),
        ("5", 1),
        ("'x' AND a = 1", 1),
        ("a = 1 AND 'x'", 11),
        ("a BETWEEN 5 AND 1", 3),
        ("a BETWEEN NULL AND 1", 3),
        ("a IN ()", 7),
        ("a IN (1)", 7),
        ("5 IN ('5')", 3),
        ("a CONTAINS b", 12),
        ("a IS TRUE", 3),
        ("a != 1", 3),
        ('a = "x"', 5),
        ("a = 007", 6),
        ("a /* b", 3),
        ("a # b", 3),
        ("grün = 1", 3),
    ],
)
def test_a_bad_expression_is_refused_with_the_column(expression, column):
    with pytest.raises(ExpressionError) as caught:
        sql92_filter(expression)
    assert caught.value.column == column
    assert f"column {column}:" in str(caught.value)
    assert str(caught.value).splitlines()[-1].endswith("^")


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        *(
            (deep, "levels")
            for deep in ("(" * 500, "NOT " * 500, "-" * 500, "a = " + "- " * 500)
        ),
        ("a" * (EXPRESSION_LENGTH_MAX + 1), "characters"),
    ],
)
def test_what_is_nested_too_deep_or_too_long_is_refused(bad, why):
    with pytest.raises(ExpressionError, match=why):
        sql92_filter(bad)


def test_a_long_chain_is_no_nesting():
    assert matches(" OR ".join(f"price = {number}" for number in range(251)))


@pytest.mark.parametrize(
    ("text", "limit", "is_greater"),
    [
        ("NaN", "1.5", True), ("Infinity", "1.5", True), ("-Infinity", "1.5", False), ("2f", "1.5", True),
        ("0x1p1", "1.5", True), ("1_000", "1.5", False), ("inf", "1.5", False), ("+2", "1", True),
        ("٣", "2", True), ("2147483648", "1", False), ("2147483648", "2147483649", False),
    ],
)  # fmt: skip
def test_numbers_are_read_as_valueof_reads_them(text, limit, is_greater):
    assert matches(f"a > {limit}", encode_properties({"a": text})) is is_greater


@pytest.mark.parametrize(
    "zero", ["0.0", ".0", "0.", "0e0", "0.0E5", "000.000", "-0.0", "- 0.0"]
)
@pytest.mark.parametrize(
    ("text", "is_less"),
    [("0", False), ("0.0", False), ("1.5", False), ("1e3", False), ("-0.5", True)],
)
def test_zero_with_a_point_is_a_number_like_others(zero, text, is_less):
    block = encode_properties({"a": text})
    assert matches(f"a < {zero}", block) is is_less
    assert matches(f"a >= {zero}", block) is not is_less
    if not zero.startswith("-"):
        assert matches(f"a BETWEEN {zero} AND 2000.0", block) is not is_less
        assert matches(f"a = {zero}", block) is (float(text) == 0)
