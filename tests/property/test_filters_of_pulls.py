"""Filters of the kernel give what the slow path gives, or decline: tags codes, and SQL92 expressions of any shape."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec.sql92 import sql92_filter
from cometmq.codec.sql92.parser import parse_counted
from cometmq.codec.sql92.rows import filter_rows
from cometmq.kernel import PropertyFilter, TagCodes, filters
from cometmq.model.errors import ExpressionError

pytestmark = pytest.mark.compiled
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
NAMES = st.sampled_from(["a", "b", "ab", "TAGS"])
NUMBERS = st.sampled_from(
    ["0", "1", "7", "-7", "+7", "250", "2147483647", "2147483648", "9000000000L", "9223372036854775807",
     "2.5", "-0.0", "0.1", "1e3", "1.7976931348623157E308", "3.", ".5"]
)  # fmt: skip
TEXTS = st.sampled_from(["", "x", "hz", "it''s", "grün", "250", "abc"])
VALUES = st.one_of(
    st.sampled_from(
        ["", "0", "1", "7", "-7", "+7", "007", "250", "2.5", "2.50", "-0", "-0.0", "0.1", "1000", "1e3", " 7", "7 ", "-",
         "2147483647", "2147483648", "9000000000", "9223372036854775807", "99999999999999999999", "3.", ".5", "1.2.3",
         "123456789012345", "1234567890123456", "0.000000000000001", "NaN", "Infinity", "x", "hz", "it's", "grün", "abc", "٣"]
    ),
    st.text("0123456789.-", max_size=18),
)  # fmt: skip


def terms() -> st.SearchStrategy[str]:
    sign = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
    word = st.sampled_from(["CONTAINS", "STARTSWITH", "ENDSWITH"])
    negated = st.sampled_from(["", "NOT "])
    some = st.lists(TEXTS, min_size=1, max_size=3)
    return st.one_of(
        st.builds("{} {} {}".format, NAMES, sign, NUMBERS),
        st.builds("{} {} {}".format, NUMBERS, sign, NAMES),
        st.builds("{} {} '{}'".format, NAMES, st.sampled_from(["=", "<>"]), TEXTS),
        st.builds("{} {} {}".format, NAMES, sign, NAMES),
        st.builds("{} IS {}NULL".format, NAMES, negated),
        st.builds("{} {}BETWEEN {} AND {}".format, NAMES, negated, NUMBERS, NUMBERS),
        st.builds(
            lambda name, no, texts: f"{name} {no}IN ({','.join(f'{chr(39)}{t}{chr(39)}' for t in texts)})",
            NAMES, negated, some,
        ),
        st.builds("{} {}{} '{}'".format, NAMES, negated, word, TEXTS),
        st.sampled_from(["TRUE", "FALSE", "NULL", "a", "a = TRUE", "a = FALSE"]),
    )  # fmt: skip


EXPRESSIONS = st.recursive(
    terms(),
    lambda below: st.one_of(
        st.builds("({} AND {})".format, below, below),
        st.builds("({} OR {} OR {})".format, below, below, below),
        st.builds("NOT ({})".format, below),
    ),
    max_leaves=6,
)


@st.composite
def blocks(draw) -> bytes:
    """Property blocks: names that come twice, empty values, pieces without a name, and junk."""
    pieces = draw(
        st.lists(
            st.one_of(
                st.builds("{}\x01{}".format, st.sampled_from(["a", "b", "ab", "TAGS", "z", ""]), VALUES),
                st.sampled_from(["", "a", "\x01", "a\x01b\x01c"]),
            ),
            max_size=6,
        )
    )  # fmt: skip
    block = "\x02".join(pieces) + draw(st.sampled_from(["", "\x02"]))
    return block.encode() + draw(
        st.sampled_from([b""] * 9 + [b"\xff", b"a\x01\xff\x02a\x01\x02"])
    )


@given(EXPRESSIONS, st.lists(blocks(), min_size=1, max_size=8))
def test_an_expression_matches_alike_or_is_declined(expression, some):
    try:
        slow = sql92_filter(expression)
    except ExpressionError:
        return
    if slow.fast is not None:
        for block in some:
            assert slow.fast.matches(block) in (slow.matches(block), None)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("a = 1", "1"), ("a > 5 AND a < 9", "7"), ("a = 'hz' OR a IS NULL", "hz"), ("a BETWEEN -8 AND -6", "-7"),
        ("a = 2.5", "2.50"), ("a >= .1", "0.1"), ("a > 2147483648", "9000000000"), ("a IN ('x','y')", "y"),
        ("a NOT IN ('x')", "y"), ("NOT (a CONTAINS 'x')", "y"), ("a STARTSWITH 'ab'", "abc"), ("a ENDSWITH 'bc'", "abc"),
    ],
)  # fmt: skip
def test_usual_expressions_are_not_declined(expression, value):
    fast = sql92_filter(expression).fast
    assert fast is not None
    assert fast.matches(b"b\x01zz\x02a\x01%b\x02" % value.encode()) is True
    assert fast.matches(b"b\x01zz\x02a\x01%b\x02" % b"-99") in (True, False)


@pytest.mark.parametrize(
    "expression", ["a = b", "5 < a", "a = TRUE", "(a = 1) = TRUE", " OR ".join(["a = 1"] * 70)]
)
def test_what_is_no_comparison_with_a_constant_is_left(expression):
    assert filter_rows(parse_counted(expression)[0]) is None


def test_rows_that_do_not_fit_are_refused():
    row = filters.FilterRow(filters.Test.NEVER, name=b"a\x01")
    for rows in ((), (row,) * (filters.ROWS_MAX + 1), (row._replace(rest=1),)):
        with pytest.raises(ValueError, match="rows"):
            PropertyFilter(rows)


@given(st.lists(INT64, max_size=40), INT64)
def test_a_code_is_among_those_that_are_wanted(codes, other):
    fast = TagCodes(codes)
    assert all(fast(code) for code in codes)
    assert fast(other) == filters.TagCodes(codes)(other) == (other in codes)
