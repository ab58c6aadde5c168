"""Filters of a subscription: by tag, or by an expression over properties.

    PushConsumer(group="billing", listener=handle, subscriptions={"orders": Tag("paid", "sent")})
    consumer.subscribe("prices", Sql("region = 'hz' AND price > 100"))

Brokers filter; by tags the client looks once more, for a broker compares their hashes only. Follows FilterAPI and
MessageSelector.bySql of RocketMQ 5.3.3; a Java broker takes SQL92 where enablePropertyFilter is true.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from cometmq.codec.sql92 import sql92_filter
from cometmq.model.errors import SubscriptionError
from cometmq.model.subscription import ALL as EVERY_TAG
from cometmq.model.subscription import SQL92, Subscription, parse_subscription, trimmed


@dataclass(frozen=True, slots=True, init=False)
class Tag:
    """A filter that selects messages with one of these tags.

    Attributes:
        tags: in their order, each once; empty: all messages, with any tag or none.

    Args:
        tags: tags, or expressions as RocketMQ writes them, `paid || sent`; none, or `*`: all messages.

    Raises:
        SubscriptionError: what was given names no tag.
    """

    tags: tuple[str, ...]

    def __init__(self, *tags: str) -> None:
        for tag in tags:
            if not isinstance(tag, str):
                raise SubscriptionError(f"a tag is text, not {type(tag).__name__}: {tag!r:.80}")
        expression = " || ".join(tags)
        # A star beside tags would be taken for a tag of that name by brokers.
        if EVERY_TAG in (trimmed(tag) for tag in expression.split("||")) and len(tags) > 1:
            raise SubscriptionError(
                f"Tag({expression!r:.80}): * stands alone, it means every tag"
            )
        object.__setattr__(self, "tags", parse_subscription("", expression).tags)

    def __str__(self) -> str:
        """The expression as the wire carries it."""
        return " || ".join(self.tags) or EVERY_TAG


@dataclass(frozen=True, slots=True)
class Sql:
    """A filter that selects messages whose properties fulfil an SQL92 expression.

    Attributes:
        expression: comparisons (=, <>, <, <=, >, >=, BETWEEN, IN, IS NULL, CONTAINS, STARTSWITH,
            ENDSWITH) joined by AND, OR and NOT; strings stand in single quotes.

    Raises:
        ExpressionError: it is no expression; the message shows where it is wrong.
    """

    expression: str

    def __post_init__(self) -> None:
        """Parse the expression, so that a wrong one fails here and not at a broker."""
        sql92_filter(self.expression)

    def __str__(self) -> str:
        """The expression."""
        return self.expression


Filter: TypeAlias = Tag | Sql
# What a consumer begins with: a filter for each topic, or topics of which all messages are wanted.
Subscriptions: TypeAlias = Mapping[str, Filter] | Iterable[str]

ALL = Tag()


def subscription_of(topic: str, expression: Filter, *, version: int = 0) -> Subscription:
    """The subscription that brokers are told for a topic and its filter.

    Raises:
        SubscriptionError: the filter is neither a `Tag` nor an `Sql`.
    """
    if isinstance(expression, Sql):
        return Subscription(topic, expression.expression, SQL92, version=version)
    if isinstance(expression, Tag):
        return parse_subscription(topic, str(expression), version=version)
    raise SubscriptionError(
        f"the filter of topic {topic!r:.80} is {expression!r:.80}; write "
        f"{f'Tag({expression!r:.80})' if isinstance(expression, str) else 'Tag(...)'}, or Sql('price > 10')"
    )


def each_of(subscriptions: Subscriptions | None) -> Iterable[tuple[str, Filter]]:
    """Yield topics with their filters.

    Raises:
        SubscriptionError: it is a single text, whose letters would be taken for topics.
    """
    if isinstance(subscriptions, str):
        raise SubscriptionError(
            f"subscriptions is the text {subscriptions!r:.80}; write [{subscriptions!r:.80}], or a filter "
            "for each topic: {'orders': Tag('paid')}"
        )
    if isinstance(subscriptions, Mapping):
        return list(subscriptions.items())
    return [(topic, ALL) for topic in subscriptions or ()]
