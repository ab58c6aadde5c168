"""The slow path of pulls: it returns the messages that it finds, if possible at once; other pulls may be held.

Checks and codes follow PullMessageProcessor of RocketMQ 5.3.3. A pull that finds nothing new and may wait is held until
a message arrives that may pass its filter by tags, its time is over (long polling), or a reset or deletion wakes it.
Then it is run again; if it finds nothing again, that is its answer, unless an SQL92 filter let none of the new messages
pass and time is left.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from cometmq.broker.loop.caller import Caller
from cometmq.broker.parts import Parts
from cometmq.broker.pull.admission import PullAdmission
from cometmq.broker.pull.filtered_read import FilteredRead, ReadRequest, TimeBudget
from cometmq.broker.pull.filters import Filters, MessageFilter, is_plain
from cometmq.broker.tables.long_polls import HeldPull
from cometmq.codec.headers.pull import PullRequest
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.flags import (
    PULL_COMMIT_OFFSET,
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
)
from cometmq.model.group import GroupConfig
from cometmq.model.subscription import TAG, Subscription
from cometmq.model.topic import TopicConfig
from cometmq.steps.steps import Steps
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.reader import GetResult, GetStatus

# Longest time to hold a pull, even if the client asks for more; RocketMQ's clients ask for 15 to 30 s.
SUSPEND_SECONDS_MAX = 120
# How long a slave without its master holds a pull of messages that it lacks, because clients retry at once.
_LACKING_SECONDS = 1.0
# A pull without a size limit (maxMsgBytes is new in 5.x) is limited by the store's settings.
BYTES_MAX = 1 << 28

# Constants, because reading a member of an enumeration takes as long as a call.
_FOUND, _SUCCESS = GetStatus.FOUND, int(ResponseCode.SUCCESS)
_CODES = {
    _FOUND: _SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


class PullAnswer(NamedTuple):
    """The answer to a pull.

    Attributes:
        code: Response code; SUCCESS if there are messages.
        remark: The reason for the code.
        next_offset: Queue offset of the next pull.
        min_offset: First offset of the queue.
        max_offset: Offset after the queue's last readable message.
        next_broker: Id of the broker to pull from next.
        records: The messages as they are encoded in the log.
        group_flag: System flag of the group's configuration.
        topic_flag: System flag of the topic's configuration.
    """

    code: int
    remark: str
    next_offset: int
    min_offset: int
    max_offset: int
    next_broker: int
    records: list[memoryview]
    group_flag: int
    topic_flag: int


# None: the pull is held, and its caller is answered later.
Outcome = PullAnswer | Steps[PullAnswer | None] | None
# Reads from the disk in a thread for a caller.
Lend = Callable[[Callable[[], GetResult], Caller[PullAnswer]], Steps[GetResult]]


class Pull(NamedTuple):
    """A pull that has passed its checks.

    Attributes:
        may_hold: False once the pull was held: its offset is not committed again, and only SQL92 filters hold it again.
        deadline: For a pull that was held: until when it may wait on, monotonic seconds.
        began: When the pull arrived or was run again, monotonic seconds.
    """

    request: PullRequest
    caller: Caller[PullAnswer]
    group: GroupConfig
    topic: TopicConfig
    may_hold: bool
    deadline: float
    began: float


class Pulls:
    """The service that does the pulls of push, pull and lite consumers."""

    def __init__(self, parts: Parts, *, lend: Lend) -> None:
        """`lend` runs a read that must wait for the disk in a thread."""
        settings = self._settings = parts.settings
        self.admission = PullAdmission(parts)
        self._deleted = parts.topics.deleted
        self._store = parts.store
        self._filters = Filters(parts.settings, parts.members)
        self._offsets = parts.offsets
        self._members = parts.members
        self._polls = parts.polls
        self._counters = parts.counters
        self._turns = parts.turns
        self._clock = parts.clock
        self._lend = lend
        self._cold = parts.cold
        # A slave without offsetCheckInSlave never moves a consumer for messages that it lacks.
        stays = settings.is_slave and not settings.is_offset_checked
        self._has_master = (lambda: parts.replication().has_master) if stays else None
        self._again = self.run_again  # One bound method for all held pulls.

    def pull(self, request: PullRequest, caller: Caller[PullAnswer]) -> Outcome:
        """Return the answer to a pull, with messages or the reason for none; None if it is held and answered later.

        If that takes a read of the disk or a slow filter, return `Steps`, a generator that the caller runs, with the
        same result.

        Raises:
            RequestError: The pull is refused (also from the steps).
            ConnectionLost: The client disconnected while the steps waited.
        """
        return self._admit(request, caller, may_hold=True)

    def lite_pull(self, request: PullRequest, caller: Caller[PullAnswer]) -> Outcome:
        """Do a pull of a lite pull consumer of RocketMQ 5.x; raise RequestError as `pull`, or if lite pull is switched off."""
        if not self._settings.is_lite_pull:
            raise RequestError(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                "lite pull is switched off (litePullMessageEnable=false)",
            )
        return self._admit(request, caller, may_hold=True)

    def run_again(self, held: HeldPull) -> None:
        """Run a held pull again; it is held once more only if it has an SQL92 filter that no new message passes."""
        held.caller.answer(
            partial(
                self._admit, held.request, held.caller, may_hold=False, deadline=held.deadline
            )
        )

    def _admit(
        self,
        request: PullRequest,
        caller: Caller[PullAnswer],
        *,
        may_hold: bool,
        deadline: float = 0,
    ) -> Outcome:
        """Check a pull and do it; if its filter may be slow, maybe in a later iteration of the event loop."""
        admission = self.admission
        admission.check_broker()
        group, topic = admission.group_of(request), admission.topic_of(request)
        told = None
        if not request.sys_flag & PULL_SUBSCRIPTION:
            told = admission.subscription_of(request, group)
        pull = Pull(request, caller, group, topic, may_hold, deadline, self._counters.now())
        expression, kind = request.subscription, request.expression_type
        if told.kind == TAG if told is not None else is_plain(expression, kind):
            return self._begin(pull, told)
        caller.hold()
        begin = partial(self._begin, pull, told)
        return self._turns.run(caller.owner, begin, len(expression or ""))

    def _begin(self, pull: Pull, told: Subscription | None) -> Outcome:
        """Read messages and commit the pull's offset, or move a reset consumer.

        `told` is the heartbeats' subscription, unless the pull has one.
        """
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

    def _send_elsewhere(self, pull: Pull, offset: int) -> PullAnswer:
        """Commit the offset to which a group was reset, and return the answer that moves the consumer there."""
        request = pull.request
        # This pull or the client's timer may have committed an offset from before the reset; overwrite it.
        self._offsets.commit(
            request.consumer_group, request.topic, request.queue_id, offset=offset
        )
        queue = self._store.queue_to_watch(request.topic, request.queue_id)
        return PullAnswer(
            ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET",
            offset, queue.min_offset, queue.max_offset, 0,
            [], pull.group.sys_flag, pull.topic.sys_flag,
        )  # fmt: skip

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
        """Commit the offset that a pull carries, unless it was held before; if it carries none, note where the group starts.

        A pull beyond the queue's end commits nothing, because it may be at an offset of a deleted queue; but on a slave it
        commits, because a slave's queues end before its master's.
        """
        request = pull.request
        if request.queue_offset > max_offset and not self._settings.is_slave:
            return
        if not request.sys_flag & PULL_COMMIT_OFFSET:
            self.note_first(request, request.queue_id, request.queue_offset)
        elif pull.may_hold:
            self._offsets.commit_brought(
                request.consumer_group, request.topic, request.queue_id,
                request.commit_offset, max_offset,
            )  # fmt: skip

    def note_first(self, request: PullRequest, queue_id: int, offset: int) -> None:
        """Remember, within limits, a group's first pull from a queue, where its lag begins while it has no commit."""
        self._members.note_first_pull(request.consumer_group, request.topic, queue_id, offset)

    def _read_cold(
        self, pull: Pull, wanted: MessageFilter, result: GetResult
    ) -> Steps[PullAnswer | None]:
        assert result.cold is not None
        request = pull.request
        self._cold.check(request.consumer_group)
        found = yield from self._lend(result.cold, pull.caller)
        self._cold.add(request.consumer_group, found.size)
        self._counters.count_from_disk(
            request.topic, request.consumer_group, found.message_count, found.size
        )
        return self._answer_or_hold(pull, wanted, found)

    def _read_filtered(self, pull: Pull, wanted: MessageFilter) -> Steps[PullAnswer | None]:
        request = pull.request
        assert wanted.passes is not None
        queue = self._store.queue(request.topic, request.queue_id)
        self._commit(pull, 0 if queue is None else queue.max_offset)
        size_max = min(
            request.max_msg_bytes or BYTES_MAX, self._settings.transfer_bytes_in_memory
        )
        count_max = min(max(request.max_msg_nums, 1), self._settings.transfer_count_in_memory)
        asked = ReadRequest(
            request.topic, request.queue_id, request.queue_offset,
            count_max, size_max, wanted.passes, wanted.fast,
        )  # fmt: skip
        is_cold = False

        def lend(cold: Callable[[], GetResult]) -> Steps[GetResult]:
            nonlocal is_cold
            if not is_cold:
                self._cold.check(request.consumer_group)
                is_cold = True
            return self._lend(cold, pull.caller)

        read = FilteredRead(self._store, asked, TimeBudget(self._clock), lend)
        result = yield from read.steps()
        if read.is_cut:
            self._counters.cut_filter(request.consumer_group, request.topic)
        if is_cold:
            self._cold.add(request.consumer_group, result.size)
        return self._answer_or_hold(pull, wanted, result)

    # --- answering, or waiting

    def _answer_or_hold(
        self, pull: Pull, wanted: MessageFilter, result: GetResult
    ) -> PullAnswer | None:
        if result.status is _FOUND:
            return self._answer(pull, result, _SUCCESS)
        code = _code_of(result.status, pull.request.queue_offset)
        if code == ResponseCode.PULL_OFFSET_MOVED and self._has_master is not None:
            return self._lacking(pull, wanted, result, has_master=self._has_master())
        if result.status is GetStatus.OFFSET_OVERFLOW_BADLY and self._is_lost(pull.request):
            result = result._replace(next_offset=result.min_offset)
        if (
            code == ResponseCode.PULL_NOT_FOUND
            and pull.may_hold
            and pull.request.sys_flag & PULL_SUSPEND
            and self._hold(pull, wanted)
        ):
            return None
        if wanted.passes is not None and self._is_held_again(pull, result):
            return None
        return self._answer(pull, result, code)

    def _answer(self, pull: Pull, result: GetResult, code: int) -> PullAnswer:
        request = pull.request
        self._counters.count_get(
            request.topic, request.consumer_group, request.queue_id,
            result.message_count, result.size, pull.began,
        )  # fmt: skip
        return PullAnswer(
            code, result.status, result.next_offset, result.min_offset, result.max_offset,
            self.next_broker(pull.group, is_far=result.suggest_slave), result.records, pull.group.sys_flag,
            pull.topic.sys_flag,
        )  # fmt: skip

    def _is_lost(self, request: PullRequest) -> bool:
        """Return whether a pull beyond a queue's end is of a deleted queue, so that it continues at this queue's start.

        Assumed if the group has no offset of the queue, the pull may wait or a deletion of the topic is known, and this
        is no slave, which may be behind its master. RocketMQ moves every such group to the end, so that it misses
        earlier messages of the new queue. A group with an offset has seen more of this queue than a crash has left.
        """
        stored = self._offsets.get(request.consumer_group, request.topic, request.queue_id)
        follows = request.sys_flag & PULL_SUSPEND
        is_anew = follows or self._deleted.was_deleted(request.topic)
        return stored is None and bool(is_anew) and not self._settings.is_slave

    def _lacking(
        self, pull: Pull, wanted: MessageFilter, result: GetResult, *, has_master: bool
    ) -> PullAnswer | None:
        """Answer or hold a pull of messages that a slave lacks: keep the offset, and name the broker to pull from.

        While the slave is not connected to its master, a pull that may wait is first held for up to about a second.
        The slave's log may start later or end earlier than the master's. A group that was moved would skip messages or get
        them twice (as in PullMessageProcessor of RocketMQ 5.3.3).
        """
        request = pull.request
        if pull.may_hold and request.sys_flag & PULL_SUSPEND and not has_master:
            queue = self._store.queue_to_watch(request.topic, request.queue_id)
            self._wait(queue, pull, wanted.codes, self._clock.monotonic() + _LACKING_SECONDS)
            return None
        stays = result._replace(next_offset=request.queue_offset)
        return self._answer(pull, stays, ResponseCode.PULL_RETRY_IMMEDIATELY)

    def next_broker(self, group: GroupConfig, *, is_far: bool) -> int:
        """Return the id of the broker that a group should pull from next; 0, the master, unless slaves may be read."""
        if not self._settings.is_slave_read:  # As PullMessageProcessor of RocketMQ 5.3.3.
            return 0
        return group.slow_broker_id if is_far else group.broker_id

    def wait_known(
        self,
        queue: ConsumeQueue,
        request: PullRequest,
        caller: Caller[PullAnswer],
        codes: frozenset[int] | None,
        run_again: Callable[[HeldPull], None],
    ) -> bool:
        """Hold a pull of the fast path; return False if it may not wait or too many do: the slow path answers then."""
        wait_ms = self._wait_ms(request)
        if wait_ms <= 0:
            return False
        deadline = self._clock.monotonic() + min(wait_ms / 1000, SUSPEND_SECONDS_MAX)
        return self._polls.try_hold(
            queue, HeldPull(request, caller, codes, deadline, run_again)
        )

    def _wait_ms(self, request: PullRequest) -> int:
        if self._settings.is_long_polling:
            return request.suspend_timeout_millis
        return self._settings.short_polling_ms

    def _hold(self, pull: Pull, wanted: MessageFilter) -> bool:
        request = pull.request
        wait_ms = self._wait_ms(request)
        queue = self._store.queue_to_watch(request.topic, request.queue_id)
        if wait_ms <= 0 or queue.max_offset > request.queue_offset:
            # In the second case a message arrived during a cold read.
            return False
        seconds = min(wait_ms / 1000, SUSPEND_SECONDS_MAX)
        self._wait(queue, pull, wanted.codes, self._clock.monotonic() + seconds)
        return True

    def _wait(
        self, queue: ConsumeQueue, pull: Pull, codes: frozenset[int] | None, deadline: float
    ) -> None:
        request, caller = pull.request, pull.caller
        caller.hold()
        self._polls.hold(queue, HeldPull(request, caller, codes, deadline, self._again))

    def _is_held_again(self, pull: Pull, result: GetResult) -> bool:
        """Hold a pull again if time is left and nothing up to the queue's end passed its filter; return True then."""
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
        again = pull._replace(request=replace(request, queue_offset=result.next_offset))
        self._wait(queue, again, None, pull.deadline)
        return True


def _code_of(status: GetStatus, queue_offset: int) -> int:
    code = _CODES.get(status)
    if code is None:  # The queue is missing or empty: a pull from offset 0 may wait.
        return ResponseCode.PULL_OFFSET_MOVED if queue_offset else ResponseCode.PULL_NOT_FOUND
    return code
