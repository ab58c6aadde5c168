"""The blocking `PushConsumer`: made by tools/sync_facade.py from cometmq.client.consumer.push.push_consumer; do not edit."""

from cometmq.client.consumer.counts import TopicCounts
from cometmq.client.consumer.filters import ALL, Filter, Subscriptions
from cometmq.client.consumer.listeners import BatchListener, Listener
from cometmq.client.consumer.push.push_consumer import AsyncPushConsumer
from cometmq.client.settings import PushSettings
from cometmq.client.sync.client import BlockingGroupClient
from cometmq.codec.bodies.running import ConsumeRates


class PushConsumer(BlockingGroupClient[AsyncPushConsumer]):
    """A consumer that calls a listener with each message of its topics.

    To close it stops pulling, waits for running listeners, stores offsets and leaves the group.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: its consumer group; all members must have the same subscriptions.
        listener: `def` (run in threads) or `async def`, given one message; None or True:
            consumed; False or an exception: later.
        batch_listener: in its place, given a list of up to `PushSettings.batch_count` messages of one
            queue; its answer is for all of them.
        subscriptions: a filter for each topic, `{"orders": Tag("paid")}`, or topics, `["orders"]`, of
            which all messages are wanted; more by `subscribe`.
        settings: times, sizes, where to begin, broadcasting.

    Raises:
        SettingsError: a nameserver address cannot be read, or there is not one listener that is a function.
        SubscriptionError: a filter is no filter.
        RequestError: the group's name is illegal.
        SubscriptionError: at the start: nothing is subscribed.
    """

    def __init__(
        self,
        nameservers: str | None = None,
        *,
        group: str,
        listener: Listener | None = None,
        batch_listener: BatchListener | None = None,
        subscriptions: Subscriptions | None = None,
        settings: PushSettings | None = None,
    ) -> None:
        super().__init__(
            AsyncPushConsumer(
                nameservers,
                group=group,
                listener=listener,
                batch_listener=batch_listener,
                subscriptions=subscriptions,
                settings=settings,
            )
        )

    def subscribe(self, topic: str, expression: Filter = ALL) -> None:
        """Subscribe to one more topic, or change the filter of one; a running consumer begins at once.

        Args:
            topic: one more, or one whose filter is to be another.
            expression: which of its messages, `Tag(...)` or `Sql(...)`.

        Raises:
            SubscriptionError: the expression is neither.
        """
        self._portal.call(self._client.subscribe, topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """End the subscription to a topic; its queues go to the other members of the group.

        What was pulled is still given to the listener where its call has begun.

        Raises:
            SubscriptionError: it is not subscribed.
        """
        self._portal.call(self._client.unsubscribe, topic)

    def wait(self) -> None:
        """Wait until this consumer is closed, or until SIGTERM or SIGINT (Ctrl-C).

        The signals count in the main thread of a program that does not handle them itself. Leave the `with` block
        then: running listeners finish, and offsets are committed. A second signal ends the program at once.

        Raises:
            ListenerError: The listener breaks its contract; nothing more is consumed.
            ClientClosed: It was not started.
        """
        self._portal.wait(self._client.wait)

    def pause(self) -> None:
        """Stop pulling until `resume`; what was pulled is still given to the listener."""
        self._portal.call(self._client.pause)

    def resume(self) -> None:
        """Start pulling again after `pause`."""
        self._portal.call(self._client.resume)

    def set_concurrency(self, concurrency: int) -> None:
        """Set how many listeners run at once; those that run are not disturbed.

        Raises:
            ClientClosed: it is not running.
            SettingsError: fewer than one, far too many, or an orderly listener.
        """
        self._portal.call(self._client.set_concurrency, concurrency)

    def statistics(self) -> dict[str, TopicCounts]:
        """Counts of messages pulled, consumed and refused since the start, by topic."""
        result: dict[str, TopicCounts] = self._portal.call(self._client.statistics)
        return result

    def rates(self) -> dict[str, ConsumeRates]:
        """Messages pulled, consumed and refused a second over the last minute, by topic."""
        result: dict[str, ConsumeRates] = self._portal.call(self._client.rates)
        return result
