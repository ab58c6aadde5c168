"""Pulls that find messages at once, see at once that none matches, or wait at the end of a queue: nearly all pulls.

Pulls that are refused, moved by a reset, filtered by an unusual SQL92 expression or read from the disk are left to
`pull.pulls`, which defines what a pull means: this module gives the same answer or none (docs/design/0046-columns.md).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from cometmq.broker.loop.caller import Caller
from cometmq.broker.parts import Parts
from cometmq.broker.pull.filters import Filters
from cometmq.broker.pull.pulls import BYTES_MAX, PullAnswer, Pulls
from cometmq.broker.tables.long_polls import HeldPull
from cometmq.codec.headers.pull import PullRequest
from cometmq.kernel import PropertyFilter, TagCodes, Tally
from cometmq.kernel.rows import AnswerTerms
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import RequestError
from cometmq.model.flags import (
    PERM_READ,
    PULL_COMMIT_OFFSET,
    PULL_SUBSCRIPTION,
    PULL_SUSPEND,
    is_readable,
)
from cometmq.model.group import GroupConfig
from cometmq.model.subscription import TAG, Subscription
from cometmq.store.consume_queue import ConsumeQueue

# Number of queues whose tallies are cached with one header.
TALLIES_MAX = 32
# Longer expressions, in characters, are left to the slow path.
_EXPRESSION_MAX = 4_096


class AdmittedPulls(NamedTuple):
    """The result of checking pulls with one header; void after any change of topics, groups or members.

    Attributes:
        topics: Version of the topic table at the check; None without a valid check.
        groups: Version of the group table at the check.
        members: Value of `Members.changes` at the check, which grows with each change of a consumer group.
        queues: Queues of the topic, by number.
        terms: The limits and answer header of these pulls.
        tallies: Counters of this group's reads, for some of the queues.
        codes: Tags codes of messages that wake these pulls; None: all messages do.
    """

    topics: DataVersion | None
    groups: DataVersion | None
    members: int
    group: GroupConfig
    queue_count: int
    queues: Mapping[int, ConsumeQueue]
    terms: AnswerTerms
    tallies: dict[int, Tally]
    codes: frozenset[int] | None = None


_NOT_ASKED = AdmittedPulls(
    None, None, 0, GroupConfig(""), 0, {}, AnswerTerms((), 0, 0, None, 0, 0, 0, 0), {}
)


class KnownPull:
    """A parsed header of pulls, without queue and offsets.

    Attributes:
        subscription: The subscription in the request; None if the group's own is used.
        admitted: The result of the last check against the tables.
        is_committing: Whether these pulls carry an offset to commit.
    """

    __slots__ = ("admitted", "is_committing", "request", "subscription")

    def __init__(self, request: PullRequest, subscription: Subscription | None) -> None:
        self.request = request
        self.subscription = subscription
        self.admitted = _NOT_ASKED
        self.is_committing = bool(request.sys_flag & PULL_COMMIT_OFFSET)


class FoundPulls:
    """The service for pulls that find messages or no match at once, or wait at a queue's end; `Pulls` does others."""

    def __init__(
        self,
        pulls: Pulls,
        parts: Parts,
        pieces: tuple[bytes, ...],
        none_pieces: tuple[bytes, ...],
    ) -> None:
        """`pieces` are the header of an answer with messages, and `none_pieces` of one to a pull that none matched."""
        self._pieces = pieces
        self._none_pieces = none_pieces
        self._pulls = pulls
        self._admission = pulls.admission
        self._settings = parts.settings
        self._store = parts.store
        self._pull = parts.store.pull
        self._topics = parts.topics
        self._groups = parts.groups
        self._members = parts.members
        self._offsets = parts.offsets
        self._counters = parts.counters
        self._filters = Filters(parts.settings, parts.members)

    def known(self, request: PullRequest) -> KnownPull | None:
        """Return the parsed header for pulls of this form; None if its expression is too long or cannot be used."""
        if len(request.subscription or "") > _EXPRESSION_MAX:
            return None
        subscription = None
        if request.sys_flag & PULL_SUBSCRIPTION:
            try:
                subscription = self._filters.subscription(
                    request.topic, request.subscription, request.expression_type
                )
            except RequestError:
                return None
        return KnownPull(request, subscription)

    def pull(
        self,
        known: KnownPull,
        queue_id: int,
        offset: int,
        commit_offset: int | None,
        opaque: int,
    ) -> tuple[bytes, int] | None:
        """Return an answer frame, with messages from an offset on or that none matched, and the size it counts for.

        That is the size of the messages in bytes and of what was checked to find them. None: use the slow path.
        Also counts the pull, and commits `commit_offset` if the header says that the pull commits; None: that was done
        when the pull was held. `opaque` is the request's number.
        """
        topics, groups, members, group, queue_count, queues, terms, tallies, _ = known.admitted
        if (
            topics is not self._topics.version
            or groups is not self._groups.version
            or members != self._members.changes
        ):
            known.admitted = self._admit(known)
            if known.admitted is _NOT_ASKED:
                return None
            return self.pull(known, queue_id, offset, commit_offset, opaque)
        queue, offsets = queues.get(queue_id), self._offsets
        if queue is None or queue.is_batch:
            # If the topic had no queues at the check, the ones it has now are missing here, so check again.
            known.admitted = _NOT_ASKED
            return None
        if queue_id >= queue_count or not self._may_read(group.name, queue):
            return None
        began = self._counters.now()
        answer = self._pull(terms, queue, offset, opaque)
        if answer is None:
            return None
        if known.is_committing and commit_offset is not None:
            offsets.commit_brought(
                group.name, queue.topic, queue_id, commit_offset, queue.max_offset
            )
        frame, size, count, effort = answer
        if count:
            tally = tallies.get(queue_id) or self._tally(known, queue_id, offset)
            self._counters.count_pull(tally, count, size, began)
        else:
            self._count_missed(known, queue_id, offset, began)
        return frame, size + effort

    def _may_read(self, group: str, queue: ConsumeQueue) -> bool:
        """Return whether the broker may be read from and no reset of the group's offset waits for its consumer."""
        resets = self._offsets.resets
        return bool(self._settings.perm & PERM_READ) and not (
            resets and self._offsets.has_reset(group, queue.topic, queue.queue_id)
        )

    def hold(
        self,
        known: KnownPull,
        queue_id: int,
        offset: int,
        commit_offset: int,
        caller: Caller[PullAnswer],
        run_again: Callable[[HeldPull], None],
    ) -> bool:
        """Hold a pull at the end of its queue as the slow path does; if this returns False, the slow path must do it.

        Call it after `pull` has returned None for it, which checks the header against the tables. The offset that a held
        pull carries is committed; if it carries none, it is noted where the group begins.
        """
        request, admitted, offsets = known.request, known.admitted, self._offsets
        queue = admitted.queues.get(queue_id)
        if (
            queue is None
            or queue.max_offset != offset
            or not request.sys_flag & PULL_SUSPEND
            or isinstance(admitted.terms.match, PropertyFilter)
            or queue.is_batch
            or queue_id >= admitted.queue_count
            or admitted.topics is not self._topics.version
            or admitted.groups is not self._groups.version
            or admitted.members != self._members.changes
            or not self._may_read(admitted.group.name, queue)
        ):
            return False
        if not self._pulls.wait_known(queue, request, caller, admitted.codes, run_again):
            return False
        if known.is_committing:
            offsets.commit_brought(
                admitted.group.name, queue.topic, queue_id, commit_offset, offset
            )
        else:
            self._pulls.note_first(request, queue_id, offset)
        return True

    def run_again(
        self, held: HeldPull, request: PullRequest, caller: Caller[PullAnswer]
    ) -> None:
        """Pass a held pull that was woken to the slow path; `request` has the queue and offset that `held` lacks."""
        self._pulls.run_again(replace(held, request=request, caller=caller))

    def _count_missed(self, known: KnownPull, queue_id: int, offset: int, began: float) -> None:
        """Count a pull whose filter nothing matched; if it commits nothing, note where the group begins."""
        if not known.is_committing:
            self._pulls.note_first(known.request, queue_id, offset)
        self._counters.count_missed(began)

    def _tally(self, known: KnownPull, queue_id: int, offset: int) -> Tally:
        """Return the counter of a group's reads of a queue; if pulls commit nothing, note where the group begins."""
        admitted = known.admitted
        if not known.is_committing:
            self._pulls.note_first(known.request, queue_id, offset)
        tally = self._counters.gets.of(known.request.topic, admitted.group.name, queue_id)
        if len(admitted.tallies) < TALLIES_MAX:
            admitted.tallies[queue_id] = tally
        return tally

    def _admit(self, known: KnownPull) -> AdmittedPulls:
        """Check a header against the tables; return the result, or _NOT_ASKED if the slow path must do its pulls."""
        request = known.request
        try:
            group = self._groups.get(request.consumer_group)
            topic = self._topics.get(request.topic)
            queues = self._store.queues_by_number(request.topic)
            if group is None or topic is None or queues is None:
                return _NOT_ASKED
            wanted = known.subscription or self._admission.subscription_of(request, group)
        except RequestError:
            return _NOT_ASKED
        # On a slave, a group that its master does not have is in no table and disappears when the settings change.
        is_kept = self._groups.peek(group.name) is group
        is_allowed = group.consume_enabled and is_readable(topic.perm)
        if not (is_kept and is_allowed):
            return _NOT_ASKED
        match: TagCodes | PropertyFilter | None = None
        if wanted.kind != TAG or wanted.tags:
            match = self._filters.fast_match(wanted)
            if match is None or self._store.has_extended(request.topic):
                return _NOT_ASKED
        # This depends on the group's fields and `slaveReadEnable`, which is constant while the broker runs.
        near, far = (self._pulls.next_broker(group, is_far=is_far) for is_far in (False, True))
        terms = AnswerTerms(
            self._pieces, max(request.max_msg_nums, 1), request.max_msg_bytes or BYTES_MAX,
            match, near, far, group.sys_flag, topic.sys_flag, self._none_pieces,
        )  # fmt: skip
        return AdmittedPulls(
            self._topics.version, self._groups.version, self._members.changes,
            group, topic.queue_count, queues, terms, {}, wanted.codes if wanted.tags else None,
        )  # fmt: skip
