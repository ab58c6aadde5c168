"""Receives messages and acknowledges each: no queues to share out, nothing to rebalance (pop).

    async with AsyncSimpleConsumer(
        "127.0.0.1:9876", group="billing", subscriptions=["orders"]
    ) as consumer:
        while True:
            for message in await consumer.receive(16, invisible_ms=30_000):
                ...
                await consumer.ack(message)

A message that is not acknowledged within its invisible time comes again, to any member of the group.
Brokers of 5.x only. `cometmq.client.SimpleConsumer` is the same for threads.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.filters import ALL, Filter, Subscriptions, each_of, subscription_of
from cometmq.client.consumer.pop.pops import Popper, PopTerms, receipt_of
from cometmq.client.consumer.send_back import SendBack
from cometmq.client.lifecycle import AsyncGroupClient
from cometmq.client.settings import ConsumeFrom, SimpleSettings
from cometmq.codec.bodies.heartbeat import ConsumerPart
from cometmq.codec.headers.pop import FROM_MAX, FROM_MIN
from cometmq.codec.receipt import NORMAL
from cometmq.codec.remoting import Command
from cometmq.model.delay_levels import DEAD_LETTER
from cometmq.model.errors import ClientError, CometError, SubscriptionError
from cometmq.model.message import StoredMessage
from cometmq.model.subscription import Subscription
from cometmq.net.channel import Channel
from cometmq.net.tasks import Tasks

_log = logging.getLogger(__name__)

CONSUME_POP = "CONSUME_POP"
COUNT_MAX = 32  # Messages of a pop; a broker refuses more.
_PAUSE_SECONDS = 1.0  # Before a broker that failed is asked again.

_Place = tuple[str, str]  # Topic, broker.


class AsyncSimpleConsumer(AsyncGroupClient):
    """A consumer that receives messages on demand and acknowledges each by itself (pop).

    What was received and not acknowledged when it is closed comes again in its time.

    Args:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        group: its consumer group.
        subscriptions: a filter for each topic, `{"orders": Tag("paid")}`, or topics, `["orders"]`, of
            which all messages are wanted; more by `subscribe`.
        settings: times, where to begin.
        instance: share another client's connections; its owner closes it.

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
        instance: ClientInstance | None = None,
    ) -> None:
        self._settings = settings or SimpleSettings()
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
        """The group, topics, client id and nameservers."""
        return f"<{self.class_name} {self._group} of {[*self._subscriptions]} at {self._instance!r}>"

    def subscribe(self, topic: str, expression: Filter = ALL) -> None:
        """Subscribe to one more topic, or change the filter of one.

        Args:
            topic: one more, or one whose filter is to be another.
            expression: which of its messages, `Tag(...)` or `Sql(...)`.

        Raises:
            SubscriptionError: the expression is neither.
        """
        topic, version = self._namespace.wrap(topic), self._instance.clock.now_ms()
        self._subscriptions[topic] = subscription_of(topic, expression, version=version)

    def unsubscribe(self, topic: str) -> None:
        """End the subscription to a topic; what was received of it can still be acknowledged.

        Raises:
            SubscriptionError: it is not subscribed.
        """
        if self._subscriptions.pop(self._namespace.wrap(topic), None) is None:
            raise SubscriptionError(f"{topic!r:.80} is not subscribed by {self!r}")

    # --- life

    async def _open(self) -> None:
        """Join the group; messages are asked for by `receive` only."""
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
        if not 0 < max_count <= COUNT_MAX:
            raise ClientError(f"max_count={max_count}: a broker gives 1 to {COUNT_MAX} at once")
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
            if len(places) > 1:
                await self._wait_for_any(places, deadline)

    async def ack(self, messages: StoredMessage | Sequence[StoredMessage]) -> None:
        """Acknowledge messages: they do not come again.

        Args:
            messages: one, or any number of them with one request a broker.

        Raises:
            ClientError: a broker refuses, or a message was not received here.
            NetError: a broker does not answer; messages may come again.
        """
        self._check_running()
        by_broker: dict[str, list[StoredMessage]] = {}
        for message in [messages] if isinstance(messages, StoredMessage) else messages:
            by_broker.setdefault(receipt_of(message).broker_name, []).append(message)
        await asyncio.gather(*map(self._popper.ack, by_broker.values()))

    async def change_invisibility(
        self, message: StoredMessage, invisible_ms: int
    ) -> StoredMessage:
        """Hide a message for another time from now; acknowledge the one that is given back.

        Raises:
            ClientError: the broker refuses, or the message was not received here.
            NetError: the broker does not answer.
        """
        self._check_running()
        return await self._popper.change_invisibility(message, invisible_ms)

    # --- where to ask

    async def _places(self) -> list[_Place]:
        """Topics and brokers, beginning with another one each time."""
        if not self._subscriptions:
            raise SubscriptionError(f"{self!r} has no topic; call subscribe(topic) first")
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
        """Ask one after the other; where there is only one, it holds the question."""
        left_ms = max(int((deadline - asyncio.get_running_loop().time()) * 1000), 0)
        is_from_min = self._settings.consume_from is ConsumeFrom.FIRST
        for topic, broker_name in places:
            wanted = self._subscriptions.get(topic)
            if wanted is None:
                continue  # Unsubscribed meanwhile.
            ask = PopTerms(
                wanted,
                max_count,
                invisible_ms,
                left_ms if len(places) == 1 else 0,
                FROM_MIN if is_from_min else FROM_MAX,
            )
            messages = await self._popper.pop(broker_name, ask)
            kept = [message for message in messages if not await self._buried(message)]
            if kept:
                return kept
        return []

    async def _buried(self, message: StoredMessage) -> bool:
        """Give a message that came too often to the dead letters; whether it is there."""
        # Of another group's dead letters the count says nothing about us.
        is_retry = receipt_of(message).kind != NORMAL
        if not is_retry or message.reconsume_times <= self._settings.retries_max:
            return False
        assert self._back is not None, "made at start"
        try:
            await self._back.tell(
                message.queue.broker_name, message.commitlog_offset, DEAD_LETTER, message
            )
            await self._popper.ack([message])
        except CometError as error:
            _log.warning("%r cannot be given to the dead letters: %s", message, error)
            return False
        return True

    async def _wait_for_any(self, places: list[_Place], deadline: float) -> None:
        """Wait until some broker has something; questions that are left are asked on."""
        left_ms = int((deadline - asyncio.get_running_loop().time()) * 1000)
        if left_ms <= 0:
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
            _log.info("%s of %s: %s", topic, broker_name, error)
            await asyncio.sleep(_PAUSE_SECONDS)
            return False


class _SimpleMember:
    """A simple consumer as its client instance sees it."""

    def __init__(
        self, group: str, subscriptions: Mapping[str, Subscription], settings: SimpleSettings
    ) -> None:
        """`subscriptions` may change."""
        self.group = group
        self._subscriptions = subscriptions
        self._settings = settings

    def heartbeat_part(self) -> ConsumerPart:
        """The part of a heartbeat that announces this member to brokers."""
        return ConsumerPart(
            self.group,
            tuple(self._subscriptions.values()),
            consume_type=CONSUME_POP,
            from_where=self._settings.consume_from.value,
        )

    def topics(self) -> list[str]:
        """Topics whose routes it needs kept fresh."""
        return list(self._subscriptions)

    def take_request(self, _command: Command, _channel: Channel) -> bool:
        """Nothing that brokers ask is for a simple consumer."""
        return False
