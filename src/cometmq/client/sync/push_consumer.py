"""The blocking `PushConsumer`: made by tools/sync_facade.py from cometmq.client.consumer.push.push_consumer; do not edit."""

from cometmq.client.consumer.counts import TopicCounts
from cometmq.client.consumer.filters import ALL, Filter, Subscriptions
from cometmq.client.consumer.listeners import BatchListener, Listener
from cometmq.client.consumer.push.push_consumer import AsyncPushConsumer
from cometmq.client.consumer.settings import PushConsumerSettings
from cometmq.client.sync.client import BlockingGroupClient
from cometmq.codec.bodies.running import ConsumeRates


class PushConsumer(BlockingGroupClient[AsyncPushConsumer]):
    """A consumer that calls a listener with each message of its share of the topics' queues that passes the filters.

    The members of a group share the queues of their topics; with broadcasting, each member has all of them.
    When it is closed, it stops pulling, waits up to `close_timeout_ms` for running listeners, commits offsets and leaves
    the group.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: Its consumer group; all members must have the same subscriptions.
        listener: `def` function (run in threads) or `async def` function of one message. Result None or True: consumed;
            False or an exception: retried later, within `PushConsumerSettings.retries_max`, or with `DeadLetter` made a dead
            letter; with broadcasting neither. Other results than an `OrderlyStatus` stop the consumption.
        batch_listener: Instead of `listener`: takes a list of up to `PushConsumerSettings.batch_count` messages; one result for
            all.
        subscriptions: A filter for each topic, `{"orders": Tag("paid")}`, or topics without filters, `["orders"]`.
        settings: Times, sizes, start of a new group, retries, order, broadcasting.

    Raises:
        SettingsError: A nameserver address, credentials or TLS settings (also of the environment), the listeners or
            `batch_count` without `batch_listener` are unusable; or, at the start, `telemetry` without OpenTelemetry.
        SubscriptionError: A filter is no `Tag` or `Sql`, or `subscriptions` a text; or, at the start, there is no topic.
        RequestError: The name of the group is invalid, or too long for its retry topic.
    """

    def __init__(
        self,
        nameservers: str | None = None,
        *,
        group: str,
        listener: Listener | None = None,
        batch_listener: BatchListener | None = None,
        subscriptions: Subscriptions | None = None,
        settings: PushConsumerSettings | None = None,
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
        """Subscribe to a topic, or change the filter of a subscribed topic; a running consumer follows soon.

        Raises SubscriptionError if the filter (`expression`) is neither a `Tag` nor an `Sql`.
        """
        self._portal.do(self._client.subscribe, topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """End the subscription to a topic and soon give up its queues.

        This consumer remains in the group, so other members usually do not take over its queues until it closes. Pulled
        messages whose listener call has not started by then are dropped; popped ones, also of a pop in progress, are
        usually passed to the listener. Raises SubscriptionError if the topic is not subscribed.
        """
        self._portal.do(self._client.unsubscribe, topic)

    def wait(self) -> None:
        """Wait until this consumer is closed, its listener fails for good (ListenerError), or SIGTERM or SIGINT arrives.

        Signals (SIGINT is Ctrl-C) are only handled in the main thread of a program that does not handle them itself.
        Leave the `with` block afterwards: it closes the consumer. A second signal has its usual effect.

        Raises:
            ListenerError: The listener returned an invalid result or was closed; no further call starts.
            ClientClosed: The consumer was not started.
        """
        self._portal.wait(self._client.wait)

    def pause(self) -> None:
        """Start no further pull or pop until `resume`; messages of earlier ones are still passed to the listener."""
        self._portal.do(self._client.pause)

    def resume(self) -> None:
        """Start pulling and popping again after `pause`."""
        self._portal.do(self._client.resume)

    def set_concurrency(self, concurrency: int) -> None:
        """Set the maximum number of concurrent listener calls; calls in progress are not interrupted.

        Raises ClientClosed if the consumer is not running, and SettingsError if the number is out of range or the
        listener is orderly.
        """
        self._portal.do(self._client.set_concurrency, concurrency)

    def statistics(self) -> dict[str, TopicCounts]:
        """Return a dict of topics to the numbers of messages that this consumer has pulled, consumed and failed on."""
        return self._portal.do(self._client.statistics)

    def rates(self) -> dict[str, ConsumeRates]:
        """Return a dict of topics to messages per second and mean times over about a minute, and failures in about an hour."""
        return self._portal.do(self._client.rates)
