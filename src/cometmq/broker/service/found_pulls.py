"""Pulls that find messages at once, which is nearly all of a busy consumer's.

What may be refused, held, redirected or read from the device is left to `service.pull`, whose meaning is the only one
there is: this says what that would say, or nothing (docs/design/0047-reads-without-objects.md).

Next: cometmq.broker.service.pull
"""

from collections.abc import Mapping
from typing import NamedTuple

from cometmq.broker.filters import Filters, is_plain
from cometmq.broker.parts import Parts
from cometmq.broker.service.pull import BYTES_MAX, Pulls
from cometmq.codec.headers.pull import PullRequest
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import RequestError
from cometmq.model.flags import PERM_READ, PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, is_readable
from cometmq.model.group import GroupConfig
from cometmq.model.subscription import TAG, Subscription
from cometmq.store.consume_queue import ConsumeQueue

# A larger answer is written as others are, in its turn; bytes.
FOUND_SIZE_MAX = 1 << 20

# The numbers of the answer's header in their order, and its messages.
Found = tuple[tuple[int, int, int, int, int, int, int], bytes]


class AdmittedPulls(NamedTuple):
    """Pulls with one header that may be done, for as long as none of the broker's tables has changed.

    Attributes:
        topics: version of the table of topics; None: the tables were not asked.
        groups: of the table of groups.
        members: how often what groups want had changed.
        topic: name of the topic that is pulled from.
        group: who pulls.
        topic_flag: of the topic's configuration.
        queue_count: queues that the topic has.
        queues: those of them that have had a message.
        codes: tags codes that are wanted; None: all.
    """

    topics: DataVersion | None
    groups: DataVersion | None
    members: int
    topic: str
    group: GroupConfig
    topic_flag: int
    queue_count: int
    queues: Mapping[int, ConsumeQueue]
    codes: frozenset[int] | None


_NOT_ASKED = AdmittedPulls(None, None, 0, "", GroupConfig(""), 0, 0, {}, None)


class KnownPull:
    """The header of pulls, but for their queue and offsets.

    Attributes:
        request: all of it.
        subscription: that it brings; None where the group's is asked for.
        admitted: what the tables said of it last.
        count_max: most messages.
        size_max: most bytes.
        is_committing: whether it brings an offset to be committed.
    """

    __slots__ = (
        "admitted",
        "count_max",
        "is_committing",
        "request",
        "size_max",
        "subscription",
    )

    def __init__(self, request: PullRequest, subscription: Subscription | None) -> None:
        """Nothing was asked yet."""
        self.request = request
        self.subscription = subscription
        self.admitted = _NOT_ASKED
        self.count_max = max(request.max_msg_nums, 1)
        self.size_max = request.max_msg_bytes or BYTES_MAX
        self.is_committing = bool(request.sys_flag & PULL_COMMIT_OFFSET)


class FoundPulls:
    """Does pulls that get messages at once, and leaves the others undone."""

    def __init__(self, pulls: Pulls, parts: Parts) -> None:
        """`pulls` does the others."""
        self._pulls = pulls
        self._admission = pulls.admission
        self._settings = parts.settings
        self._store = parts.store
        self._topics = parts.topics
        self._groups = parts.groups
        self._members = parts.members
        self._offsets = parts.offsets
        self._counters = parts.counters
        self._filters = Filters(parts.settings, parts.members)

    def known(self, request: PullRequest) -> KnownPull | None:
        """The question of pulls of this shape, good for any time; None where they are not plain."""
        if not is_plain(request.subscription, request.expression_type):
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
        self, known: KnownPull, queue_id: int, offset: int, commit_offset: int, opaque: int
    ) -> Found | None:
        """Messages of a queue from an offset on; None: nothing was done, and it must be done as a request.

        `commit_offset` is committed where the header says that pulls bring one; `opaque` is the last of the answer's numbers.
        """
        topics, groups, members, topic, group, flag, queue_count, queues, codes = known.admitted
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
        if queue is None:
            # Where the topic had none left, those that it has now are not among these.
            known.admitted = _NOT_ASKED
            return None
        low, high = queue.min_offset, queue.max_offset
        if (
            not low <= offset < high
            or queue_id >= queue_count
            or not self._settings.perm & PERM_READ
            or (offsets.resets and offsets.has_reset(group.name, topic, queue_id))
        ):
            return None
        began = self._counters.now()
        found = self._store.found(queue, offset, known.count_max, known.size_max, codes)
        if found is None or (size := len(found[0])) > FOUND_SIZE_MAX:
            return None
        records, count, next_offset, is_far = found
        if known.is_committing:
            offsets.commit_brought(group.name, topic, queue_id, commit_offset, high)
        next_broker = self._pulls.next_broker(group, is_far=is_far)
        self._counters.count_pull(topic, group.name, queue_id, count, size, began)
        return (next_broker, next_offset, low, high, group.sys_flag, flag, opaque), records

    def _admit(self, known: KnownPull) -> AdmittedPulls:
        """Ask the tables about a header; _NOT_ASKED where a pull of it gets nothing, or what they say holds only now."""
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
        # A slave's group that its master has not made is in no table, and gone where the settings change.
        is_kept = self._groups.peek(group.name) is group
        is_allowed = group.consume_enabled and is_readable(topic.perm)
        codes = wanted.codes if wanted.tags else None
        if codes is not None and self._store.has_extended(request.topic):
            return _NOT_ASKED
        if not (is_kept and is_allowed and wanted.kind == TAG):
            return _NOT_ASKED
        return AdmittedPulls(
            self._topics.version, self._groups.version, self._members.changes,
            request.topic, group, topic.sys_flag, topic.queue_count, queues, codes,
        )  # fmt: skip
