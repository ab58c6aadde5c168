"""Pulls: found messages are given at once as views of the log; the others may wait for one.

Checks and their codes are in the order of PullMessageProcessor of RocketMQ 5.3.3. A pull that finds
nothing new and may wait is held until a message arrives that passes its filter, and is then run
again; a second miss is answered.

Next: cometmq.store.reader
"""

from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from cometmq.broker.counters import Counters
from cometmq.broker.filtered_read import Effort, FilteredRead, ReadRequest
from cometmq.broker.filters import Filters, MessageFilter, is_plain
from cometmq.broker.groups import Groups
from cometmq.broker.long_polls import HeldPull, LongPolls
from cometmq.broker.machines.awaiting import Lend, finish
from cometmq.broker.machines.steps import Steps, Wait
from cometmq.broker.members import Members
from cometmq.broker.offsets import BEYOND_MAX, Offsets
from cometmq.broker.service.caller import Caller
from cometmq.broker.settings import BrokerSettings
from cometmq.broker.topics import Topics
from cometmq.broker.turns import Turns
from cometmq.codec.bodies.heartbeat import BROADCASTING
from cometmq.codec.headers.pull import PullRequest
from cometmq.model.clock import Clock
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.flags import (
    PULL_COMMIT_OFFSET,
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    is_readable,
)
from cometmq.model.group import GroupConfig
from cometmq.model.subscription import TAG, Subscription
from cometmq.model.topic import TopicConfig
from cometmq.store.message_store import MessageStore
from cometmq.store.reader import GetResult, GetStatus

# A client that asks to be held for longer is answered after this; RocketMQ's ask for 15 to 30 s.
SUSPEND_SECONDS_MAX = 120
# A pull that names no limit (maxMsgBytes is of 5.x) is bounded by the store's settings.
BYTES_MAX = 1 << 28

_CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}

# forbiddenType of a pull that is refused with NO_PERMISSION (ForbiddenType of RocketMQ 5.x).
_BY_BROKER, _BY_GROUP, _BY_TOPIC, _BY_BROADCAST, _BY_BOTH = "1", "2", "3", "4", "5"


class PullResult(NamedTuple):
    """What a pull is answered.

    Attributes:
        code: of the answer; messages come with SUCCESS.
        remark: why.
        next_offset: where to pull next.
        min_offset: of the queue.
        max_offset: of the queue.
        next_broker: id of the broker to pull from next.
        records: messages as they lie in the log.
        group_flag: of the group's configuration.
        topic_flag: of the topic's.
    """

    code: int
    remark: str
    next_offset: int
    min_offset: int
    max_offset: int
    next_broker: str
    records: list[memoryview]
    group_flag: int
    topic_flag: int


# The last: it waits, and its caller is answered when it has.
Outcome = PullResult | Awaitable[PullResult | None] | None


class Pull(NamedTuple):
    """A pull that may be done.

    Attributes:
        request: what is asked.
        caller: who asked.
        group: whose pull it is.
        topic: where from.
        may_hold: whether it may wait for a message, and commits: it has not waited yet.
        deadline: of one that has waited: how long it may wait on, monotonic seconds.
    """

    request: PullRequest
    caller: Caller[PullResult]
    group: GroupConfig
    topic: TopicConfig
    may_hold: bool
    deadline: float


class Pulls:
    """Does the pulls of push, pull and lite consumers."""

    def __init__(  # noqa: PLR0913  What a pull asks, it asks of these.
        self,
        settings: BrokerSettings,
        *,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        members: Members,
        offsets: Offsets,
        polls: LongPolls,
        counters: Counters,
        turns: Turns,
        clock: Clock,
        lend: Lend,
    ) -> None:
        """`lend` has read in a thread what would have to wait for the device."""
        self._settings = settings
        self._store = store
        self._topics = topics
        self._groups = groups
        self._members = members
        self._filters = Filters(settings, members)
        self._offsets = offsets
        self._polls = polls
        self._counters = counters
        self._turns = turns
        self._clock = clock
        self._lend = lend
        self._again = self._run_again  # One for all that wait.

    def pull(self, request: PullRequest, caller: Caller[PullResult]) -> Outcome:
        """Messages, or why there are none; None: the pull waits.

        Raises:
            RequestError: it may not be done.
        """
        return self._admit(request, caller, may_hold=True)

    def lite_pull(self, request: PullRequest, caller: Caller[PullResult]) -> Outcome:
        """A pull of a lite pull consumer of 5.x.

        Raises:
            RequestError: the settings do not allow it, or as `pull`.
        """
        if not self._settings.is_lite_pull:
            raise RequestError(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                "lite pull is switched off (litePullMessageEnable=false)",
            )
        return self._admit(request, caller, may_hold=True)

    def _run_again(self, held: HeldPull) -> None:
        """Do a pull that waited, for the last time unless nothing passes its filter."""
        held.caller.answer(
            partial(
                self._admit, held.request, held.caller, may_hold=False, deadline=held.deadline
            )
        )

    def _admit(
        self,
        request: PullRequest,
        caller: Caller[PullResult],
        *,
        may_hold: bool,
        deadline: float = 0,
    ) -> Outcome:
        """Do a pull that may be done; one whose filter may take long in its turn."""
        self._check_broker()
        group = self._group_of(request)
        topic = self._topic_of(request)
        told = None
        if not request.sys_flag & PULL_SUBSCRIPTION:
            told = self._subscription_of(request, group)
        pull = Pull(request, caller, group, topic, may_hold, deadline)
        expression, kind = request.subscription, request.expression_type
        if told.kind == TAG if told is not None else is_plain(expression, kind):
            return self._begin(pull, told)
        caller.hold()
        begin = partial(self._begin, pull, told)
        return self._turns.run(caller.owner, begin, len(expression or ""))

    def _begin(self, pull: Pull, told: Subscription | None) -> Outcome:
        """Read; `told` is what the group's heartbeats say, None where the pull brings its subscription."""
        request, offsets = pull.request, self._offsets
        group, topic, queue_id = request.consumer_group, request.topic, request.queue_id
        subscription = told or self._filters.subscription(
            topic, request.subscription, request.expression_type
        )
        wanted = self._filters.filter_of(subscription, group, is_asked=told is None)
        moved = offsets.take_reset(group, topic, queue_id)
        if moved is not None and moved != request.queue_offset:
            return self._send_elsewhere(pull, moved)
        if wanted.passes is not None:
            return self._read_filtered(pull, wanted)
        result = self._get(request, wanted.codes)
        self._commit(pull, result.max_offset)
        if result.cold is None:
            return self._answer_or_hold(pull, wanted, result)
        return self._read_cold(pull, wanted, result)

    def _send_elsewhere(self, pull: Pull, offset: int) -> PullResult:
        """The group's offset was reset (broker.service.resets): go on there."""
        request = pull.request
        # What this pull or the client's timer has committed since is of before the reset.
        self._offsets.commit(
            request.consumer_group, request.topic, request.queue_id, offset=offset
        )
        queue = self._store.queue_to_watch(request.topic, request.queue_id)
        return PullResult(
            ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET",
            offset, queue.min_offset, queue.max_offset, "0",
            [], pull.group.sys_flag, pull.topic.sys_flag,
        )  # fmt: skip

    # --- what is asked, and whether it may be

    def _check_broker(self) -> None:
        if not is_readable(self._settings.perm):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._settings.listen_host}] pulling message is forbidden",
                {"forbiddenType": _BY_BROKER},
            )

    def _group_of(self, request: PullRequest) -> GroupConfig:
        name = request.consumer_group
        group = self._groups.get(name)
        if group is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{name}] does not exist, create it or set "
                "autoCreateSubscriptionGroup=true",
            )
        if not group.is_consume_enabled:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"subscription group no permission, {name}",
                {"forbiddenType": _BY_GROUP},
            )
        return group

    def _topic_of(self, request: PullRequest) -> TopicConfig:
        topic = self._topics.get(request.topic)
        if topic is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{request.topic}] not exist, apply first please!",
            )
        if not is_readable(topic.perm):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the topic[{request.topic}] pulling message is forbidden",
                {"forbiddenType": _BY_TOPIC},
            )
        if not 0 <= request.queue_id < topic.queue_count:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{request.queue_id}] is illegal, topic:[{request.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queues}]",
            )
        return topic

    def _subscription_of(self, request: PullRequest, group: GroupConfig) -> Subscription:
        """What the group's heartbeats say."""
        members = self._members.consumer_group(group.name)
        found = None if members is None else members.subscriptions.get(request.topic)
        if members is None or found is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist"
            )
        if members.model == BROADCASTING and not group.is_broadcast_enabled:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"subscription group [{group.name}] may not consume in broadcasting mode",
                {"forbiddenType": _BY_BROADCAST},
            )
        if not self._groups.is_readable(group.name, request.topic):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the consumer group[{group.name}] is forbidden for topic[{request.topic}]",
                {"forbiddenType": _BY_BOTH},
            )
        if found.version < request.sub_version:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
            )
        return found

    # --- reading

    def _get(self, request: PullRequest, codes: frozenset[int] | None) -> GetResult:
        return self._store.get(
            request.topic,
            request.queue_id,
            request.queue_offset,
            max_count=max(request.max_msg_nums, 1),
            max_bytes=request.max_msg_bytes or BYTES_MAX,
            match=codes,
        )

    def _commit(self, pull: Pull, max_offset: int) -> None:
        """Keep the offset that a pull brings; one far beyond the queue's end is left alone."""
        request = pull.request
        if (
            pull.may_hold
            and request.sys_flag & PULL_COMMIT_OFFSET
            and 0 <= request.commit_offset <= max_offset + BEYOND_MAX
            and self._offsets.has_room(request.consumer_group, request.topic, request.queue_id)
        ):
            self._offsets.commit(
                request.consumer_group,
                request.topic,
                request.queue_id,
                offset=request.commit_offset,
            )

    async def _read_cold(
        self, pull: Pull, wanted: MessageFilter, result: GetResult
    ) -> PullResult | None:
        assert result.cold is not None
        return self._answer_or_hold(pull, wanted, await self._lend(result.cold))

    def _read_filtered(self, pull: Pull, wanted: MessageFilter) -> Outcome:
        request = pull.request
        assert wanted.passes is not None
        queue = self._store.queue(request.topic, request.queue_id)
        self._commit(pull, 0 if queue is None else queue.max_offset)
        size_max = request.max_msg_bytes or self._settings.transfer_bytes_in_memory
        count_max = min(max(request.max_msg_nums, 1), self._settings.transfer_count_in_memory)
        read = ReadRequest(
            request.topic, request.queue_id, request.queue_offset,
            count_max, size_max, wanted.passes,
        )  # fmt: skip
        steps = FilteredRead(self._store, read, Effort(self._clock)).steps()
        try:
            wait = next(steps)
        except StopIteration as end:
            return self._answer_or_hold(pull, wanted, end.value)
        return self._read_filtered_cold(pull, wanted, steps, wait)

    async def _read_filtered_cold(
        self, pull: Pull, wanted: MessageFilter, steps: Steps[GetResult], wait: Wait
    ) -> PullResult | None:
        result = await finish(steps, wait, self._lend)
        return self._answer_or_hold(pull, wanted, result)

    # --- answering, or waiting

    def _answer_or_hold(
        self, pull: Pull, wanted: MessageFilter, result: GetResult
    ) -> PullResult | None:
        code = _code_of(result.status, pull.request.queue_offset)
        if (
            code == ResponseCode.PULL_NOT_FOUND
            and pull.may_hold
            and pull.request.sys_flag & PULL_SUSPEND
            and self._hold(pull, wanted)
        ):
            return None
        if wanted.passes is not None and self._is_held_again(pull, result):
            return None
        self._counters.count_get(result.message_count, result.size)
        next_broker = "0"
        if result.suggest_slave and self._settings.is_slave_read:
            next_broker = str(pull.group.slow_broker_id)
        return PullResult(
            code, result.status, result.next_offset, result.min_offset, result.max_offset,
            next_broker, result.records, pull.group.sys_flag, pull.topic.sys_flag,
        )  # fmt: skip

    def _hold(self, pull: Pull, wanted: MessageFilter) -> bool:
        request = pull.request
        wait_ms = (
            request.suspend_timeout_millis
            if self._settings.is_long_polling
            else self._settings.short_polling_ms
        )
        queue = self._store.queue_to_watch(request.topic, request.queue_id)
        if wait_ms <= 0 or queue.max_offset > request.queue_offset:
            # The second: a message came while a cold read was under way.
            return False
        seconds = min(wait_ms / 1000, SUSPEND_SECONDS_MAX)
        deadline = self._clock.monotonic() + seconds
        pull.caller.hold()
        self._polls.hold(
            queue, HeldPull(request, pull.caller, wanted.codes, deadline, self._again)
        )
        return True

    def _is_held_again(self, pull: Pull, result: GetResult) -> bool:
        """Messages came and none passed the filter: wait on, behind them."""
        if (
            result.status is not GetStatus.NO_MATCHED_MESSAGE
            or result.next_offset < result.max_offset
            or pull.deadline <= self._clock.monotonic()
        ):
            return False
        request = pull.request
        queue = self._store.queue_to_watch(request.topic, request.queue_id)
        if queue.max_offset > result.next_offset:
            return False
        again = replace(request, queue_offset=result.next_offset)
        pull.caller.hold()
        self._polls.hold(queue, HeldPull(again, pull.caller, None, pull.deadline, self._again))
        return True


def _code_of(status: GetStatus, queue_offset: int) -> int:
    code = _CODES.get(status)
    if code is None:  # No queue, or an empty one: who asks for its beginning is right to wait.
        return ResponseCode.PULL_OFFSET_MOVED if queue_offset else ResponseCode.PULL_NOT_FOUND
    return code
