"""Pops, notifications (is there anything to pop?), and the number of waiting pops.

Most checks and codes follow PopMessageProcessor and NotificationProcessor of RocketMQ 5.3.3. A pop that finds nothing
waits for messages as long as it asks for, but at most 120 s, unless too many wait or the broker stops.
"""

from functools import partial
from typing import NamedTuple

from cometmq.broker.loop.caller import Caller
from cometmq.broker.parts import Parts
from cometmq.broker.pop.check_points import OPEN_MAX, CheckPointTable
from cometmq.broker.pop.invisible_time import check_invisible_time
from cometmq.broker.pop.orders import Orders
from cometmq.broker.pop.reading import Pop, PoppedMessages, PopReader
from cometmq.broker.pop.waiting import HeldPop, PopLongPolls
from cometmq.broker.pull.filters import Filters, is_plain
from cometmq.codec.headers.pop import NotificationRequest, PollingInfoRequest, PopRequest
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError, invalid_parameter
from cometmq.model.flags import is_readable
from cometmq.model.names import (
    check_group_of_clients,
    check_length,
    is_retry_topic,
    pop_retry_topic,
)
from cometmq.model.topic import TopicConfig
from cometmq.steps.steps import Steps
from cometmq.store.reader import GetStatus

COUNT_MAX = 32  # A check point has 32 bits.
POLL_SECONDS_MAX = 120
_SIZE_A_TAG = 80  # Bytes per tag hash of a waiting pop.
_LATE_MS = 500  # Tolerance for a pop whose time was over before it arrived (isTimeoutTooMuch).


class PopResult(NamedTuple):
    """The answer to a pop.

    Attributes:
        code: Response code; SUCCESS if there are messages.
        remark: FOUND or NO_MESSAGE_IN_QUEUE.
        pop_time_ms: Pop time in the messages' handles, epoch ms.
        invisible_ms: How long the messages are hidden.
        revive_queue: Revive queue with their check points, or ORDER_QUEUE.
        left: Number of further messages, as far as the pop looked.
        starts: Topic kind, queue id and start offset of each queue with messages.
        offsets: Topic kind, queue id and the messages' queue offsets of each queue with messages.
        order_counts: For pops in order, (topic kind, place, number of earlier deliveries) of each message that was
            delivered before, with the place "qo<queue id>%<queue offset>", and of each queue, with the place
            "<queue id>" and the lowest number of its messages (0 if one is new); None if not in order or without messages.
        records: The messages as they are encoded in the log; retried ones usually with the requested topic.
    """

    code: int
    remark: str
    pop_time_ms: int
    invisible_ms: int
    revive_queue: int
    left: int
    starts: list[tuple[str, int, int]]
    offsets: list[tuple[str, int, list[int]]]
    order_counts: list[tuple[str, str, int]] | None
    records: list[bytes | memoryview]


class NoticeResult(NamedTuple):
    """The answer to a notification request: whether it found a message, or cannot wait because too many do (`is_full`)."""

    has_message: bool
    is_full: bool = False


# None: the pop waits, and its caller is answered later.
PopOutcome = Steps[PopResult | None]


