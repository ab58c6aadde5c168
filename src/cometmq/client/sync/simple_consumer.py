"""The blocking `SimpleConsumer`: made by tools/sync_facade.py from cometmq.client.consumer.pop.simple_consumer; do not edit."""

from collections.abc import Sequence

from cometmq.client.consumer.filters import ALL, Filter, Subscriptions
from cometmq.client.consumer.pop.simple_consumer import AsyncSimpleConsumer
from cometmq.client.settings import SimpleSettings
from cometmq.client.sync.client import BlockingGroupClient
from cometmq.model.message import StoredMessage


class SimpleConsumer(BlockingGroupClient[AsyncSimpleConsumer]):
    """A consumer that receives messages on demand and acknowledges each by itself (pop).

    What was received and not acknowledged when it is closed comes again in its time.

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
        super().__init__(
            AsyncSimpleConsumer(
                nameservers, group=group, subscriptions=subscriptions, settings=settings
            )
        )

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
