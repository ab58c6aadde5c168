"""Filters of subscriptions: tags by the hash in the queue entry, SQL92 by the record's properties.

A tag filter needs only the queue entry. SQL92 needs the record's properties, so records are read first and then filtered
(broker.pull.filtered_read). Follows ExpressionMessageFilter, ExpressionForRetryMessageFilter and ConsumerFilterManager of
RocketMQ 5.3.3, but without a table of compiled filters: parsed expressions are cached.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from cometmq.broker.loop.caller import Owner
from cometmq.broker.loop.turns import Turns
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.broker.tables.members import Members
from cometmq.codec.properties import find_property
from cometmq.kernel import PropertyFilter, TagCodes
from cometmq.model.bounded_cache import BoundedCache
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import ExpressionError, RequestError, SubscriptionError
from cometmq.model.names import is_retry_topic
from cometmq.model.properties import RETRY_TOPIC
from cometmq.model.subscription import SQL92, TAG, Subscription, parse_subscription
from cometmq.steps.steps import Steps

if TYPE_CHECKING:
    from cometmq.codec.sql92 import Sql92Filter

Passes = Callable[[bytes], bool]
# Size limit in bytes of the cache of parsed tag expressions, some thousand of the usual size. An entry costs
# 600 bytes, plus 100 per character (the worst case: tags of one character each).
_KEPT_SIZE = 4 << 20
_SIZE, _SIZE_A_CHARACTER = 600, 100
_tags: BoundedCache[tuple[str, str | None], Subscription] = BoundedCache(
    lambda key: parse_subscription(*key),
    size_of=lambda key, _tags: _SIZE + _SIZE_A_CHARACTER * len(key[1] or ""),
    size_max=_KEPT_SIZE,
)
# Longer expressions, in characters, take milliseconds to parse.
_PLAIN_LENGTH_MAX = 4_096
_RETRY_TOPIC = RETRY_TOPIC.encode()


class MessageFilter(NamedTuple):
    """A filter of messages, by tag hash or by properties.

    Attributes:
        codes: The tag hashes that pass; None if tags do not matter.
        passes: Returns whether a message with this property block passes; None if properties do not matter.
        fast: A filter of the kernel with the same results as `passes`, or that leaves some to it; None if there is none.
    """

    codes: frozenset[int] | None = None
    passes: Passes | None = None
    fast: PropertyFilter | None = None


class Filters:
    """Makes the filter of a pull or pop from its subscription: by tags, or by an SQL92 expression."""

    def __init__(self, settings: BrokerSettings, members: Members) -> None:
        self._settings = settings
        self._members = members

    def subscription(
        self, topic: str, expression: str | None, kind: str | None
    ) -> Subscription:
        """Return the subscription that a request carries; errors of an SQL92 expression are reported by `filter_of`.

        Raises:
            RequestError: SUBSCRIPTION_PARSE_FAILED, or this kind of expression is not supported.
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
        """Return the filter of a group's subscription to one topic.

        Raises:
            RequestError: The SQL92 expression is invalid: SUBSCRIPTION_PARSE_FAILED if it came with the request
                (`is_asked`), FILTER_DATA_NOT_EXIST if with a heartbeat. Or this kind of expression is not supported.
        """
        if subscription.kind == TAG:
            return MessageFilter(subscription.codes if subscription.tags else None)
        self._check_kind(subscription.kind)
        try:
            wanted = _sql92(subscription.expression)
        except ExpressionError as error:
            if is_asked:
                raise RequestError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None
            raise RequestError(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                f"The broker's consumer filter data is not exist!Your expression may be wrong! {error}",
            ) from None
        if self._settings.is_retry_filtered and is_retry_topic(subscription.topic):
            return MessageFilter(passes=partial(self._passes_origin, {}, group))
        return MessageFilter(passes=wanted.matches, fast=wanted.fast)

    def fast_match(self, subscription: Subscription) -> TagCodes | PropertyFilter | None:
        """Return the match of `AnswerTerms` with the meaning of `filter_of`; None if the kernel has none for it (yet).

        An SQL92 expression has one once `filter_of` has compiled it.
        """
        if subscription.kind == TAG:
            return TagCodes(subscription.codes)
        is_origin_asked = self._settings.is_retry_filtered and is_retry_topic(
            subscription.topic
        )
        if not self._settings.is_sql92 or is_origin_asked:
            return None
        known = _known_sql92(subscription.expression)
        return None if known is None else known.fast

    def _passes_origin(self, known: dict[str, Passes], group: str, block: bytes) -> bool:
        """Return whether a retried message passes the SQL92 filter of its original topic; True without a valid one."""
        topic = find_property(block, _RETRY_TOPIC)
        if topic is None:
            return True
        passes = known.get(topic)
        if passes is None:  # Kept for one read only, because errors must not be cached.
            passes = known[topic] = self._passes_of(group, topic)
        return passes(block)

    def _passes_of(self, group: str, topic: str) -> Passes:
        origin = self._members.subscription(group, topic)
        if origin is None or origin.kind == TAG:
            return _let_through
        try:
            return _sql92(origin.expression).matches
        except ExpressionError:
            return _let_through

    def _check_kind(self, kind: str) -> None:
        if kind != SQL92 or not self._settings.is_sql92:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"The broker does not support consumer to filter message by {kind}",
            )


def is_plain(expression: str | None, kind: str | None) -> bool:
    """Return whether making an expression's filter is cheap: it is by tags, and short."""
    return (kind or TAG) == TAG and (expression is None or len(expression) <= _PLAIN_LENGTH_MAX)


def _let_through(_block: bytes) -> bool:
    return True


def _sql92(expression: str) -> "Sql92Filter":
    # Imported on first use, because it takes 4 ms and most brokers never need it.
    from cometmq.codec.sql92 import sql92_filter

    return sql92_filter(expression)


def _known_sql92(expression: str) -> "Sql92Filter | None":
    from cometmq.codec.sql92 import known_filter

    return known_filter(expression)


class FilterCheck:
    """Checks filter expressions for clients that ask, usually before they start to consume (CHECK_CLIENT_CONFIG)."""

    def __init__(self, filters: Filters, turns: Turns) -> None:
        self._filters = filters
        self._turns = turns

    def check(self, asked: Subscription, owner: Owner) -> Steps[None]:
        """Check that a subscription can be used, maybe in a later loop iteration, for the connection `owner`.

        Raises:
            RequestError: SUBSCRIPTION_PARSE_FAILED, this kind of expression is not supported, or too much work waits.
            ConnectionLost: The connection was closed while the check waited.
        """
        return self._turns.run(owner, partial(self._check, asked), len(asked.expression))

    def _check(self, asked: Subscription) -> None:
        subscription = self._filters.subscription(asked.topic, asked.expression, asked.kind)
        self._filters.filter_of(subscription, "", is_asked=True)