class Popping:
    """The service for pops, which hide messages for a time, and for notifications that some can be popped."""

    def __init__(
        self,
        parts: Parts,
        *,
        reader: PopReader,
        waiting: PopLongPolls,
        check_points: CheckPointTable,
        orders: Orders,
    ) -> None:
        self._parts = parts
        self._filters = Filters(parts.settings, parts.members)
        self._reader = reader
        self._waiting = waiting
        self._check_points = check_points
        self._orders = orders

    def pop(self, request: PopRequest, caller: Caller[PopResult]) -> PopOutcome:
        """Return messages, or the reason why there are none; None if the pop waits and is answered later.

        Raises:
            RequestError, ConnectionLost: The pop is refused, or its client disconnected meanwhile.
            StoreError: The first check point cannot be recorded, so no message is returned.
        """
        self._check_time(request.born_time, request.poll_time)
        if not 0 < request.max_msg_nums <= COUNT_MAX:
            raise invalid_parameter(
                f"a pop returns 1 to {COUNT_MAX} messages, not {request.max_msg_nums} (maxMsgNums)"
            )
        check_invisible_time(request.invisible_time, 1, self._parts.settings)
        topic = self.topic_of(request.topic, request.queue_id)
        self.check_group(request.consumer_group)
        if not request.order and not is_retry_topic(request.topic):
            # Unacknowledged messages go to the retry topic; if its name is too long, they would be lost.
            check_length(
                pop_retry_topic(request.topic, request.consumer_group),
                code=ResponseCode.INVALID_PARAMETER,
            )
        if is_plain(request.exp, request.exp_type):
            return self._begin(request, caller, topic)
        caller.hold()
        begin = partial(self._begin, request, caller, topic)
        return self._parts.turns.run(caller.owner, begin, len(request.exp or ""))

    def _begin(
        self, request: PopRequest, caller: Caller[PopResult], topic: TopicConfig
    ) -> PopOutcome:
        subscription = self._filters.subscription(request.topic, request.exp, request.exp_type)
        wanted = self._filters.filter_of(subscription, request.consumer_group, is_asked=True)
        pop = Pop(request, wanted, topic, caller)
        if len(self._check_points) >= OPEN_MAX:
            self._parts.counters.refused("open_pops")
            raise RequestError(
                ResponseCode.POLLING_FULL,
                f"{OPEN_MAX} pops are not acknowledged yet; acknowledge some of them first",
            )
        taken = yield from self._reader.collect(pop)
        if taken.count:
            return self._found(pop, taken)
        result = self._hold(pop, taken)
        if taken.is_cold:
            # Messages that arrived during the read have woken no pop.
            self._waiting.wake((request.topic, request.consumer_group))
        return result

    def notification(
        self, request: NotificationRequest, caller: Caller[NoticeResult]
    ) -> NoticeResult | None:
        """Return whether there are messages to pop, ignoring filters; None if the request waits and is answered later.

        Raises:
            RequestError: The topic or this queue of it cannot be popped, or not by this group.
        """

        def attempt() -> NoticeResult | None:
            topic = self.topic_of(request.topic, request.queue_id)
            self.check_group(request.consumer_group)
            return NoticeResult(has_message=True) if self._has_any(request, topic) else None

        found = attempt()
        if found is not None or request.poll_time <= 0:
            return found or NoticeResult(has_message=False)
        key = (request.topic, request.consumer_group)
        caller.hold()
        waiter = HeldPop(
            key, request.queue_id, caller, self._deadline(request.poll_time),
            attempt, lambda: NoticeResult(has_message=False), request.order,
        )  # fmt: skip
        if self._waiting.is_full(key) or not self._waiting.hold(waiter):
            self._parts.counters.refused("held_pops")
            return NoticeResult(has_message=False, is_full=True)
        return None

    def polling(self, request: PollingInfoRequest) -> int:
        """Return how many of a group's pops and notification requests wait for just this queue; -1: for any queue.

        Raises RequestError if the topic cannot be popped or has no such queue.
        """
        self.topic_of(request.topic, request.queue_id)
        return self._waiting.count((request.topic, request.consumer_group), request.queue_id)

    # --- checks

    def _check_time(self, born_ms: int, poll_ms: int) -> None:
        late_ms = self._parts.clock.now_ms() - born_ms - poll_ms
        if born_ms and late_ms > _LATE_MS:  # 0 stands for now.
            raise RequestError(
                ResponseCode.POLLING_TIMEOUT,
                f"the pop arrived {late_ms} ms after its polling time had ended",
            )

    def topic_of(self, name: str, queue_id: int) -> TopicConfig:
        """Return the configuration of a topic; raises RequestError if it may not be popped or has no such queue."""
        if not is_readable(self._parts.settings.perm):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._parts.address}] pop message is forbidden",
            )
        topic = self._parts.topics.existing(name)
        if not is_readable(topic.perm):
            raise RequestError(
                ResponseCode.NO_PERMISSION, f"the topic[{name}] peeking message is forbidden"
            )
        if queue_id >= topic.read_queues:
            raise invalid_parameter(
                f"queueId[{queue_id}] is illegal, topic:[{name}] "
                f"topicConfig.readQueueNums:[{topic.read_queues}]"
            )
        return topic

    def check_group(self, name: str) -> None:
        """Raise RequestError unless the group may consume; a missing group is created if the settings allow it."""
        check_group_of_clients(name)
        self._parts.groups.consuming(name, {})

    def _has_any(self, request: NotificationRequest, topic: TopicConfig) -> bool:
        group = request.consumer_group
        queues = [request.queue_id] if request.queue_id >= 0 else range(topic.read_queues)
        for queue_id in queues:
            place = (group, topic.name, queue_id)
            if request.order and self._orders.is_closed(place, request.attempt_id):
                continue
            if self._reader.has_messages(topic.name, group, queue_id):
                return True
        return any(
            self._reader.has_messages(retry.name, group, queue_id)
            for retry in self._reader.retry_topics(topic.name, group)
            for queue_id in range(retry.read_queues)
        )

    # --- answering, or waiting

    def _hold(self, pop: Pop, taken: PoppedMessages) -> PopResult | None:
        """Let a pop that found nothing wait; return its answer if it cannot wait."""
        request, caller = pop.request, pop.caller
        if request.poll_time <= 0:
            return self._nothing(pop, taken, ResponseCode.POLLING_TIMEOUT)
        key = (request.topic, request.consumer_group)
        caller.hold()
        waiter = HeldPop(
            key, request.queue_id, caller, self._deadline(request.poll_time),
            lambda: self._again(pop, waiter),
            lambda: self._nothing(pop, taken, ResponseCode.POLLING_TIMEOUT),
            request.order,
            len(request.exp or "") + _SIZE_A_TAG * len(pop.wanted.codes or ()),
        )  # fmt: skip
        if self._waiting.is_full(key) or not self._waiting.hold(waiter):
            self._parts.counters.refused("held_pops")
            return self._nothing(pop, taken, ResponseCode.POLLING_FULL)
        if taken.left:
            self._waiting.wake(key)
        return None

    def _again(self, pop: Pop, waiter: HeldPop) -> PopOutcome:
        if pop.wanted.passes is None:
            return self._try(pop, waiter)
        return self._parts.turns.run(waiter.caller.owner, partial(self._try, pop, waiter), 0)

    def _try(self, pop: Pop, waiter: HeldPop) -> PopOutcome:
        topic = self.topic_of(pop.request.topic, pop.request.queue_id)
        self.check_group(pop.request.consumer_group)
        pop = pop._replace(topic=topic)
        taken = yield from self._reader.collect(pop)
        if taken.count:
            return self._found(pop, taken)
        waiter.is_unfinished = taken.is_unfinished
        return None

    def _found(self, pop: Pop, taken: PoppedMessages) -> PopResult:
        request = pop.request
        self._parts.counters.found += 1
        if taken.left:
            self._waiting.wake((request.topic, request.consumer_group))
        return PopResult(
            ResponseCode.SUCCESS, GetStatus.FOUND,
            taken.pop_time_ms, request.invisible_time, taken.revive_queue, taken.left,
            taken.starts, taken.offsets, taken.order_counts if request.order else None,
            taken.pieces,
        )  # fmt: skip

    def _nothing(self, pop: Pop, taken: PoppedMessages, code: ResponseCode) -> PopResult:
        return PopResult(
            code, GetStatus.NO_MESSAGE_IN_QUEUE,
            taken.pop_time_ms, pop.request.invisible_time, taken.revive_queue, taken.left,
            [], [], None, [],
        )  # fmt: skip

    def _deadline(self, poll_ms: int) -> float:
        return self._parts.clock.monotonic() + min(poll_ms / 1000, POLL_SECONDS_MAX)
