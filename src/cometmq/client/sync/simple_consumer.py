"""The blocking `SimpleConsumer`: made by tools/sync_facade.py from cometmq.client.consumer.pop.simple_consumer; do not edit."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from cometmq.client.consumer.filters import ALL, Filter, Subscriptions
from cometmq.client.consumer.pop.simple_consumer import AsyncSimpleConsumer
from cometmq.client.settings import SimpleSettings
from cometmq.client.sync.portal import portal
from cometmq.model.message import StoredMessage


class SimpleConsumer:
    """A consumer that receives messages on demand and acknowledges each by itself (pop).

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: its consumer group.
        subscriptions: a filter for each topic, `{"orders": Tag("paid")}`, or topics, `["orders"]`, of
            which all messages are wanted; more by `subscribe`.
        settings: times, where to begin.

    Raises:
        SettingsError: a nameserver address cannot be read.
        SubscriptionError: a filter is no filter.
        RequestError: the group's name is illegal.
    """

    def __init__(
        self,
        nameservers: str | None = None,
        *,
        group: str,
        subscriptions: Subscriptions | None = None,
        settings: SimpleSettings | None = None,
    ) -> None:
        self._portal = portal()
        self._client = AsyncSimpleConsumer(
            nameservers, group=group, subscriptions=subscriptions, settings=settings
        )

    def __repr__(self) -> str:
        """The group, topics, client id and nameservers."""
        return repr(self._client).replace("Async", "", 1)

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._client.group

    @property
    def client_id(self) -> str:
        """The id by which brokers know this client."""
        return self._client.client_id

    def subscribe(self, topic: str, expression: Filter = ALL) -> None:
        """Subscribe to one more topic, or change the filter of one.

        Args:
            topic: one more, or one whose filter is to be another.
            expression: which of its messages, `Tag(...)` or `Sql(...)`.

        Raises:
            SubscriptionError: the expression is neither.
        """
        self._portal.call(self._client.subscribe, topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """End the subscription to a topic; what was received of it can still be acknowledged.

        Raises:
            SubscriptionError: it is not subscribed.
        """
        self._portal.call(self._client.unsubscribe, topic)

    def start(self) -> None:
        """Join the group; messages are asked for by `receive` only."""
        self._portal = self._portal.begin(self._client, self._client.start)

    def close(self) -> None:
        """Leave the group; what was received and not acknowledged comes again in its time."""
        self._portal.end(self._client.close)

    def __enter__(self) -> Self:
        """Start the consumer."""
        self._portal = self._portal.begin(self._client, self._client.__aenter__)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Close the consumer."""
        self._portal.end(self._client.__aexit__, _kind, _error, _trace)

    def receive(
        self,
        max_count: int = 16,
        *,
        invisible_ms: int | None = None,
        wait_ms: int | None = None,
    ) -> list[StoredMessage]:
        """The next messages of any topic; none when none comes in time.

        Args:
            max_count: at most so many, up to 32; those of one broker and topic.
            invisible_ms: how long they are hidden; None: as the settings say.
            wait_ms: how long to wait for a first one; None: as the settings say.

        Raises:
            SubscriptionError: nothing is subscribed.
            ClientError: a broker refuses, or `max_count` is out of range.
            TopicNotFound, NetError: nobody can be asked.
        """
        result: list[StoredMessage] = self._portal.call(
            self._client.receive, max_count, invisible_ms=invisible_ms, wait_ms=wait_ms
        )
        return result

    def ack(self, messages: StoredMessage | Sequence[StoredMessage]) -> None:
        """Acknowledge messages: they do not come again.

        Args:
            messages: one, or any number of them with one request a broker.

        Raises:
            ClientError: a broker refuses, or a message was not received here.
            NetError: a broker does not answer; messages may come again.
        """
        self._portal.call(self._client.ack, messages)

    def change_invisibility(self, message: StoredMessage, invisible_ms: int) -> StoredMessage:
        """Hide a message for another time from now; acknowledge the one that is given back.

        Raises:
            ClientError: the broker refuses, or the message was not received here.
            NetError: the broker does not answer.
        """
        result: StoredMessage = self._portal.call(
            self._client.change_invisibility, message, invisible_ms
        )
        return result
