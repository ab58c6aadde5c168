"""A member of a consumer group: its assigned queues, with a loop that pulls or pops each, and its consumed offsets."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from cometmq.client.answer_bodies import read_body
from cometmq.client.api.offsets import OffsetApi
from cometmq.client.bounded_tasks import BoundedTasks
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.broker_callbacks import BrokerCallbacks
from cometmq.client.consumer.counts import SAMPLE_SECONDS, Counts
from cometmq.client.consumer.offset_store import (
    ClusterOffsets,
    ConsumedProgress,
    LocalOffsets,
    OffsetStore,
)
from cometmq.client.consumer.order.orderly import Orderly
from cometmq.client.consumer.pop.pop_loop import PopContext, PopLoop
from cometmq.client.consumer.pop.pops import Popper
from cometmq.client.consumer.pull.pull_loop import Batch, PullContext, PullLoop
from cometmq.client.consumer.pull.pulls import Puller
from cometmq.client.consumer.rebalance import BrokerAssignment, Rebalance
from cometmq.client.consumer.send_back import SendBack
from cometmq.client.consumer.settings import ConsumerSettings, PushConsumerSettings
from cometmq.client.consumer.start_offset import StartOffset
from cometmq.client.periodic import repeat
from cometmq.client.user_calls import must_end_task
from cometmq.codec.bodies.heartbeat import (
    BROADCASTING,
    CLUSTERING,
    CONSUME_ACTIVELY,
    CONSUME_PASSIVELY,
    ConsumerPart,
)
from cometmq.codec.bodies.queue_offsets import decode_queue_offsets
from cometmq.codec.record import Record
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CometError, RequestError
from cometmq.model.names import length_fault, pop_retry_topic, retry_topic
from cometmq.model.namespace import namespace_of
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import Subscription
from cometmq.net.channel import Channel
from cometmq.net.loop import beat_sleep, beat_wait
from cometmq.net.tasks import Tasks

_log = logging.getLogger(__name__)

_STORING = "storing the offsets of"

# Delay before a failed rebalance is repeated (rebalance minInterval of 5.3.3).
_INCOMPLETE_PAUSE_SECONDS = 1.0
# Minimum time between two rebalances, however often brokers notify of changes (minInterval of 5.3.3: 1 s).
_REBALANCE_PAUSE_SECONDS = 0.1

Deliver = Callable[[PullLoop, Batch], None]
DeliverPopped = Callable[[PopLoop, Batch], None]
Discard = Callable[[PullLoop, Record], None]


class GroupMember:
    """A member of a consumer group, with its assigned queues, their pull loops and the committed offsets.

    Attributes:
        loops: Pull loops, by queue, of the assigned queues that are pulled.
        is_assigned: Whether the user assigned the queues with `assign`.
        progress: Consumed offsets.
        callbacks: Answers queries of brokers on behalf of consoles.
        admission: Locks queues for orderly consumption (with broadcasting without locks); None: consumption is not orderly.

    Args:
        is_push: Whether the consumer has a listener, and therefore, unless broadcasting, a retry topic.
        deliver: Called with pulled messages that match the filter, and their loop.
        discard: Called with a pull loop and a record from it that cannot be decoded.
        revoked: Called with the pull loop of a queue that the member gives up before it leaves the group.
    """

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        settings: ConsumerSettings,
        *,
        is_push: bool,
        deliver: Deliver,
        discard: Discard,
        revoked: Callable[[PullLoop], None] | None = None,
    ) -> None:
        self.group = group
        self.loops: dict[MessageQueue, PullLoop] = {}
        self._instance = instance
        self._settings = settings
        self._is_push = is_push
        self._revoked = revoked
        self.progress = ConsumedProgress(_store_for(instance, settings, group))
        self.counts = Counts(instance.clock)
        self._gate = _open_gate()
        self._reading = self._make_reading(deliver, discard)
        self._shares = Rebalance(instance, group, settings)
        self._subscriptions: dict[str, Subscription] = {}
        self._pulling: dict[MessageQueue, asyncio.Task[None]] = {}
        self.admission: Orderly | None = None
        self._leaving: set[MessageQueue] = set()
        self._wake = asyncio.Event()
        self._tasks = Tasks(group)
        self.callbacks = BrokerCallbacks(self, instance, settings)
        self._resets = BoundedTasks(f"{group} resets")
        self._is_started = self.is_assigned = False
        if is_push and not settings.broadcasting:
            retries = retry_topic(group)
            if (fault := length_fault(retries)) is not None:
                raise RequestError(ResponseCode.INVALID_PARAMETER, fault)
            self.subscribe(Subscription(retries))

    def share_by_broker(
        self, settings: PushConsumerSettings, back: SendBack, deliver: DeliverPopped
    ) -> None:
        """Let brokers assign the queues and decide which of them are popped; call this before `start`.

        With brokers before 5.0, the members assign the queues, and pull.
        """
        namespace = namespace_of(settings.namespace)
        size_max = settings.body_size_max
        popping = PopContext(
            Popper(self._instance, self.group, body_size_max=size_max, namespace=namespace),
            back,
            settings,
            self._gate,
            self.counts,
            self._instance.clock,
            self._instance.outages,
            Tasks(f"{self.group} popped"),
            deliver,
            self._subscriptions.get,
        )
        self._shares.assigned = self.callbacks.assigned = BrokerAssignment(
            self._instance, self.group, popping, want=self._want, unwant=self._unwant
        )

    def _make_reading(self, deliver: Deliver, discard: Discard) -> PullContext:
        instance, settings = self._instance, self._settings
        return PullContext(
            Puller(instance, self.group),
            self.progress,
            settings,
            self._gate,
            self.counts,
            instance.clock,
            instance.outages,
            StartOffset(
                self.progress,
                OffsetApi(instance),
                settings,
                instance.clock,
                instance.known,
                None if settings.broadcasting else self.group,
            ),
            deliver,
            discard,
        )

    # --- life cycle

    async def start(self) -> None:
        """Join the group and, in the background, rebalance, pull or pop, and (with `auto_commit`) store offsets, unless started."""
        if self._is_started:
            return
        self._is_started = True
        for topic in self._subscriptions:
            try:
                await self._instance.known(topic)
            except CometError as error:
                _log.debug("%s: %s", topic, error)
        await self._instance.join(self)
        self._tasks.spawn(self._rebalance_forever(), "rebalance")
        self._tasks.spawn(self._count_forever(), "counts")
        self._tasks.spawn(
            repeat(self._store, every_ms=self._settings.persist_interval_ms), "offsets"
        )

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Pull exactly these queues, without joining the group; store the offsets of others (`auto_commit`) and drop them."""
        if not self.is_assigned:
            self.is_assigned = True
            self._tasks.spawn(
                repeat(self._store, every_ms=self._settings.persist_interval_ms), "offsets"
            )
        wanted = set(queues)
        await self._give_up([queue for queue in self.loops if queue not in wanted])
        for queue in sorted(wanted - self.loops.keys()):
            self._take(queue)

    async def stop_pulling(self) -> None:
        """Stop rebalancing, pulling and popping; messages that were received may still be consumed."""
        await self._tasks.close()
        await self.callbacks.close()
        await self._resets.close()
        self._pulling.clear()
        if self._shares.assigned is not None:
            await self._shares.assigned.stop()

    async def leave(self) -> None:
        """Store offsets (with `auto_commit`), unlock queues, leave the group. Call `stop_pulling` first."""
        # The next owners of the queues read these offsets as soon as we have left.
        await self._store(is_answered=True)
        for loop in self.loops.values():
            loop.is_dropped = True
        if self.admission is not None:
            await self.admission.give_back(list(self.loops))
            self.admission = None
        self._leaving.clear()
        self.loops.clear()
        if self._shares.assigned is not None:
            await self._shares.assigned.close()
            self._shares.assigned = None
        await self._instance.leave(self)
        self._is_started = self.is_assigned = False

    def cached(self) -> dict[str, tuple[int, int]]:
        """Return a dict of topics to the number and body bytes of unfinished messages of its current queues; from any thread."""
        found: dict[str, tuple[int, int]] = {}
        assigned = self._shares.assigned
        pulled = [
            (each.queue.topic, each.process_queue.cached) for each in list(self.loops.values())
        ]
        popped = (
            []
            if assigned is None
            else [(each.queue.topic, each.cached) for each in list(assigned.loops.values())]
        )
        for topic, (count, size) in (*pulled, *popped):
            before = found.get(topic, (0, 0))
            found[topic] = before[0] + count, before[1] + size
        return found

    def pause(self) -> None:
        """Start no further pull or pop until `resume`; those already begun may still return messages."""
        self._gate.clear()

    def resume(self) -> None:
        """Pull and pop again after `pause`."""
        self._gate.set()

    def subscribe(self, subscription: Subscription) -> None:
        """Subscribe to a topic, or change the filter; a running member soon drops the topic's pulled queues and rebalances."""
        topic = subscription.topic
        self._subscriptions[topic] = replace(
            subscription, version=self._instance.clock.now_ms()
        )
        if self._is_started:
            self._tasks.spawn(self._announce(topic), f"subscribe {topic}")

    def unsubscribe(self, topic: str) -> None:
        """End the subscription to a topic; a running member begins no further pop and soon gives up its queues."""
        if self._subscriptions.pop(topic, None) is not None and self._is_started:
            self._subscriptions.pop(pop_retry_topic(topic, self.group), None)
            if self._shares.assigned is not None:
                self._shares.assigned.drop(topic)
            self._wake.set()
            self._tasks.spawn(self._instance.beat(), f"forget {topic}")

    def _want(self, topic: str) -> None:
        """Subscribe to an internal topic, such as a retry topic, unless it is subscribed."""
        if topic not in self._subscriptions:
            self.subscribe(Subscription(topic))

    def _unwant(self, topic: str) -> None:
        if self._subscriptions.pop(topic, None) is not None:
            self._tasks.spawn(self._announce(topic), f"forget {topic}")

    async def _announce(self, topic: str) -> None:
        self._drop_loops([queue for queue in self.loops if queue.topic == topic])
        await self._instance.beat()
        self._wake.set()

    # --- rebalance

    async def _rebalance_forever(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self.rebalance()
            except BaseException as error:
                if must_end_task(error):
                    raise
                # Even a bug must not end the loop, nor whatever the user's `allocation` raises.
                _log.exception(
                    "The queues of group %s could not be allocated; the next attempt follows",
                    self.group,
                )
            await beat_sleep(_REBALANCE_PAUSE_SECONDS)
            pause = self._settings.rebalance_interval_ms / 1000
            if not self._shares.is_complete:
                pause = min(pause, _INCOMPLETE_PAUSE_SECONDS)
            await beat_wait(self._wake, pause)

    async def rebalance(self) -> None:
        """Give up queues that no longer belong to this member and pull new ones, if locks and running calls permit."""
        shares = await self._shares.work_out(list(self._subscriptions))
        await self._give_up(
            [each for each in self.loops if each.topic not in self._subscriptions]
        )
        for topic, queues in shares.items():
            ours = set(queues) - self._leaving
            gone = [each for each in self.loops if each.topic == topic and each not in ours]
            await self._give_up(gone)
            for queue in await self._granted(
                [each for each in queues if each not in self.loops]
            ):
                self._take(queue)

    async def _granted(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        if self.admission is None or not queues:
            return queues
        granted = await self.admission.take(queues)
        self._shares.is_complete &= len(granted) == len(queues)
        return [queue for queue in queues if queue in granted]

    async def _settled(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        if self.admission is None or not queues:
            return queues
        at_rest = await self.admission.settle(queues)
        self._leaving = (self._leaving | set(queues)) - set(at_rest)
        self._shares.is_complete &= len(at_rest) == len(queues)
        return at_rest

    def lose(self, queues: list[MessageQueue]) -> None:
        """Drop queues whose locks a broker refused, mostly as another member has them, without committing their offsets."""
        self._drop_loops(queues)
        self._leaving.difference_update(queues)
        self._wake.set()

    async def _give_up(self, queues: list[MessageQueue]) -> None:
        queues = await self._settled(queues)
        for queue in queues:
            _log.info("Group %s: %s is revoked from this member", self.group, queue)
        await self._store(queues, is_answered=True)
        self._drop_loops(queues)
        if self.admission is not None:
            await self.admission.give_back(queues)

    def _drop_loops(self, queues: Iterable[MessageQueue]) -> None:
        for queue in queues:
            loop = self.loops.pop(queue, None)
            if loop is None:
                continue  # Dropped by another task while its offset was committed.
            loop.is_dropped = True
            self._pulling.pop(queue).cancel()
            self.progress.forget(queue)
            if self._revoked is not None:
                self._revoked(loop)

    def _take(self, queue: MessageQueue) -> None:
        _log.info("Group %s: %s is assigned to this member", self.group, queue)
        loop = PullLoop(queue, self._subscription_of(queue.topic), self._reading)
        self.loops[queue] = loop
        self._pulling[queue] = self._tasks.spawn(loop.run(), f"pull {queue}")

    def _subscription_of(self, topic: str) -> Subscription:
        return self._subscriptions.get(topic) or Subscription(topic)

    # --- committed offsets

    async def _count_forever(self) -> None:
        while True:
            await beat_sleep(SAMPLE_SECONDS)
            self.counts.sample()

    async def _store(
        self, queues: list[MessageQueue] | None = None, *, is_answered: bool = False
    ) -> None:
        if not self._settings.auto_commit:
            return
        try:
            await self.progress.store(queues, is_answered=is_answered)
        except (CometError, OSError) as error:
            self._instance.outages.failed(_STORING, self.group, error, self.group)
        else:
            self._instance.outages.worked(_STORING, self.group)

    # --- called by the instance

    def heartbeat_part(self) -> ConsumerPart:
        """Return the part of a heartbeat that announces this member to brokers."""
        return ConsumerPart(
            self.group,
            tuple(self._subscriptions.values()),
            consume_type=CONSUME_PASSIVELY if self._is_push else CONSUME_ACTIVELY,
            model=BROADCASTING if self._settings.broadcasting else CLUSTERING,
            from_where=self._settings.consume_from,
        )

    def topics(self) -> list[str]:
        """Return the topics whose routes must be refreshed."""
        return list(self._subscriptions)

    def take_request(self, command: Command, channel: Channel) -> bool:
        """Handle a request of a broker, now or later; return False if this member handles no such request.

        An offset reset that cannot be decoded, or comes while too many are in progress, is only logged.
        """
        match command.code:
            case RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
                self._wake.set()
            case RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
                self._reset_soon(command.body)
            case _:
                return self.callbacks.take(command, channel)
        return True

    def _reset_soon(self, body: bytes) -> None:
        if self._resets.has_room(len(body)):
            self._resets.spawn(self._reset(body), "reset", len(body))
        else:
            _log.warning(
                "An offset reset of group %s is ignored, because too many are in progress; repeat it",
                self.group,
            )

    async def _reset(self, body: bytes) -> None:
        try:
            offsets = await read_body(
                decode_queue_offsets, body, f"the offset reset of group {self.group}"
            )
        except CometError as error:
            _log.warning("An offset reset of group %s cannot be decoded: %s", self.group, error)
            return
        for queue, offset in offsets.items():
            loop = self.loops.get(queue)
            if loop is not None and offset >= 0:
                _log.info("The offset of %s is reset to %s", queue, offset)
                loop.seek(offset)
        await self._store()


def _store_for(instance: ClientInstance, settings: ConsumerSettings, group: str) -> OffsetStore:
    if settings.broadcasting:
        return LocalOffsets(settings.offsets_path(instance.ip, group))
    return ClusterOffsets(OffsetApi(instance), group)


def _open_gate() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate
