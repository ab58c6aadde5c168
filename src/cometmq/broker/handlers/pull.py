"""Pulls: found messages are answered at once as views of the log; the others may wait for one.

Checks and their codes are in the order of PullMessageProcessor of RocketMQ 5.3.3. A pull that finds
nothing new and may wait is held until a message arrives that passes its filter, and is then run
again; a second miss is answered.

Next: cometmq.store.reader
"""

from collections.abc import Awaitable
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from cometmq.broker.counters import Counters
from cometmq.broker.fast_failure import ColdReads
from cometmq.broker.filters import Filters, MessageFilter, is_plain
from cometmq.broker.groups import Groups
from cometmq.broker.handlers.offset import BEYOND_MAX
from cometmq.broker.long_poll import HeldPull, HeldPulls
from cometmq.broker.members import Members
from cometmq.broker.offsets import Offsets
from cometmq.broker.settings import BrokerSettings
from cometmq.broker.sieve import Effort, Sieve
from cometmq.broker.sieve import Wanted as Sifted
from cometmq.broker.topics import Topics
from cometmq.broker.turns import Turns
from cometmq.codec.bodies.heartbeat import BROADCASTING
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.pull import PullRequest
from cometmq.codec.remoting import Command
from cometmq.model.clock import Clock
from cometmq.model.codes import RequestCode, ResponseCode
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
from cometmq.net.answer import Answer
from cometmq.net.dispatcher import run_handler
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers
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


class PullHandler:
    """Handles PULL_MESSAGE 11 and LITE_PULL_MESSAGE 361."""

    def __init__(  # noqa: PLR0913  What a pull asks, it asks of these.
        self,
        settings: BrokerSettings,
        *,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        members: Members,
        offsets: Offsets,
        held: HeldPulls,
        counters: Counters,
        turns: Turns,
        clock: Clock,
        pool: Executor,
    ) -> None:
        """`pool` reads what would have to wait for the device."""
        self._settings = settings
        self._store = store
        self._topics = topics
        self._groups = groups
        self._members = members
        self._filters = Filters(settings, members)
        self._offsets = offsets
        self._held = held
        self._counters = counters
        self._turns = turns
        self._clock = clock
        self._reads = ColdReads(pool, clock, settings)
        held.resume = self._resume
        self.answers: Answers = {
            RequestCode.PULL_MESSAGE: self.pull,
            RequestCode.LITE_PULL_MESSAGE: self.lite_pull,
        }

    def pull(self, command: Command, peer: Peer) -> Answer | Awaitable[Answer | None] | None:
        """Answer a pull, or hold it."""
        return self._pull(command, peer, may_hold=True)

    def lite_pull(
        self, command: Command, peer: Peer
    ) -> Answer | Awaitable[Answer | None] | None:
        """The same for lite pull consumers of 5.x.

        Raises:
            RequestError: the settings do not allow it.
        """
        if not self._settings.is_lite_pull:
            raise RequestError(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                "lite pull is switched off (litePullMessageEnable=false)",
            )
        return self._pull(command, peer, may_hold=True)

    def _resume(self, held: HeldPull) -> None:
        """Run a held pull again, for the last time unless nothing passes its filter."""
        again = partial(self._admit, held.request, may_hold=False, deadline=held.deadline)
        run_handler(again, held.command, held.peer)

    def _pull(
        self, command: Command, peer: Peer, *, may_hold: bool
    ) -> Answer | Awaitable[Answer | None] | None:
        request = decode_fields(PullRequest, command.fields)
        return self._admit(request, command, peer, may_hold=may_hold)

    def _admit(
        self,
        request: PullRequest,
        command: Command,
        peer: Peer,
        *,
        may_hold: bool,
        deadline: float = 0,
    ) -> Answer | Awaitable[Answer | None] | None:
        """Do a pull that may be done; one whose filter may take long in its turn."""
        self._check_broker()
        group = self._group_of(request)
        topic = self._topic_of(request)
        told = None
        if not request.sys_flag & PULL_SUBSCRIPTION:
            told = self._told(request, group)
        pull = Pull(
            command,
            peer,
            request,
            {"groupSysFlag": str(group.sys_flag), "topicSysFlag": str(topic.sys_flag)},
            may_hold,
            str(group.slow_broker_id) if self._settings.is_slave_read else "0",
            deadline,
        )
        expression, kind = request.subscription, request.expression_type
        if told.kind == TAG if told is not None else is_plain(expression, kind):
            return self._begin(pull, told)
        pull = pull._replace(command=command.without_content())
        begin = partial(self._begin, pull, told)
        return self._turns.run(peer, begin, len(expression or ""))

    def _begin(
        self, pull: "Pull", told: Subscription | None
    ) -> Answer | Awaitable[Answer | None] | None:
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
            return self._sift(pull, wanted)
        result = self._get(pull, wanted.codes)
        self._commit(pull, result)
        if result.cold is None:
            return self._settle(pull, wanted, result)
        return self._get_cold(pull, wanted, result)

    def _send_elsewhere(self, pull: "Pull", offset: int) -> Answer:
        """The group's offset was reset (broker.consoles.resets): go on there."""
        request = pull.request
        # What this pull or the client's timer has committed since is of before the reset.
        self._offsets.commit(
            request.consumer_group, request.topic, request.queue_id, offset=offset
        )
        queue = self._store.queue_to_watch(request.topic, request.queue_id)
        fields = {
            "suggestWhichBrokerId": "0",
            "nextBeginOffset": str(offset),
            "minOffset": str(queue.min_offset),
            "maxOffset": str(queue.max_offset),
            **pull.answer_fields,
        }
        return Answer(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", fields)

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

    def _told(self, request: PullRequest, group: GroupConfig) -> Subscription:
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

    # --- reading and answering

    def _get(self, pull: "Pull", codes: frozenset[int] | None) -> GetResult:
        request = pull.request
        return self._store.get(
            request.topic,
            request.queue_id,
            request.queue_offset,
            max_count=max(request.max_msg_nums, 1),
            max_bytes=request.max_msg_bytes or BYTES_MAX,
            match=codes,
        )

    def _commit(self, pull: "Pull", result: GetResult) -> None:
        """Take the offset that a pull brings; one far beyond the queue's end is left alone."""
        request = pull.request
        if (
            pull.may_hold
            and request.sys_flag & PULL_COMMIT_OFFSET
            and 0 <= request.commit_offset <= result.max_offset + BEYOND_MAX
            and self._offsets.has_room(request.consumer_group, request.topic, request.queue_id)
        ):
            self._offsets.commit(
                request.consumer_group,
                request.topic,
                request.queue_id,
                offset=request.commit_offset,
            )

    def _sift(
        self, pull: "Pull", wanted: MessageFilter
    ) -> Answer | Awaitable[Answer | None] | None:
        request = pull.request
        assert wanted.passes is not None
        size_max = request.max_msg_bytes or self._settings.transfer_bytes_in_memory
        count_max = min(max(request.max_msg_nums, 1), self._settings.transfer_count_in_memory)
        sieve = Sieve(
            self._store,
            Sifted(
                request.topic, request.queue_id, request.queue_offset,
                count_max, size_max, wanted.passes,
            ),
            Effort(self._clock),
        )  # fmt: skip
        result = sieve.read()
        self._commit(pull, result)
        if result.cold is None:
            return self._settle(pull, wanted, result)
        return self._sift_cold(pull, wanted, sieve, result)

    async def _sift_cold(
        self, pull: "Pull", wanted: MessageFilter, sieve: Sieve, result: GetResult
    ) -> Answer | None:
        while result.cold is not None:
            read = await self._reads.read(result.cold)
            result = sieve.took(read) or sieve.read()
        return self._settle(pull, wanted, result)

    async def _get_cold(
        self, pull: "Pull", wanted: MessageFilter, result: GetResult
    ) -> Answer | None:
        assert result.cold is not None
        return self._settle(pull, wanted, await self._reads.read(result.cold))

    def _settle(self, pull: "Pull", wanted: MessageFilter, result: GetResult) -> Answer | None:
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
        fields = {
            "suggestWhichBrokerId": pull.slow_broker_id if result.suggest_slave else "0",
            "nextBeginOffset": str(result.next_offset),
            "minOffset": str(result.min_offset),
            "maxOffset": str(result.max_offset),
            **pull.answer_fields,
        }
        return Answer(code, result.status, fields, [*result.records])

    def _hold(self, pull: "Pull", wanted: MessageFilter) -> bool:
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
        held = HeldPull(
            pull.command.without_content(), request, pull.peer, wanted.codes, deadline
        )
        self._held.hold(queue, held)
        return True

    def _is_held_again(self, pull: "Pull", result: GetResult) -> bool:
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
        self._held.hold(
            queue,
            HeldPull(pull.command.without_content(), again, pull.peer, None, pull.deadline),
        )
        return True


class Pull(NamedTuple):
    """A pull that may be done.

    Attributes:
        command: the request.
        peer: who asked.
        request: its header.
        answer_fields: what each answer to it carries.
        may_hold: whether it may wait for a message, and commits: it has not waited yet.
        slow_broker_id: where to pull from when far behind (slaveReadEnable).
        deadline: of one that has waited: how long it may wait on, monotonic seconds.
    """

    command: Command
    peer: Peer
    request: PullRequest
    answer_fields: dict[str, str]
    may_hold: bool
    slow_broker_id: str
    deadline: float = 0


def _code_of(status: GetStatus, queue_offset: int) -> int:
    code = _CODES.get(status)
    if code is None:  # No queue, or an empty one: who asks for its beginning is right to wait.
        return ResponseCode.PULL_OFFSET_MOVED if queue_offset else ResponseCode.PULL_NOT_FOUND
    return code
