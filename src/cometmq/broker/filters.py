"""Which messages a subscription lets through: tags by the hash in the queue, SQL92 by the record.

A tag filter costs a look at the queue entry; SQL92 needs the record's properties, so records are
read and then sifted (broker.sieve). Follows ExpressionMessageFilter, ExpressionForRetryMessageFilter
and ConsumerFilterManager of RocketMQ 5.3.3, but for the table of compiled filters: the text of a
subscription is enough, and what it compiles to is kept by the text.

Next: cometmq.broker.sieve
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from cometmq.broker.members import Members
from cometmq.broker.parts import Feature, Parts
from cometmq.broker.settings import BrokerSettings
from cometmq.codec.bodies.client_config import decode_client_config
from cometmq.codec.properties import find_property
from cometmq.codec.remoting import Command
from cometmq.codec.sql92 import sql92_filter
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import ExpressionError, RequestError, SubscriptionError
from cometmq.model.names import is_retry_topic
from cometmq.model.properties import RETRY_TOPIC
from cometmq.model.subscription import SQL92, TAG, Subscription, parse_subscription
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer

Passes = Callable[[bytes], bool]
_parse_tags = lru_cache(4_096)(parse_subscription)
_RETRY_TOPIC = RETRY_TOPIC.encode()


class MessageFilter(NamedTuple):
    """What is let through.

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
        """What a request says that it wants.

        Raises:
            RequestError: SUBSCRIPTION_PARSE_FAILED, with the column; or this kind is not
                supported.
        """
        kind = kind or TAG
        try:
            if kind == TAG:
                return _parse_tags(topic, expression)
            self._check_kind(kind)
            return Subscription(topic, sql92_filter(expression or "").expression, SQL92)
        except SubscriptionError as error:
            raise RequestError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None

    def filter_of(self, subscription: Subscription, group: str) -> MessageFilter:
        """The filter of a group's subscription.

        Raises:
            RequestError: FILTER_DATA_NOT_EXIST when its expression cannot be used; or its kind is
                not supported.
        """
        if subscription.kind == TAG:
            return MessageFilter(subscription.codes if subscription.tags else None)
        self._check_kind(subscription.kind)
        try:
            found = sql92_filter(subscription.expression)
        except ExpressionError as error:
            raise RequestError(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                f"The broker's consumer filter data is not exist!Your expression may be wrong! {error}",
            ) from None
        if self._settings.is_retry_filtered and is_retry_topic(subscription.topic):
            return MessageFilter(passes=lambda block: self._passes_origin(block, group))
        return MessageFilter(passes=found.matches)

    def _passes_origin(self, block: bytes, group: str) -> bool:
        """Whether the group's subscription to the topic of a retried message lets it through."""
        topic = find_property(block, _RETRY_TOPIC)
        origin = None if topic is None else self._members.subscription(group, topic)
        if origin is None or origin.kind == TAG:
            return True
        try:
            return sql92_filter(origin.expression).matches(block)
        except ExpressionError:
            return True

    def _check_kind(self, kind: str) -> None:
        if kind != SQL92 or not self._settings.is_sql92:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"The broker does not support consumer to filter message by {kind}",
            )


class FilterCheck(Feature):
    """CHECK_CLIENT_CONFIG 46: a consumer asks whether its expression is one before it begins."""

    def __init__(self, parts: Parts) -> None:
        self._filters = Filters(parts.settings, parts.members)
        self.of_clients = {RequestCode.CHECK_CLIENT_CONFIG: self.check}

    def check(self, command: Command, _peer: Peer) -> Answer:
        """Answer; a bad expression is SUBSCRIPTION_PARSE_FAILED with its column."""
        config = decode_client_config(command.body)
        if config is not None:
            self._filters.subscription(config.topic, config.expression, config.kind)
        return Answer()
