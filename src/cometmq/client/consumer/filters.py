"""Filters of a subscription: by tag, or by an expression over properties.

    PushConsumer(group="billing", listener=handle, subscriptions={"orders": Tag("paid", "sent")})
    consumer.subscribe("prices", Sql("region = 'hz' AND price > 100"))

Brokers apply the filters. Consumers check the tags of decoded messages again, as a broker compares only hashes. Follows
FilterAPI and MessageSelector.bySql of RocketMQ 5.3.3; a Java broker accepts SQL92 only if enablePropertyFilter is true.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from cometmq.codec.sql92 import sql92_filter
from cometmq.model.errors import SubscriptionError
from cometmq.model.subscription import ALL as EVERY_TAG
from cometmq.model.subscription import SQL92, Subscription, parse_subscription, trimmed
from cometmq.model.text import as_given, in_quotes


@dataclass(frozen=True, slots=True, init=False)
class Tag:
    """A filter that selects messages with one of these tags.

    Attributes:
        tags: Distinct tags in their order; empty: all messages, with or without a tag.

    Args:
        tags: Tags, or expressions in RocketMQ's syntax, `paid || sent`; none, a blank one, or `*`: all messages.

    Raises:
        SubscriptionError: A tag is not text, the expression has no tag (`||`), or `*` is in one of several arguments.
    """

    tags: tuple[str, ...]

    def __init__(self, *tags: str) -> None:
        for tag in tags:
            if not isinstance(tag, str):
                raise SubscriptionError(
                    f"a tag must be text, not {type(tag).__name__}: {as_given(tag, 80)}"
                )
        expression = " || ".join(tags)
        # Brokers would treat a star next to tags as a tag named `*`.
        if EVERY_TAG in (trimmed(tag) for tag in expression.split("||")) and len(tags) > 1:
            raise SubscriptionError(
                f"Tag({in_quotes(expression, 80)}): * means every tag and cannot be combined with other tags; "
                "leave out one of the two"
            )
        object.__setattr__(self, "tags", parse_subscription("", expression).tags)

    def __str__(self) -> str:
        return " || ".join(self.tags) or EVERY_TAG


@dataclass(frozen=True, slots=True)
class Sql:
    """A filter that selects messages whose properties satisfy an SQL92 expression.

    Attributes:
        expression: Comparisons (=, <>, <, <=, >, >=, BETWEEN, IN, IS NULL, CONTAINS, STARTSWITH, ENDSWITH) joined by
            AND, OR and NOT; strings in single quotes.

    Raises:
        ExpressionError: The expression is invalid; the message shows the position.
    """

    expression: str

    def __post_init__(self) -> None:
        """Raise ExpressionError if the expression is invalid."""
        sql92_filter(self.expression)

    def __str__(self) -> str:
        return self.expression


Filter: TypeAlias = Tag | Sql
# Initial subscriptions of a consumer: a filter for each topic, or topics without filters.
Subscriptions: TypeAlias = Mapping[str, Filter] | Iterable[str]

ALL = Tag()


def subscription_of(topic: str, expression: Filter, *, version: int = 0) -> Subscription:
    """Return the subscription for a topic and its filter, in the form that brokers receive.

    Raises SubscriptionError if the filter is neither a `Tag` nor an `Sql`.
    """
    if isinstance(expression, Sql):
        return Subscription(topic, expression.expression, SQL92, version=version)
    if isinstance(expression, Tag):
        return parse_subscription(topic, str(expression), version=version)
    raise SubscriptionError(
        f"the filter of topic {as_given(topic, 80)} is {as_given(expression, 80)}; write "
        f"{f'Tag({in_quotes(expression, 80)})' if isinstance(expression, str) else 'Tag(...)'}, or Sql('price > 10')"
    )


def each_of(subscriptions: Subscriptions | None) -> Iterable[tuple[str, Filter]]:
    """Return (topic, filter) pairs, with `ALL` for topics in a list, none for None; raise SubscriptionError for a text."""
    if isinstance(subscriptions, str):
        raise SubscriptionError(
            f"subscriptions is the text {in_quotes(subscriptions, 80)}; write [{in_quotes(subscriptions, 80)}], or a "
            "filter for each topic: {'orders': Tag('paid')}"
        )
    if isinstance(subscriptions, Mapping):
        return list(subscriptions.items())
    return [(topic, ALL) for topic in subscriptions or ()]
