"""Pops one queue, or any queue of a broker, while brokers assign it to this member.

Consumed messages are acknowledged up to 500 at a time. Refused ones are usually hidden for longer each time and at last
become dead letters. Follows popMessage of DefaultMQPushConsumerImpl and ConsumeMessagePopConcurrentlyService of 5.3.3.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from cometmq.client.consumer.counts import Counts
from cometmq.client.consumer.listeners import ListenerVerdict
from cometmq.client.consumer.pop.pops import Popper
from cometmq.client.consumer.send_back import RETRIES_DEFAULT, SendBack
from cometmq.client.consumer.settings import ConsumeFrom, PushConsumerSettings
from cometmq.client.outages import Outages
from cometmq.codec.headers.pop import FROM_MAX, FROM_MIN
from cometmq.model.clock import Clock
from cometmq.model.delay_levels import DEAD_LETTER
from cometmq.model.errors import BrokerNotFound, CometError, NetError
from cometmq.model.message import StoredMessage, message_name
from cometmq.model.properties import POP_CK
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import Subscription
from cometmq.net.tasks import Tasks

_log = logging.getLogger(__name__)

_POPPING = "popping from"
_FAILURE_PAUSE = 1.0  # pullTimeDelayMillsWhenException of 5.3.3, seconds.
_ROOM_SECONDS = 1.0  # Expired messages also free room, but no event reports them.
_ACKS_MAX = 500  # Maximum number of acknowledgements per request.
_AT_ONCE_MS = 1
# A broker that has messages answers immediately. After this time since the request, `stop` assumes that no messages will come.
_ANSWER_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class PopContext:
    """Dependencies that all pop loops of a member share.

    Attributes:
        back: Sends messages to the dead letters.
        gate: Set while the member may pop.
        tasks: Runs acknowledgements and retries.
        deliver: Called with a loop and the messages that it popped.
        subscription_of: Returns the current subscription to a topic, or None without one; then its loops are dropped.
    """

    popper: Popper
    back: SendBack
    settings: PushConsumerSettings
    gate: asyncio.Event
    counts: Counts
    clock: Clock
    outages: Outages
    tasks: Tasks
    deliver: "Callable[[PopLoop, list[StoredMessage]], None]"
    subscription_of: Callable[[str], Subscription | None]


class PopLoop:
    """Pops one queue repeatedly and delivers the messages to the consumer, until `is_dropped` is set.

    Attributes:
        queue: The queue; id -1 means any queue of its broker.
        is_dropped: Whether popping ends or has ended; popped messages still belong to this member until they are
            settled or their invisible time ends.
        popped_ms: Time of the last pop request, at first of the creation, ms since 1970.
    """

    def __init__(self, queue: MessageQueue, popping: PopContext) -> None:
        self.queue = queue
        self.is_dropped = False
        self.counts = popping.counts.of(queue.topic)
        self.popped_ms = popping.clock.now_ms()
        self._popping = popping
        # By receipt handle: the end of the invisible time (monotonic seconds) and the message.
        self._open: dict[str, tuple[float, StoredMessage]] = {}
        self._has_room = asyncio.Event()
        self._finished: list[StoredMessage] = []
        self._is_acknowledging = False
        self._settling: set[asyncio.Task[None]] = set()
        self._is_running = True
        self._asked_at = 0.0  # Time of the current pop request, monotonic seconds.
        self._is_answered = asyncio.Event()
        self._is_answered.set()

    @property
    def waiting_count(self) -> int:
        """The number of popped messages that are not settled, including expired ones that are not forgotten yet."""
        return len(self._open)

    @property
    def cached(self) -> tuple[int, int]:
        """The number of popped messages that are not settled, and the bytes of their bodies; from any thread."""
        waiting = list(self._open.values())
        return len(waiting), sum(len(message.body) for _, message in waiting)

    @property
    def is_at_rest(self) -> bool:
        """Whether `run` has ended and no popped message is left unsettled, except expired ones."""
        now = self._popping.clock.monotonic()
        return not self._is_running and all(until <= now for until, _ in self._open.values())

    async def run(self) -> None:
        """Pop the queue until `is_dropped` is set or the task is cancelled; failed pops are repeated after a pause."""
        try:
            await self._pop_on()
        finally:
            self._is_running = False
            self._popping.outages.forget(_POPPING, self.queue)

    async def _pop_on(self) -> None:
        while not self.is_dropped:
            try:
                await self._wait_room()
                await self._popping.gate.wait()
                if not self.is_dropped:  # It may have been dropped during a wait.
                    await self._pop_once()
            except Exception as error:  # noqa: BLE001  Even a bug must not end the loop.
                is_own = not isinstance(error, NetError | BrokerNotFound)
                place = str(self.queue) if is_own else self.queue.broker_name
                self._popping.outages.failed(_POPPING, place, error, self.queue)
                await self._popping.popper.pause(self.queue.broker_name, _FAILURE_PAUSE, error)

    async def _pop_once(self) -> None:
        popping, settings = self._popping, self._popping.settings
        is_last = settings.consume_from is ConsumeFrom.LAST
        wanted = popping.subscription_of(self.queue.topic)
        assert wanted is not None, "the end of a subscription drops its loops"
        began = self._asked_at = popping.clock.monotonic()
        self.popped_ms = popping.clock.now_ms()
        self._is_answered.clear()
        try:
            messages = await popping.popper.pop(
                self.queue.broker_name,
                wanted,
                max_count=settings.pop_count,
                invisible_ms=settings.pop_invisible_ms,
                wait_ms=settings.suspend_ms,
                init_mode=FROM_MAX if is_last else FROM_MIN,
                queue_id=self.queue.queue_id,
            )
        finally:
            self._is_answered.set()
        popping.outages.worked(_POPPING, self.queue)
        if not messages:
            return
        now = popping.clock.monotonic()
        self.counts.pulls += 1
        self.counts.pull_ms += (now - began) * 1000
        self.counts.pulled += len(messages)
        until = now + settings.pop_invisible_ms / 1000
        for message in messages:
            self._open[message.properties[POP_CK]] = until, message
        popping.deliver(self, messages)

    async def _wait_room(self) -> None:
        while len(self._open) >= self._popping.settings.pop_queue_count_max:
            now = self._popping.clock.monotonic()
            for handle in [key for key, (until, _) in self._open.items() if until <= now]:
                del self._open[handle]
            self._has_room.clear()
            try:
                async with asyncio.timeout(_ROOM_SECONDS):
                    await self._has_room.wait()
            except TimeoutError:
                continue

    def is_over(self, messages: Sequence[StoredMessage]) -> bool:
        """Return whether any of the messages has expired or is settled, so that no listener may get them; from any thread."""
        now = self._popping.clock.monotonic()
        return any(
            self._open.get(message.properties[POP_CK], (0.0, None))[0] <= now
            for message in messages
        )

    # --- acknowledgement and retry

    def settle(self, messages: Sequence[StoredMessage], verdict: ListenerVerdict) -> None:
        """Start to acknowledge the messages of a listener call, to hide them for a retry, or to make them dead letters.

        If the listener returned an invalid result, do nothing; brokers redeliver the messages later.
        """
        if verdict.fault is not None:
            return  # They are redelivered after their invisible time.
        if verdict.is_consumed:
            self._finished += messages
            if not self._is_acknowledging:
                self._is_acknowledging = True
                self._spawn(self._acknowledge(), "acknowledge")
        else:
            for message in messages:
                self._spawn(self._refuse(message, verdict), "pop later")

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self._popping.tasks.spawn(work, name)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _acknowledge(self) -> None:
        while self._finished:
            messages = self._finished[:_ACKS_MAX]
            del self._finished[:_ACKS_MAX]
            outages = self._popping.outages
            try:
                await self._popping.popper.ack(messages)
            except CometError as error:
                outages.failed("acknowledging at", self.queue.broker_name, error, self.queue)
            else:
                outages.worked("acknowledging at", self.queue)
            self._release(messages)
        self._is_acknowledging = False

    async def _refuse(self, message: StoredMessage, verdict: ListenerVerdict) -> None:
        settings = self._popping.settings
        retries_max = RETRIES_DEFAULT if settings.retries_max < 0 else settings.retries_max
        try:
            if verdict.dead(message) or message.reconsume_times >= retries_max:
                await self._popping.back.tell(
                    self.queue.broker_name, message.commitlog_offset, DEAD_LETTER, message
                )
                await self._popping.popper.ack([message])
            else:
                delays = settings.pop_delays_ms
                delay_ms = verdict.delay_ms
                if delay_ms is None:
                    delay_ms = delays[min(message.reconsume_times, len(delays) - 1)]
                await self._popping.popper.change_invisibility(message, delay_ms)
        except CometError as error:
            _log.warning(
                "%s is redelivered when its invisible time is over: %s",
                message_name(message),
                error,
            )
        self._release([message])

    def _release(self, messages: Sequence[StoredMessage]) -> None:
        for message in messages:
            self._open.pop(message.properties[POP_CK], None)
        self._has_room.set()

    async def stop(self) -> None:
        """Set `is_dropped`, and wait at most 0.5 s for an answer in transit, so that `close` can return its messages."""
        self.is_dropped = True
        left = self._asked_at + _ANSWER_SECONDS - self._popping.clock.monotonic()
        try:
            async with asyncio.timeout(max(0.0, left)):
                await self._is_answered.wait()
        except TimeoutError:
            return  # The broker has no messages and holds the request.

    async def close(self) -> None:
        """Wait for acknowledgements and retries in progress, and ask the broker to redeliver the other messages in 1 ms."""
        if self._settling:
            await asyncio.wait(self._settling)
        left = [message for _, message in self._open.values()]
        given = [
            self._popping.popper.change_invisibility(message, _AT_ONCE_MS) for message in left
        ]
        for message, said in zip(
            left, await asyncio.gather(*given, return_exceptions=True), strict=True
        ):
            if isinstance(said, BaseException):
                _log.info(
                    "%s is redelivered when its invisible time is over: %s",
                    message_name(message),
                    said,
                )
        self._open.clear()
