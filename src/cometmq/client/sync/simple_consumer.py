"""The blocking `SimpleConsumer`: made by tools/sync_facade.py from cometmq.client.consumer.pop.simple_consumer; do not edit."""

from collections.abc import Sequence

from cometmq.client.consumer.filters import ALL, Filter, Subscriptions
from cometmq.client.consumer.pop.simple_consumer import AsyncSimpleConsumer
from cometmq.client.consumer.settings import SimpleConsumerSettings
from cometmq.client.sync.client import BlockingGroupClient
from cometmq.model.message import StoredMessage


class SimpleConsumer(BlockingGroupClient[AsyncSimpleConsumer]):
    """A consumer that receives messages on demand (pop); its user acknowledges each of them.

    A message that is not acknowledged within its invisible time is usually redelivered to any member of the group.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: Its consumer group.
        subscriptions: A filter for each topic, `{"orders": Tag("paid")}`, or topics without filters, `["orders"]`.
        settings: Times, retries and the start of a new group.

    Raises:
        SettingsError: A nameserver address, or the credentials or TLS settings (also of the environment), are unusable.
        SubscriptionError: `subscriptions` is a text, or a filter is neither a `Tag` nor an `Sql`.
        RequestError: The name of the group is invalid.
    """

    def __init__(
        self,
        nameservers: str | None = None,
        *,
        group: str,
        subscriptions: Subscriptions | None = None,
        settings: SimpleConsumerSettings | None = None,
    ) -> None:
        super().__init__(
            AsyncSimpleConsumer(
                nameservers, group=group, subscriptions=subscriptions, settings=settings
            )
        )

    def subscribe(self, topic: str, expression: Filter = ALL) -> None:
        """Subscribe to a topic, or change the filter of a subscribed topic.

        Raises SubscriptionError if the filter (`expression`) is neither a `Tag` nor an `Sql`.
        """
        self._portal.do(self._client.subscribe, topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """End the subscription to a topic; messages received from it can still be acknowledged.

        Raises SubscriptionError if the topic is not subscribed.
        """
        self._portal.do(self._client.unsubscribe, topic)

    def receive(
        self,
        max_count: int = 16,
        *,
        invisible_ms: int | None = None,
        wait_ms: int | None = None,
    ) -> list[StoredMessage]:
        """Return the next messages of one of the subscribed topics, or an empty list if none arrive in time.

        A message that was redelivered more than `retries_max` times becomes a dead letter instead, if possible.

        Args:
            max_count: Maximum number of messages, up to 32; they come from one broker and topic.
            invisible_ms: How long they are hidden from the group, ms; None: as in the settings.
            wait_ms: How long to wait for the first message, ms; None: as in the settings.

        Raises:
            SubscriptionError: No topic is subscribed.
            ClientError: A server refused, a broker has no master now, or `max_count` is out of range; or ClientClosed.
            TopicNotFound, NetError, CodecError: No route, a server did not answer, or its answer is malformed.
        """
        return self._portal.call(
            self._client.receive, max_count, invisible_ms=invisible_ms, wait_ms=wait_ms
        )

    def ack(self, messages: StoredMessage | Sequence[StoredMessage]) -> None:
        """Acknowledge one or several messages, so that they are not redelivered after their invisible time; a request per broker.

        Raises:
            ClientError: A broker refused or has no master now, or a message was not popped; or ClientClosed.
            NetError, CodecError: A broker gave no valid answer; messages may be redelivered.
        """
        self._portal.call(self._client.ack, messages)

    def change_invisibility(self, message: StoredMessage, invisible_ms: int) -> StoredMessage:
        """Hide a message for `invisible_ms` ms from now; acknowledge the returned message instead of the given one.

        Raises:
            ClientError: The broker refused or has no master now, or the message was not popped; or ClientClosed.
            NetError, CodecError: The broker did not answer, or its answer is malformed.
        """
        return self._portal.call(self._client.change_invisibility, message, invisible_ms)

    def dead_letter(self, message: StoredMessage, reason: str = "") -> None:
        """Make a received message a dead letter of the group and acknowledge it: a retry would not help.

        Args:
            message: The message; if its invisible time is over, it may also have been redelivered.
            reason: Why it is refused; written to the log.

        Raises:
            ClientError: A broker refused or has no master now, or the message was not popped; or ClientClosed.
            NetError, CodecError: A broker gave no valid answer; the message may be redelivered, and be a dead letter, too.
        """
        self._portal.call(self._client.dead_letter, message, reason)
