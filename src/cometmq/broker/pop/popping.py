"""POP_MESSAGE 200050, NOTIFICATION 200054 and POLLING_INFO 200055.

Checks and their codes are in the order of PopMessageProcessor and NotificationProcessor of RocketMQ
5.3.3. A pop that finds nothing waits as long as it says.

Next: cometmq.broker.pop.reading
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from cometmq.broker.filters import Filters, is_plain
from cometmq.broker.machines.awaiting import finish
from cometmq.broker.machines.steps import Steps, Wait
from cometmq.broker.parts import Parts
from cometmq.broker.pop.hand_outs import OPEN_MAX, HandOuts
from cometmq.broker.pop.invisible_time import check_invisible_time
from cometmq.broker.pop.orders import Orders
from cometmq.broker.pop.reading import Pop, PopReader, Taken
from cometmq.broker.pop.waiting import HeldPop, PopLongPolls
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.pop import NotificationRequest, PollingInfoRequest, PopRequest
from cometmq.codec.receipt import encode_offsets, encode_starts
from cometmq.codec.remoting import Command
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.flags import is_readable
from cometmq.model.names import check_length, is_retry_topic, pop_retry_topic
from cometmq.model.topic import TopicConfig
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.store.reader import GetStatus

COUNT_MAX = 32  # A check point has 32 bits.
POLL_SECONDS_MAX = 120
_SIZE_A_TAG = 80  # Bytes of its hash in a pop that waits.
_LATE_MS = 500  # Of a pop whose time was over before it came (isTimeoutTooMuch).


class Popping:
    """Handles pops and questions about them."""

    def __init__(
        self,
        parts: Parts,
        *,
        reader: PopReader,
        waiting: PopLongPolls,
        hand_outs: HandOuts,
        orders: Orders,
    ) -> None:
        self._parts = parts
        self._filters = Filters(parts.settings, parts.members)
        self._reader = reader
        self._waiting = waiting
        self._hand_outs = hand_outs
        self._orders = orders

    def pop(self, command: Command, peer: Peer) -> Answer | Awaitable[Answer | None] | None:
        """Answer a pop, or hold it."""
        request = decode_fields(PopRequest, command.fields)
        command = command.without_content()
        self._check_time(request.born_time, request.poll_time)
        if not 0 < request.max_msg_nums <= COUNT_MAX:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"a pop gives 1 to {COUNT_MAX} messages, not {request.max_msg_nums}",
            )
        check_invisible_time(request.invisible_time, 1, self._parts.settings)
        topic = self.topic_of(request.topic, request.queue_id)
        self.check_group(request.consumer_group)
        if not request.order and not is_retry_topic(request.topic):
            # What is not acknowledged goes there: better not handed out than in no queue later.
            check_length(
                pop_retry_topic(request.topic, request.consumer_group),
                code=ResponseCode.INVALID_PARAMETER,
            )
        if is_plain(request.exp, request.exp_type):
            return self._begin(command, peer, request, topic)
        begin = partial(self._begin, command, peer, request, topic)
        return self._parts.turns.run(peer, begin, len(request.exp or ""))

    def _begin(
        self, command: Command, peer: Peer, request: PopRequest, topic: TopicConfig
    ) -> Answer | Awaitable[Answer | None] | None:
        """Take messages for a pop that may be done."""
        subscription = self._filters.subscription(request.topic, request.exp, request.exp_type)
        wanted = self._filters.filter_of(subscription, request.consumer_group, is_asked=True)
        pop = Pop(command, peer, request, wanted, topic)
        if len(self._hand_outs) >= OPEN_MAX:
            return Answer(
                ResponseCode.POLLING_FULL, f"{OPEN_MAX} pops are open; acknowledge some"
            )
        steps = self._reader.collect(pop)
        try:
            wait = next(steps)
        except StopIteration as ended:
            return self._settle(pop, ended.value)
        return self._wait_for(pop, steps, wait, None)

    def notification(self, command: Command, peer: Peer) -> Answer | None:
        """Answer when there is something to pop, or when the time is over."""
        request = decode_fields(NotificationRequest, command.fields)
        command = command.without_content()
        topic = self.topic_of(request.topic, request.queue_id)
        self.check_group(request.consumer_group)

        def attempt() -> Answer | None:
            return self._notice(has_message=True) if self._has_any(request, topic) else None

        answer = attempt()
        if answer is not None or request.poll_time <= 0:
            return answer or self._notice(has_message=False)
        key = (request.topic, request.consumer_group)
        waiter = HeldPop(
            key, request.queue_id, command, peer, self._deadline(request.poll_time),
            attempt, lambda: self._notice(has_message=False), request.order,
        )  # fmt: skip
        if self._waiting.is_full(key) or not self._waiting.hold(waiter):
            return self._notice(has_message=False, is_full=True)
        return None

    def polling(self, command: Command, _peer: Peer) -> Answer:
        """Say how many wait."""
        request = decode_fields(PollingInfoRequest, command.fields)
        self.topic_of(request.topic, request.queue_id)
        count = self._waiting.count((request.topic, request.consumer_group), request.queue_id)
        return Answer(fields={"pollingNum": str(count)})

    # --- checks

    def _check_time(self, born_ms: int, poll_ms: int) -> None:
        late_ms = self._parts.clock.now_ms() - born_ms - poll_ms
        if born_ms and late_ms > _LATE_MS:  # 0 stands for now.
            raise RequestError(
                ResponseCode.POLLING_TIMEOUT,
                f"the pop's time was over {late_ms} ms before it came",
            )

    def topic_of(self, name: str, queue_id: int) -> TopicConfig:
        """A topic that may be popped.

        Raises:
            RequestError: it may not, or has no such queue.
        """
        if not is_readable(self._parts.settings.perm):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._parts.address}] pop message is forbidden",
            )
        topic = self._parts.topics.get(name)
        if topic is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!"
            )
        if not is_readable(topic.perm):
            raise RequestError(
                ResponseCode.NO_PERMISSION, f"the topic[{name}] peeking message is forbidden"
            )
        if queue_id >= topic.read_queues:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{queue_id}] is illegal, topic:[{name}] "
                f"topicConfig.readQueueNums:[{topic.read_queues}]",
            )
        return topic

    def check_group(self, name: str) -> None:
        """Refuse a group that may not consume.

        Raises:
            RequestError: this one.
        """
        group = self._parts.groups.get(name)
        if group is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{name}] does not exist, create it or set "
                "autoCreateSubscriptionGroup=true",
            )
        if not group.is_consume_enabled:
            raise RequestError(
                ResponseCode.NO_PERMISSION, f"subscription group no permission, {name}"
            )

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

    # --- answering

    async def _wait_for(
        self, pop: Pop, steps: Steps[Taken], wait: Wait, waiter: HeldPop | None
    ) -> Answer | None:
        """Go on with a pop that reads what is not in memory; `waiter` is one that waits already."""
        taken = await finish(steps, wait, self._lend)
        if waiter is None:
            return self._settle(pop, taken)
        return self._found(pop, taken, waiter)

    def _lend(self, work: Callable[[], Any]) -> Awaitable[Any]:
        return asyncio.get_running_loop().run_in_executor(self._parts.pool, work)

    def _settle(self, pop: Pop, taken: Taken) -> Answer | None:
        """The answer; None when the pop waits."""
        request, key = pop.request, (pop.request.topic, pop.request.consumer_group)
        answer = self._found(pop, taken)
        if answer is not None:
            return answer
        if request.poll_time <= 0:
            return self._nothing(pop, taken, ResponseCode.POLLING_TIMEOUT)
        waiter = HeldPop(
            key, request.queue_id, pop.command, pop.peer, self._deadline(request.poll_time),
            lambda: self._again(pop, waiter),
            lambda: self._nothing(pop, taken, ResponseCode.POLLING_TIMEOUT),
            request.order,
            len(request.exp or "") + _SIZE_A_TAG * len(pop.wanted.codes or ()),
        )  # fmt: skip
        if self._waiting.is_full(key) or not self._waiting.hold(waiter):
            return self._nothing(pop, taken, ResponseCode.POLLING_FULL)
        if taken.left:
            self._waiting.wake(key)
        return None

    def _again(self, pop: Pop, waiter: HeldPop) -> Answer | Awaitable[Answer | None] | None:
        """Try once more for a pop that waits."""
        if pop.wanted.passes is None:
            return self._try(pop, waiter)
        return self._parts.turns.run(pop.peer, partial(self._try, pop, waiter), 0)

    def _try(self, pop: Pop, waiter: HeldPop) -> Answer | Awaitable[Answer | None] | None:
        topic = self.topic_of(pop.request.topic, pop.request.queue_id)
        steps = self._reader.collect(pop._replace(topic=topic))
        try:
            wait = next(steps)
        except StopIteration as ended:
            return self._found(pop, ended.value, waiter)
        return self._wait_for(pop, steps, wait, waiter)

    def _found(self, pop: Pop, taken: Taken, waiter: HeldPop | None = None) -> Answer | None:
        """The answer with messages; None without any."""
        if not taken.count:
            if waiter is not None:
                waiter.is_unfinished = taken.is_unfinished
            return None
        self._parts.counters.count_get(taken.count, taken.size)
        if taken.left:
            self._waiting.wake((pop.request.topic, pop.request.consumer_group))
        fields = self._fields(pop, taken)
        fields["startOffsetInfo"] = encode_starts(taken.starts)
        fields["msgOffsetInfo"] = encode_offsets(taken.offsets)
        if pop.request.order:
            fields["orderCountInfo"] = ";".join(
                f"{kind} {place} {count}" for kind, place, count in taken.order_counts
            )
        return Answer(ResponseCode.SUCCESS, GetStatus.FOUND, fields, taken.pieces)

    def _nothing(self, pop: Pop, taken: Taken, code: ResponseCode) -> Answer:
        fields = self._fields(pop, taken) | {"startOffsetInfo": "", "msgOffsetInfo": ""}
        return Answer(code, GetStatus.NO_MESSAGE_IN_QUEUE, fields)

    def _fields(self, pop: Pop, taken: Taken) -> dict[str, str]:
        return {
            "popTime": str(taken.pop_time_ms),
            "invisibleTime": str(pop.request.invisible_time),
            "reviveQid": str(taken.revive_queue),
            "restNum": str(taken.left),
        }

    def _notice(self, *, has_message: bool, is_full: bool = False) -> Answer:
        return Answer(
            fields={
                "hasMsg": "true" if has_message else "false",
                "pollingFull": "true" if is_full else "false",
            }
        )

    def _deadline(self, poll_ms: int) -> float:
        return self._parts.clock.monotonic() + min(poll_ms / 1000, POLL_SECONDS_MAX)
