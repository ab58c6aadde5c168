"""Filters: which texts are one, what brokers are told of them, and what is said of the others."""

import pickle
from typing import Any

import pytest

from cometmq import ALL, Filter, Sql, Tag
from cometmq.client.consumer.filters import each_of, subscription_of
from cometmq.errors import ExpressionError, SubscriptionError
from cometmq.model.java_hash import java_hash


def wrong(value: object) -> Any:
    """A value that a type checker would refuse."""
    return value


@pytest.mark.parametrize(
    ("given", "tags"),
    [
        (Tag(), ()), (Tag("*"), ()), (Tag(""), ()), (Tag("paid"), ("paid",)),
        (Tag("paid", "sent"), ("paid", "sent")), (Tag("paid || sent||paid"), ("paid", "sent")),
        # Java's trim takes what is up to U+0020, and no other white space.
        (Tag("付\u3000 || \t\u00a0a\x1f"), ("付\u3000", "\u00a0a")),
    ],
)  # fmt: skip
def test_tags_are_given_one_by_one_or_as_rocketmq_writes_them(
    given: Tag, tags: tuple[str, ...]
):
    told = subscription_of("T", given)
    assert (given.tags, told.tags) == (tags, tags)
    assert told.codes == frozenset(map(java_hash, tags))
    assert (told.kind, told.expression) == ("TAG", " || ".join(tags) or "*")


def test_an_sql_expression_is_parsed_where_it_is_written():
    told = subscription_of("T", Sql("price > 10"))
    assert (told.kind, told.expression) == ("SQL92", "price > 10")
    with pytest.raises(ExpressionError, match="column 8"):
        Sql("price >")


@pytest.mark.parametrize("each", [ALL, Tag("a", "b"), Sql("a IS NULL")])
def test_filters_are_values_that_travel(each: Filter):
    assert pickle.loads(pickle.dumps(each)) == each
    assert hash(pickle.loads(pickle.dumps(each))) == hash(each)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Tag("||"), "has no tag"),
        (lambda: Tag("paid", "*"), r"\* means every tag and cannot be combined"),
        (lambda: Tag(wrong(7)), "a tag must be text, not int"),
        (
            lambda: subscription_of("T", wrong("paid")),
            r"'T' is 'paid'; write Tag\('paid'\), or Sql",
        ),
        (
            lambda: subscription_of("T", wrong(None)),
            r"'T' is None; write Tag\(\.\.\.\), or Sql",
        ),
        (lambda: each_of("orders"), r"is the text 'orders'; write \['orders'\], or a filter"),
    ],
)
def test_what_is_no_filter_is_said_to_be_none(make, says):
    with pytest.raises(SubscriptionError, match=says):
        make()


def test_subscriptions_are_topics_or_their_filters():
    assert list(each_of(["a", "b"])) == [("a", ALL), ("b", ALL)]
    assert list(each_of({"a": Tag("x")})) == [("a", Tag("x"))]
    assert list(each_of(None)) == []
