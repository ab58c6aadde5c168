"""The offset at which each group continues in each queue that it pops.

After a start, pops continue from the offset table. An offset after messages popped not in order is committed when all
check points before it are flushed, or done; until then only `CheckPointTable` knows it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from cometmq.broker.parts import Parts
from cometmq.broker.pop.check_points import CheckPoint, CheckPointTable, Place
from cometmq.codec.headers.pop import FROM_MIN
from cometmq.model.names import is_retry_topic
from cometmq.steps.steps import Steps, at_once_or_elsewhere, elsewhere
from cometmq.store.consume_queue import ConsumeQueue


class GroupOffsets:
    """The offsets of all groups that pop.

    Attributes:
        busy: Group, topic and queue of each pop that is reading; no other pop may read there.
    """

    def __init__(self, parts: Parts, check_points: CheckPointTable) -> None:
        self._parts = parts
        self.busy: set[Place] = set()
        self._check_points = check_points

    @property
    def has_uncommitted(self) -> bool:
        """Whether any group has popped messages to an offset that is not committed yet."""
        return self._check_points.has_unsaid

    def next_offset(self, place: Place) -> int | None:
        """Return the offset that a group's pops have reached in a queue, committed or not; None if it has none."""
        group, topic, queue_id = place
        said = self._parts.offsets.get(group, topic, queue_id)
        unsaid = self._check_points.next_offset(place)
        if unsaid is None:
            return said
        return unsaid if said is None else max(unsaid, said)

    def in_flight(self) -> Steps[Mapping[Place, int]]:
        """Return the number of popped messages neither acknowledged nor delivered again, by group, topic and queue.

        Messages that were popped in order are not counted.
        """
        points = self._check_points.points()
        return (yield from elsewhere(lambda: _counted(points))) if points else {}

    def begin(self, place: Place, queue: ConsumeQueue | None, init_mode: int) -> Steps[int]:
        """Return, and usually commit, the offset at which a new group starts to pop a queue (Java: getInitOffset).

        That is the first message for FROM_MIN, for a retry topic, and for a queue that is recent (see `_is_young`) or
        starts at 0 and is known to be younger than the group; else the last message, or 0 if the queue never had one.
        """
        group, topic, queue_id = place
        offset = 0
        # When the group committed its first offset in the topic, if that was since this start.
        began_ms = self._parts.offsets.began_ms(group, topic)
        if queue is not None:
            is_from_min = init_mode == FROM_MIN or is_retry_topic(topic)
            is_from_min = is_from_min or (yield from self._is_young(queue, topic, queue_id))
            if not is_from_min and began_ms is not None and not queue.min_offset:
                is_from_min = yield from at_once_or_elsewhere(
                    lambda wait: (
                        began_ms < self._parts.store.earliest_store_time(queue, may_wait=wait)
                    )
                )
            offset = queue.min_offset if is_from_min else max(queue.max_offset - 1, 0)
        said = self.next_offset(place)
        if said is not None:
            return said  # Another pop has begun during the read.
        if self._parts.offsets.began_ms(group, topic) == began_ms:
            self._parts.offsets.commit(group, topic, queue_id, offset=offset)
        return offset

    def _is_young(self, queue: ConsumeQueue, topic: str, queue_id: int) -> Steps[bool]:
        """Return whether a queue starts at offset 0, and a read there does not suggest that a slave should serve it."""
        if queue.min_offset > 0:
            return False
        found = self._parts.store.get(topic, queue_id, 0, max_count=1)
        if found.cold is not None:
            found = yield from elsewhere(found.cold)
        return not found.suggest_slave

    def passed(self, place: Place, offset: int, point: CheckPoint | None = None) -> None:
        """Note that a group's pops continue at `offset`, after the messages of `point`; None: after skipped ones."""
        self._check_points.passed(place, offset, point)

    def reset(self, place: Place, offset: int) -> None:
        """Set a group's offset in a queue that it pops, also to a smaller one, and forget its uncommitted ones."""
        self._check_points.reset(place)
        group, topic, queue_id = place
        self._parts.offsets.commit(group, topic, queue_id, offset=offset)

    def say(self) -> None:
        """Commit the offsets of groups that pop which may be committed now; no offset becomes smaller."""
        for place, offset in self._check_points.pop_sayable(self._parts.store.flushed_offset):
            group, topic, queue_id = place
            said = self._parts.offsets.get(group, topic, queue_id)
            if said is None or said < offset:
                self._parts.offsets.commit(group, topic, queue_id, offset=offset)

    def restore(self, point: CheckPoint) -> None:
        """Commit the offset after a check point of an earlier process, so that its messages stay hidden until due.

        Does nothing if the committed offset is after its start offset. The record of a reset sets the offset, also
        back.
        """
        body = point.body
        place = (body.group, body.topic, body.queue_id)
        said = self._parts.offsets.get(*place)
        if not body.offsets:  # The record of a reset.
            self._parts.offsets.commit(*place, offset=body.start_offset)
        elif said is None or body.start_offset >= said:
            self._parts.offsets.commit(*place, offset=body.offsets[-1] + 1)


def _counted(points: Iterable[CheckPoint]) -> Counter[Place]:
    counts: Counter[Place] = Counter()
    for point in points:
        left = point.all_bits & ~point.acknowledged
        counts[point.body.group, point.body.topic, point.body.queue_id] += left.bit_count()
    return counts
