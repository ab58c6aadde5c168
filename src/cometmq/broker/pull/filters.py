"""Filters of subscriptions: tags by the hash in the queue entry, SQL92 by the record's properties.

A tag filter costs a look at the queue entry; SQL92 needs the record's properties, so records are
read and then filtered (broker.pull.filtered_read). Follows ExpressionMessageFilter, ExpressionForRetryMessageFilter
and ConsumerFilterManager of RocketMQ 5.3.3, but for the table of compiled filters: the text of a
subscription is enough, and what it compiles to is kept by the text.
"""

from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import NamedTuple

from cometmq.broker.loop.turns import Turns
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.broker.tables.members import Members
from cometmq.codec.properties import find_property
from cometmq.model.bounded_cache import BoundedCache
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import ExpressionError, RequestError, SubscriptionError
from cometmq.model.names import is_retry_topic
from cometmq.model.properties import RETRY_TOPIC
from cometmq.model.subscription import SQL92, TAG, Subscription, parse_subscription

Passes = Callable[[bytes], bool]
# Parsed tag expressions that are kept: some thousand of the usual size. Each costs this, and 100 bytes a character where
# tags have one character each. Bytes.
_KEPT_SIZE = 4 << 20
_SIZE, _SIZE_A_CHARACTER = 600, 100
_tags: BoundedCache[tuple[str, str | None], Subscription] = BoundedCache(
    lambda key: parse_subscription(*key),
    size_of=lambda key, _tags: _SIZE + _SIZE_A_CHARACTER * len(key[1] or ""),
    size_max=_KEPT_SIZE,
)
# What is longer takes milliseconds to parse, characters.
_PLAIN_LENGTH_MAX = 4_096
_RETRY_TOPIC = RETRY_TOPIC.encode()


class MessageFilter(NamedTuple):
    """A filter of messages, by tag hash or by properties.

    Attributes:
        codes: tag hashes, None for all.
        passes: says so of a record's property block, None for all.
    """

    codes: frozenset[int] | None = None
    passes: Passes | None = None


class Filters:
    """Makes filters of subscriptions."""

    def __init__(self, settings: BrokerSettings, members: Members) -> None:
        """`members` knows what groups want of the topics that retries came from."""
        self._settings = settings
        self._members = members

    def subscription(
        self, topic: str, expression: str | None, kind: str | None
    ) -> Subscription:
        """The subscription that a request carries.

        An SQL92 expression is taken as it is: `filter_of` says what is wrong with it.

        Raises:
            RequestError: SUBSCRIPTION_PARSE_FAILED; or this kind is not supported.
        """
        kind = kind or TAG
        if kind != TAG:
            self._check_kind(kind)
            return Subscription(topic, expression or "", SQL92)
        try:
            return _tags[topic, expression]
        except SubscriptionError as error:
            raise RequestError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None

    def filter_of(
        self, subscription: Subscription, group: str, *, is_asked: bool = False
    ) -> MessageFilter:
        """The filter of a group's subscription.

        Args:
            subscription: of one topic.
            group: whose it is.
            is_asked: it came with the request, and not with a heartbeat.

        Raises:
            RequestError: its expression cannot be used, with the column; SUBSCRIPTION_PARSE_FAILED
                where it came with the request, else FILTER_DATA_NOT_EXIST. Or its kind is not
                supported.
        """
        if subscription.kind == TAG:
            return MessageFilter(subscription.codes if subscription.tags else None)
        self._check_kind(subscription.kind)
        try:
            passes = _sql92(subscription.expression)
        except ExpressionError as error:
            if is_asked:
                raise RequestError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None
            raise RequestError(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                f"The broker's consumer filter data is not exist!Your expression may be wrong! {error}",
            ) from None
        if self._settings.is_retry_filtered and is_retry_topic(subscription.topic):
            return MessageFilter(passes=partial(self._passes_origin, {}, group))
        return MessageFilter(passes=passes)

    def _passes_origin(self, known: dict[str, Passes], group: str, block: bytes) -> bool:
        """Whether the group's subscription to the topic of a retried message lets it through."""
        topic = find_property(block, _RETRY_TOPIC)
        if topic is None:
            return True
        passes = known.get(topic)
        if passes is None:  # Once a read: a bad expression is not kept.
            passes = known[topic] = self._passes_of(group, topic)
        return passes(block)

    def _passes_of(self, group: str, topic: str) -> Passes:
        origin = self._members.subscription(group, topic)
        if origin is None or origin.kind == TAG:
            return _let_through
        try:
            return _sql92(origin.expression)
        except ExpressionError:
            return _let_through

    def _check_kind(self, kind: str) -> None:
        if kind != SQL92 or not self._settings.is_sql92:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"The broker does not support consumer to filter message by {kind}",
            )


def is_plain(expression: str | None, kind: str | None) -> bool:
    """Whether the filter of an expression costs next to nothing: tags, and not thousands of them."""
    return (kind or TAG) == TAG and (expression is None or len(expression) <= _PLAIN_LENGTH_MAX)


def _let_through(_block: bytes) -> bool:
    return True


def _sql92(expression: str) -> Passes:
    # Imported for the first one, 4 ms: most brokers never see any.
    from cometmq.codec.sql92 import sql92_filter

    return sql92_filter(expression).matches


class FilterCheck:
    """A consumer asks whether its expression is one before it begins."""

    def __init__(self, filters: Filters, turns: Turns) -> None:
        """A long expression waits for its turn."""
        self._filters = filters
        self._turns = turns

    def check(self, asked: Subscription, owner: Hashable) -> Awaitable[None] | None:
        """Whether a subscription can be used; None: it can.

        Args:
            asked: the subscription.
            owner: whose share of what may wait this counts in (`Caller.owner`).

        Raises:
            RequestError: it cannot: SUBSCRIPTION_PARSE_FAILED with the column, or its kind is not supported.
        """
        return self._turns.run(owner, partial(self._check, asked), len(asked.expression))

    def _check(self, asked: Subscription) -> None:
        subscription = self._filters.subscription(asked.topic, asked.expression, asked.kind)
        self._filters.filter_of(subscription, "", is_asked=True)
