"""Pulls that find messages at once, which is nearly all of a busy consumer's.

What may be refused, held, redirected or read from the device is left to `service.pull`, whose meaning is the only one
there is: this says what that would say, or nothing (docs/design/0047-reads-without-objects.md).

Next: cometmq.broker.service.pull
"""

from typing import NamedTuple

from cometmq.broker.filters import Filters, is_plain
from cometmq.broker.parts import Parts
from cometmq.broker.service.pull import BYTES_MAX, Pulls
from cometmq.codec.headers.pull import PullRequest
from cometmq.model.errors import RequestError
from cometmq.model.flags import PERM_READ, PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION
from cometmq.model.subscription import TAG, Subscription
from cometmq.store.reader import GetStatus

# A larger answer is written as others are, in its turn; bytes.
FOUND_SIZE_MAX = 1 << 20

# An attribute of an enumeration is looked for twice as long as all else that is asked of a result.
_FOUND = GetStatus.FOUND

# The numbers of the answer's header in their order, its messages, and how many bytes these are.
Found = tuple[tuple[int, int, int, int, int, int], list[memoryview], int]


class PullHeader(NamedTuple):
    """The header of pulls, but for their queue and offsets, as it is asked about each time.

    Attributes:
        request: all of it.
        topic: of it, as the others are.
        group: who asks.
        subscription: that it brings; None where the group's is asked for.
        count_max: most messages.
        size_max: most bytes.
        is_committing: whether it brings an offset to be committed.
    """

    request: PullRequest
    topic: str
    group: str
    subscription: Subscription | None
    count_max: int
    size_max: int
    is_committing: bool


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
        self._offsets = parts.offsets
        self._counters = parts.counters
        self._filters = Filters(parts.settings, parts.members)

    def asked(self, request: PullRequest) -> PullHeader | None:
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
        return PullHeader(
            request, request.topic, request.consumer_group, subscription,
            max(request.max_msg_nums, 1), request.max_msg_bytes or BYTES_MAX,
            bool(request.sys_flag & PULL_COMMIT_OFFSET),
        )  # fmt: skip

    def pull(
        self, asked: PullHeader, queue_id: int, offset: int, commit_offset: int
    ) -> Found | None:
        """Messages of a queue from an offset on; None: nothing was done, and it must be done as a request.

        `commit_offset` is committed where `asked` says that pulls bring one.
        """
        request, topic_name, group_name, brought, count_max, size_max, is_committing = asked
        topic, queue = self._topics.get(topic_name), self._store.queue(topic_name, queue_id)
        if (
            (topic is None or queue is None)
            or not queue.min_offset <= offset < queue.max_offset
            or not self._settings.perm & topic.perm & PERM_READ
            # As `queue_count`, which costs ten times as much on the way of each pull.
            or (queue_id >= topic.read_queues and queue_id >= topic.write_queues)
        ):
            return None
        began = self._counters.now()
        try:
            group = self._groups.get(group_name)
            if group is None or not group.consume_enabled:
                return None
            wanted = brought or self._admission.subscription_of(request, group)
        except RequestError:
            return None
        if wanted.kind != TAG or self._offsets.has_reset(group_name, topic_name, queue_id):
            return None
        result = self._store.get_of(
            queue, offset, max_count=count_max, max_bytes=size_max,
            match=wanted.codes if wanted.tags else None,
        )  # fmt: skip
        status, next_offset, low, high, records, count, size, _, _ = result
        if status is not _FOUND or size > FOUND_SIZE_MAX:
            return None
        if is_committing:
            self._offsets.commit_brought(group_name, topic_name, queue_id, commit_offset, high)
        self._counters.count_get(topic_name, group_name, queue_id, count, size, began)
        next_broker = self._pulls.next_broker(group, result)
        numbers = next_broker, next_offset, low, high, group.sys_flag, topic.sys_flag
        return numbers, records, size
