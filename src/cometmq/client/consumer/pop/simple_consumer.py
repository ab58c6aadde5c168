"""The asyncio simple consumer: receives messages, which its user acknowledges, without queue assignment or rebalance (pop).

    async with AsyncSimpleConsumer("127.0.0.1:9876", group="billing", subscriptions=["orders"]) as consumer:
        while True:
            for message in await consumer.receive(16, invisible_ms=30_000):
                ...
                await consumer.ack(message)

Requires brokers of 5.x. `cometmq.SimpleConsumer` is the same for threads.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.filters import ALL, Filter, Subscriptions, each_of, subscription_of
from cometmq.client.consumer.pop.pops import Popper, receipt_of
from cometmq.client.consumer.send_back import SendBack
from cometmq.client.consumer.settings import ConsumeFrom, SimpleConsumerSettings
from cometmq.client.lifecycle import AsyncGroupClient
from cometmq.codec.bodies.heartbeat import ConsumerPart
from cometmq.codec.headers.pop import FROM_MAX, FROM_MIN
from cometmq.codec.receipt import NORMAL
from cometmq.codec.remoting import Command
from cometmq.model.delay_levels import DEAD_LETTER
from cometmq.model.errors import ClientError, CometError, SubscriptionError
from cometmq.model.message import StoredMessage, message_name
from cometmq.model.subscription import Subscription
from cometmq.model.text import as_given
from cometmq.net.channel import Channel
from cometmq.net.tasks import Tasks

_log = logging.getLogger(__name__)

CONSUME_POP = "CONSUME_POP"
COUNT_MAX = 32  # Messages per pop; a broker refuses more.
# Pause before a broker that failed, or a topic without readable queues, is tried again.
_PAUSE_SECONDS = 1.0

_Place = tuple[str, str]  # Topic, broker.


class AsyncSimpleConsumer(AsyncGroupClient):
    """A consumer that receives messages on demand (pop); its user acknowledges each of them.

    A message that is not acknowledged within its invisible time is usually redelivered to any member of the group.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: Its consumer group.
        subscriptions: A filter for each topic, `{"orders": Tag("paid")}`, or topics without filters, `["orders"]`.
        settings: Times, retries and the start of a new group.
        instance: Connections of another client to share instead of `nameservers`; their owner closes them.

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
        instance: ClientInstance | None = None,
    ) -> None:
        self._settings = settings or SimpleConsumerSettings()
        super().__init__(nameservers, self._settings, instance, group)
        group = self._group
        self._popper = Popper(
            self._instance,
            group,
            body_size_max=self._settings.body_size_max,
            namespace=self._namespace,
        )
        self._back: SendBack | None = None
        self._subscriptions: dict[str, Subscription] = {}
        self._member = _SimpleMember(group, self._subscriptions, self._settings)
        self._turn = 0
        self._notices: dict[_Place, asyncio.Task[bool]] = {}
        self._tasks = Tasks(f"{group} pop")
        for topic, expression in each_of(subscriptions):
            self.subscribe(topic, expression)

    def __repr__(self) -> str:
        return f"<{self.class_name} {self._group} of {[*self._subscriptions]} at {self._instance!r}>"

    def subscribe(self, topic: str, expression: Filter = ALL) -> None:
        """Subscribe to a topic, or change the filter of a subscribed topic.

        Raises SubscriptionError if the filter (`expression`) is neither a `Tag` nor an `Sql`.
        """
        topic, version = self._namespace.wrap(topic), self._instance.clock.now_ms()
        self._subscriptions[topic] = subscription_of(topic, expression, version=version)

    def unsubscribe(self, topic: str) -> None:
        """End the subscription to a topic; messages received from it can still be acknowledged.

        Raises SubscriptionError if the topic is not subscribed.
        """
        if self._subscriptions.pop(self._namespace.wrap(topic), None) is None:
            raise SubscriptionError(f"{self._named} is not subscribed to {as_given(topic, 80)}")

    # --- life cycle

    async def _open(self) -> None:
        self._at_close(lambda: self._instance.leave(self._member))
        self._at_close(self._notices.clear)
        self._at_close(self._tasks.close)
        self._back = SendBack(self._instance, self._group, self._settings.retries_max)
        await self._instance.join(self._member)

    # --- messages

    async def receive(
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
        if not 0 < max_count <= COUNT_MAX:
            raise ClientError(
                f"max_count={max_count}: it must be from 1 to {COUNT_MAX}, the most messages that a broker returns "
                "at once"
            )
        settings = self._settings
        invisible_ms = settings.invisible_ms if invisible_ms is None else invisible_ms
        wait_ms = settings.wait_ms if wait_ms is None else wait_ms
        deadline = asyncio.get_running_loop().time() + wait_ms / 1000
        while True:
            self._check_running()
            places = await self._places()
            messages = await self._pop_round(places, max_count, invisible_ms, deadline)
            if messages or asyncio.get_running_loop().time() >= deadline:
                return messages
            if len(places) != 1:
                await self._wait_for_any(places, deadline)

    async def ack(self, messages: StoredMessage | Sequence[StoredMessage]) -> None:
        """Acknowledge one or several messages, so that they are not redelivered after their invisible time; a request per broker.

        Raises:
            ClientError: A broker refused or has no master now, or a message was not popped; or ClientClosed.
            NetError, CodecError: A broker gave no valid answer; messages may be redelivered.
        """
        self._check_running()
        by_broker: dict[str, list[StoredMessage]] = {}
        for message in [messages] if isinstance(messages, StoredMessage) else messages:
            by_broker.setdefault(receipt_of(message).broker_name, []).append(message)
        await asyncio.gather(*map(self._popper.ack, by_broker.values()))

    async def change_invisibility(
        self, message: StoredMessage, invisible_ms: int
    ) -> StoredMessage:
        """Hide a message for `invisible_ms` ms from now; acknowledge the returned message instead of the given one.

        Raises:
            ClientError: The broker refused or has no master now, or the message was not popped; or ClientClosed.
            NetError, CodecError: The broker did not answer, or its answer is malformed.
        """
        self._check_running()
        return await self._popper.change_invisibility(message, invisible_ms)

    async def dead_letter(self, message: StoredMessage, reason: str = "") -> None:
        """Make a received message a dead letter of the group and acknowledge it: a retry would not help.

        Args:
            message: The message; if its invisible time is over, it may also have been redelivered.
            reason: Why it is refused; written to the log.

        Raises:
            ClientError: A broker refused or has no master now, or the message was not popped; or ClientClosed.
            NetError, CodecError: A broker gave no valid answer; the message may be redelivered, and be a dead letter, too.
        """
        self._check_running()
        await self._bury(message)
        _log.warning(
            "The user rejected %s, which is a dead letter now: %s",
            message_name(message),
            reason,
        )

    # --- choice of broker

    async def _places(self) -> list[_Place]:
        """Return (topic, broker name) pairs for all subscribed topics, rotated by one place more at each call."""
        if not self._subscriptions:
            raise SubscriptionError(f"{self._named} has no topic; call subscribe(topic) first")
        places: list[_Place] = []
        for topic in [*self._subscriptions]:
            queues = (await self._instance.known(topic)).read_queues
            places += [(topic, name) for name in sorted({q.broker_name for q in queues})]
        self._turn += 1
        at = self._turn % max(len(places), 1)
        return places[at:] + places[:at]

    async def _pop_round(
        self, places: list[_Place], max_count: int, invisible_ms: int, deadline: float
    ) -> list[StoredMessage]:
        """Return messages of the first (topic, broker) pair that has any; if it is the only pair, wait for them."""
        left_ms = max(int((deadline - asyncio.get_running_loop().time()) * 1000), 0)
        is_from_min = self._settings.consume_from is ConsumeFrom.FIRST
        for topic, broker_name in places:
            wanted = self._subscriptions.get(topic)
            if wanted is None:
                continue  # Unsubscribed meanwhile.
            messages = await self._popper.pop(
                broker_name,
                wanted,
                max_count=max_count,
                invisible_ms=invisible_ms,
                wait_ms=left_ms if len(places) == 1 else 0,
                init_mode=FROM_MIN if is_from_min else FROM_MAX,
            )
            kept = [message for message in messages if not await self._buried(message)]
            if kept:
                return kept
        return []

    async def _buried(self, message: StoredMessage) -> bool:
        """Make a message with too many redeliveries a dead letter and acknowledge it; return whether that was done."""
        # The count of a message in another group's dead-letter topic does not concern this group.
        is_retry = receipt_of(message).kind != NORMAL
        if not is_retry or message.reconsume_times <= self._settings.retries_max:
            return False
        try:
            await self._bury(message)
        except CometError as error:
            _log.warning("%s cannot become a dead letter: %s", message_name(message), error)
            return False
        return True

    async def _bury(self, message: StoredMessage) -> None:
        assert self._back is not None, "made at start"
        broker_name = receipt_of(message).broker_name
        await self._back.tell(broker_name, message.commitlog_offset, DEAD_LETTER, message)
        await self._popper.ack([message])

    async def _wait_for_any(self, places: list[_Place], deadline: float) -> None:
        """Ask brokers whether they have messages; wait for one answer or the deadline.

        Queries that were not answered stay open, and the next call waits for them, too.
        """
        left_ms = int((deadline - asyncio.get_running_loop().time()) * 1000)
        if left_ms <= 0:
            return
        if not places:  # No subscribed topic has a readable queue.
            await asyncio.sleep(min(left_ms / 1000, _PAUSE_SECONDS))
            return
        for place in places:
            notice = self._notices.get(place)
            if notice is None or notice.done():
                work = self._notified(place, min(left_ms, self._settings.wait_ms))
                self._notices[place] = self._tasks.spawn(work, "notice")
        waiting = [self._notices[place] for place in places]
        await asyncio.wait(waiting, timeout=left_ms / 1000, return_when=asyncio.FIRST_COMPLETED)

    async def _notified(self, place: _Place, wait_ms: int) -> bool:
        topic, broker_name = place
        try:
            return await self._popper.notified(broker_name, topic, wait_ms)
        except CometError as error:
            _log.info("Cannot pop topic %s at broker %s: %s", topic, broker_name, error)
            await asyncio.sleep(_PAUSE_SECONDS)
            return False


class _SimpleMember:
    """The membership of a simple consumer in its group; `subscriptions` may change later."""

    def __init__(
        self,
        group: str,
        subscriptions: Mapping[str, Subscription],
        settings: SimpleConsumerSettings,
    ) -> None:
        self.group = group
        self._subscriptions = subscriptions
        self._settings = settings

    def heartbeat_part(self) -> ConsumerPart:
        """Return the part of a heartbeat that announces this member to brokers."""
        return ConsumerPart(
            self.group,
            tuple(self._subscriptions.values()),
            consume_type=CONSUME_POP,
            from_where=self._settings.consume_from.value,
        )

    def topics(self) -> list[str]:
        """Return the topics whose routes must be refreshed."""
        return list(self._subscriptions)

    def take_request(self, _command: Command, _channel: Channel) -> bool:
        """Return False, because a simple consumer handles no requests of brokers."""
        return False
