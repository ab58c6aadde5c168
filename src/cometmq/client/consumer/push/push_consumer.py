"""The asyncio push consumer: calls your function with the messages of its queues; the usual way to consume.

    async def handle(message: StoredMessage) -> None: ...

    async with AsyncPushConsumer(
        "127.0.0.1:9876", group="billing", listener=handle, subscriptions={"orders": Tag("paid", "sent")}
    ) as consumer:
        await consumer.wait()

The members of a group usually share the queues of its topics. If the listener raises or returns False, a message is
usually redelivered. It may come twice, as after a crash: be idempotent. `cometmq.PushConsumer` is for threads.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.counts import TopicCounts
from cometmq.client.consumer.filters import ALL, Filter, Subscriptions, each_of, subscription_of
from cometmq.client.consumer.group_member import GroupMember
from cometmq.client.consumer.listeners import (
    BatchListener,
    Listener,
    ListenerVerdict,
    listener_call,
)
from cometmq.client.consumer.order.orderly import Orderly
from cometmq.client.consumer.pop.pop_loop import PopLoop
from cometmq.client.consumer.pull.pull_loop import Batch, PullLoop
from cometmq.client.consumer.push.concurrent import (
    AnyJob,
    ConsumeTimeout,
    ListenerJob,
    PopJob,
    TaskWorkers,
    ThreadWorkers,
    make_workers,
)
from cometmq.client.consumer.send_back import SendBack
from cometmq.client.consumer.settings import PushConsumerSettings
from cometmq.client.lifecycle import AsyncGroupClient, ClientState
from cometmq.client.periodic import repeat
from cometmq.client.stop_signals import stop_signals
from cometmq.client.tracing.interceptors import Interceptor, intercepted_call, make_interceptors
from cometmq.codec.bodies.running import ConsumeRates, DirectOutcome, DirectResult
from cometmq.codec.record import Record
from cometmq.model.delay_levels import DEAD_LETTER, FIRST_RETRY_LEVEL
from cometmq.model.errors import CometError, ListenerError, SettingsError, SubscriptionError
from cometmq.model.message import StoredMessage, message_name
from cometmq.model.text import as_given
from cometmq.net.tasks import Tasks

Value = TypeVar("Value")

_log = logging.getLogger(__name__)

# Delay before the local retry of a message that no broker took back (submitConsumeRequestLater of 5.3.3), seconds.
_LOCAL_RETRY_SECONDS = 5.0
_BURYING = "sending an unreadable message to the dead letters from"


class AsyncPushConsumer(AsyncGroupClient):
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
        instance: Connections of another client to share instead of `nameservers`; their owner closes them.

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
        instance: ClientInstance | None = None,
    ) -> None:
        self._settings = settings or PushConsumerSettings()
        self._call = listener_call(listener, batch_listener, self._settings.batch_count)
        super().__init__(nameservers, self._settings, instance, group)
        self._member = GroupMember(
            self._instance,
            self._group,
            self._settings,
            is_push=True,
            deliver=self._deliver,
            discard=self._discard,
        )
        self._member.callbacks.consume = self._consume_directly
        self._subscribed: dict[str, Filter] = {}
        for topic, expression in each_of(subscriptions):
            self.subscribe(topic, expression)
        self._consume_timeout = ConsumeTimeout(
            self._settings.consume_timeout_ms, self._instance.clock, self._give_back_overdue
        )
        self._workers: Orderly | TaskWorkers | ThreadWorkers | None = None
        self._back: SendBack | None = None
        self._tasks = Tasks(f"{self._group} listener")
        self._ended = (
            asyncio.Event()
        )  # Set by `close`, or when the listener breaks its contract.
        self._fault: ListenerError | None = None

    def __repr__(self) -> str:
        return f"<{self.class_name} {self._group} of {self._subscribed} at {self._instance!r}>"

    def subscribe(self, topic: str, expression: Filter = ALL) -> None:
        """Subscribe to a topic, or change the filter of a subscribed topic; a running consumer follows soon.

        Raises SubscriptionError if the filter (`expression`) is neither a `Tag` nor an `Sql`.
        """
        self._member.subscribe(subscription_of(self._namespace.wrap(topic), expression))
        self._subscribed[topic] = expression

    def unsubscribe(self, topic: str) -> None:
        """End the subscription to a topic and soon give up its queues.

        This consumer remains in the group, so other members usually do not take over its queues until it closes. Pulled
        messages whose listener call has not started by then are dropped; popped ones, also of a pop in progress, are
        usually passed to the listener. Raises SubscriptionError if the topic is not subscribed.
        """
        if topic not in self._subscribed:
            raise SubscriptionError(f"{self._named} is not subscribed to {as_given(topic, 80)}")
        del self._subscribed[topic]
        self._member.unsubscribe(self._namespace.wrap(topic))

    # --- life cycle

    async def _open(self) -> None:
        if not self._subscribed:
            raise SubscriptionError(f"{self._named} has no topic; call subscribe(topic) first")
        settings = self._settings
        self._ended.clear()
        self._fault = None
        self._at_close(self._ended.set)
        self._at_close(self._member.leave)
        interceptors = make_interceptors(self._instance, self._group, settings)
        for interceptor in interceptors:
            self._at_close(interceptor.close)
        if settings.telemetry:
            from cometmq.client.tracing.telemetry import CacheGauge

            self._at_close(CacheGauge(self._instance, self._group, self._cached).close)
        self._at_close(self._tasks.close)
        self._back = SendBack(self._instance, self._group, settings.retries_max)
        workers = self._workers = self._make_workers(interceptors)
        self._at_close(lambda: workers.close(settings.close_timeout_ms))
        self._at_close(self._member.stop_pulling)
        if not (settings.client_rebalance or settings.orderly or settings.broadcasting):
            self._member.share_by_broker(settings, self._back, self._deliver_popped)
        await self._member.start()

    def _cached(self) -> dict[str, tuple[int, int]]:
        return self._short(self._member.cached())

    def _short(self, by_topic: Mapping[str, Value]) -> dict[str, Value]:
        return {self._namespace.unwrap(topic): each for topic, each in by_topic.items()}

    def _make_workers(
        self, interceptors: list[Interceptor]
    ) -> Orderly | TaskWorkers | ThreadWorkers:
        settings = self._settings
        call = intercepted_call(self._call, interceptors)
        if settings.orderly:
            orderly = self._member.admission = Orderly(
                call,
                self._instance,
                self._group,
                settings,
                give_back=self._give_up,
                halt=self._halt,
                lost=self._member.lose,
            )
            return orderly
        if not settings.broadcasting:
            overdue = self._consume_timeout
            looks = repeat(
                overdue.look, every_ms=overdue.look_every_ms, is_awaited=overdue.is_any
            )
            self._tasks.spawn(looks, "overdue")
        return make_workers(
            call,
            concurrency=settings.concurrency,
            done=self._done,
            clock=self._instance.clock,
            begin=self._begin,
        )

    async def wait(self) -> None:
        """Wait until this consumer is closed, its listener fails for good (ListenerError), or SIGTERM or SIGINT arrives.

        Signals (SIGINT is Ctrl-C) are only handled in the main thread of a program that does not handle them itself.
        Leave the `with` block afterwards: it closes the consumer. A second signal has its usual effect.

        Raises:
            ListenerError: The listener returned an invalid result or was closed; no further call starts.
            ClientClosed: The consumer was not started.
        """
        if self._state is ClientState.MADE:
            self._check_running()
        with stop_signals(self._ended.set, asyncio.get_running_loop()):
            await self._ended.wait()
        if self._fault is not None:
            raise self._fault

    # --- control

    def pause(self) -> None:
        """Start no further pull or pop until `resume`; messages of earlier ones are still passed to the listener."""
        self._member.pause()

    def resume(self) -> None:
        """Start pulling and popping again after `pause`."""
        self._member.resume()

    def set_concurrency(self, concurrency: int) -> None:
        """Set the maximum number of concurrent listener calls; calls in progress are not interrupted.

        Raises ClientClosed if the consumer is not running, and SettingsError if the number is out of range or the
        listener is orderly.
        """
        self._check_running()
        if not isinstance(self._workers, TaskWorkers | ThreadWorkers):
            raise SettingsError(
                f"concurrency {concurrency}: an orderly listener handles one message per queue at a time; leave "
                "out concurrency"
            )
        replace(self._settings, concurrency=concurrency)  # Checks the value.
        self._workers.resize(concurrency)

    # --- statistics

    def statistics(self) -> dict[str, TopicCounts]:
        """Return a dict of topics to the numbers of messages that this consumer has pulled, consumed and failed on."""
        return self._short(self._member.counts.totals())

    def rates(self) -> dict[str, ConsumeRates]:
        """Return a dict of topics to messages per second and mean times over about a minute, and failures in about an hour."""
        return self._short(self._member.counts.rates())

    async def _consume_directly(self, message: StoredMessage) -> DirectOutcome:
        """Run the listener on one message for a console, without committing; return the outcome, with any error as text.

        Follows ConsumeMessageConcurrentlyService.consumeMessageDirectly of RocketMQ 5.3.3.
        """
        call, now = self._call, self._instance.clock.monotonic
        began = now()
        if call.is_async:
            verdict = await call.run_on_loop([message])
        else:
            verdict = await asyncio.to_thread(call.run, [message])
        result = DirectResult.SUCCESS if verdict.is_consumed else DirectResult.LATER
        remark = None
        if error := verdict.error or verdict.fault:
            result = DirectResult.EXCEPTION
            remark = f"{type(error).__name__}: {error}"
        return DirectOutcome(result, round((now() - began) * 1000), remark)

    # --- messages

    @property
    def _may_call(self) -> bool:
        """Whether listener calls may start: the consumer is open, and no call since its start returned an invalid result."""
        return self._is_open and self._fault is None

    def _deliver(self, loop: PullLoop, messages: Batch) -> None:
        if self._workers is None or not self._may_call:
            return
        step = self._call.batch_count
        for start in range(0, len(messages), step):
            self._workers.submit(
                ListenerJob(loop, loop.process_queue, messages[start : start + step])
            )

    def _deliver_popped(self, loop: PopLoop, messages: Batch) -> None:
        if not (self._may_call and isinstance(self._workers, TaskWorkers | ThreadWorkers)):
            return
        step = self._call.batch_count
        for start in range(0, len(messages), step):
            self._workers.submit(PopJob(loop, messages[start : start + step]))

    def _begin(self, job: AnyJob) -> None:
        if isinstance(job, ListenerJob):  # Popped messages are redelivered by their broker.
            self._consume_timeout.begin(job)

    def _done(self, job: AnyJob, verdict: ListenerVerdict, seconds: float) -> None:
        is_consumed = verdict.is_consumed
        job.loop.counts.called(seconds, len(job.messages), is_consumed=is_consumed)
        if (
            verdict.fault is not None
        ):  # The messages stay unconsumed, so they are redelivered after a restart.
            self._halt(verdict.fault)
        if isinstance(job, PopJob):
            job.loop.settle(job.messages, verdict)
            return
        messages = self._consume_timeout.end(job)
        if not messages or verdict.fault is not None:
            return
        if is_consumed or self._settings.broadcasting:
            if not is_consumed:
                # Follows RocketMQ: no other member could get the message.
                _log.warning(
                    "%s was not consumed; a broadcasting consumer does not retry",
                    message_name(messages[0]),
                )
            job.loop.finish(job.process_queue, [each.queue_offset for each in messages])
            return
        if not job.loop.is_dropped:
            for message in messages:
                level = verdict.delay_level(message)
                self._tasks.spawn(self._give_back(job, message, level), "send back")

    def _halt(self, fault: ListenerError) -> None:
        if self._fault is None:
            self._fault = fault
            self._member.pause()
            self._ended.set()
        if self._workers is not None:
            self._workers.forget()

    async def _give_up(self, message: StoredMessage, verdict: ListenerVerdict) -> bool:
        """Send a message of an ordered queue to the retry topic or the dead letters; return whether a broker accepted it."""
        assert self._back is not None, "made at start"
        if verdict.dead(message):
            return await self._back.give_back(message, DEAD_LETTER)
        return await self._back.send_anew(message)

    async def _give_back(self, job: ListenerJob, message: StoredMessage, level: int) -> None:
        assert self._back is not None, "made at start"
        if await self._back.give_back(message, level):
            job.loop.finish(job.process_queue, [message.queue_offset])
            return
        await asyncio.sleep(_LOCAL_RETRY_SECONDS)
        if self._workers is not None and self._may_call:
            again = replace(message, reconsume_times=message.reconsume_times + 1)
            self._workers.submit(job._replace(messages=[again]))

    async def _give_back_overdue(self, message: StoredMessage) -> bool:
        assert self._back is not None, "made at start"
        if getattr(
            self._call.listener, "is_broken", False
        ):  # InProcesses without processes: the message waits.
            return False
        return await self._back.give_back(message, FIRST_RETRY_LEVEL)

    def _discard(self, loop: PullLoop, record: Record) -> None:
        self._tasks.spawn(self._bury(loop, record), "dead letter")

    async def _bury(self, loop: PullLoop, record: Record) -> None:
        """Make an unreadable record a dead letter, with retries until the queue is revoked; skip it if broadcasting."""
        assert self._back is not None, "made at start"
        process_queue = loop.process_queue
        while not (loop.is_dropped or self._settings.broadcasting):
            try:
                await self._back.tell(
                    loop.queue.broker_name, record.physical_offset, DEAD_LETTER
                )
                self._instance.outages.worked(_BURYING, loop.queue)
                break
            except CometError as error:
                self._instance.outages.failed(_BURYING, str(loop.queue), error, loop.queue)
                await asyncio.sleep(_LOCAL_RETRY_SECONDS)
        loop.finish(process_queue, [record.queue_offset])
