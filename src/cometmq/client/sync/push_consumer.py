"""The blocking `PushConsumer`: made by tools/sync_facade.py from cometmq.client.consumer.push.push_consumer; do not edit."""

from types import TracebackType
from typing import Self

from cometmq.client.consumer.counts import TopicCounts
from cometmq.client.consumer.filters import ALL, Filter, Subscriptions
from cometmq.client.consumer.listeners import BatchListener, Listener
from cometmq.client.consumer.push.push_consumer import AsyncPushConsumer
from cometmq.client.settings import PushSettings
from cometmq.client.sync.portal import portal
from cometmq.codec.bodies.running import ConsumeRates


class PushConsumer:
    """A consumer that calls a listener with each message of its topics.

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
        self._portal = portal()
        self._client = AsyncPushConsumer(
            nameservers,
            group=group,
            listener=listener,
            batch_listener=batch_listener,
            subscriptions=subscriptions,
            settings=settings,
        )

    def __repr__(self) -> str:
        """The group, subscriptions, client id and nameservers."""
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

    def start(self) -> None:
        """Join the group and begin to consume.

        Raises:
            SubscriptionError: nothing is subscribed.
        """
        self._portal = self._portal.begin(self._client, self._client.start)

    def close(self) -> None:
        """Stop: pull no more, wait for running listeners, store offsets, leave the group."""
        self._portal.end(self._client.close)

    def wait(self) -> None:
        """Wait until this consumer is closed, or until SIGTERM or SIGINT (Ctrl-C).

        The signals count in the main thread of a program that does not handle them itself. Leave the `with` block
        then: running listeners finish, and offsets are committed. A second signal ends the program at once.

        Raises:
            ListenerError: The listener breaks its contract; nothing more is consumed.
        """
        self._portal.wait(self._client.wait)

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
