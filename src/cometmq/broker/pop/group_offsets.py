"""The offset at which each group goes on in each queue that it pops.

The group's offset in the table of offsets is what a start goes on from. It passes what was handed
out once a check point of it is on the device, or all of it is acknowledged; until then the place is
known to `CheckPointTable` only.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from cometmq.broker.loop.steps import Steps, elsewhere
from cometmq.broker.pop.check_points import CheckPoint, CheckPointTable, Place
from cometmq.broker.tables.offsets import Offsets
from cometmq.codec.headers.pop import FROM_MIN
from cometmq.model.names import is_retry_topic
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.message_store import MessageStore


class GroupOffsets:
    """The offsets of all groups that pop.

    Attributes:
        busy: places that are being read; nobody else may pop there.
    """

    def __init__(
        self, offsets: Offsets, store: MessageStore, check_points: CheckPointTable
    ) -> None:
        self.busy: set[Place] = set()
        self._offsets = offsets
        self._store = store
        self._check_points = check_points

    def next_offset(self, place: Place) -> int | None:
        """The offset at which the next pop begins; None where the group has never been."""
        group, topic, queue_id = place
        said = self._offsets.get(group, topic, queue_id)
        unsaid = self._check_points.next_offset(place)
        if unsaid is None:
            return said
        return unsaid if said is None else max(unsaid, said)

    def in_flight(self) -> Steps[Mapping[Place, int]]:
        """Count the messages of each queue and group that are neither acknowledged nor delivered again."""
        points = self._check_points.points()
        return (yield from elsewhere(lambda: _counted(points))) if points else {}

    def begin(self, place: Place, queue: ConsumeQueue | None, init_mode: int) -> int:
        """The offset at which a new group begins (PopMessageProcessor.getInitOffset)."""
        group, topic, queue_id = place
        offset = 0
        if queue is not None:
            is_from_min = init_mode == FROM_MIN or is_retry_topic(topic)
            is_from_min = is_from_min or self._is_young(queue, topic, queue_id)
            is_from_min = is_from_min or self._is_younger_than_group(queue, group, topic)
            offset = queue.min_offset if is_from_min else max(queue.max_offset - 1, 0)
        self._offsets.commit(group, topic, queue_id, offset=offset)
        return offset

    def _is_young(self, queue: ConsumeQueue, topic: str, queue_id: int) -> bool:
        """Whether the queue still has its first message, and that counts as being in memory."""
        if queue.min_offset > 0:
            return False
        return not self._store.get(topic, queue_id, 0, max_count=1).suggest_slave

    def _is_younger_than_group(self, queue: ConsumeQueue, group: str, topic: str) -> bool:
        """Return whether a queue was added to a topic of which the group popped others before; see `CommittedOffsets`.

        Only known of groups that began since the broker's start: older ones have no time of their first commit.
        """
        began_ms = self._offsets.began_ms(group, topic)
        if began_ms is None or queue.min_offset > 0:
            return False
        return began_ms < self._store.earliest_store_time(queue)

    def passed(self, place: Place, offset: int, point: CheckPoint | None = None) -> None:
        """The group goes on at `offset`; `point`: what it was given before."""
        self._check_points.passed(place, offset, point)

    def reset(self, place: Place, offset: int) -> None:
        """The group goes on at `offset`, whatever was before."""
        self._check_points.reset(place)
        group, topic, queue_id = place
        self._offsets.commit(group, topic, queue_id, offset=offset)

    def say(self) -> None:
        """Say what may be said by now."""
        for place, offset in self._check_points.pop_sayable(self._store.flushed_offset):
            group, topic, queue_id = place
            said = self._offsets.get(group, topic, queue_id)
            if said is None or said < offset:
                self._offsets.commit(group, topic, queue_id, offset=offset)

    def restore(self, point: CheckPoint) -> None:
        """A check point of before the start: what it handed out is not handed out at once again."""
        body = point.body
        place = (body.group, body.topic, body.queue_id)
        said = self._offsets.get(*place)
        if not body.offsets:  # A reset.
            self._offsets.commit(*place, offset=body.start_offset)
        elif said is None or body.start_offset >= said:
            self._offsets.commit(*place, offset=body.offsets[-1] + 1)


def _counted(points: Iterable[CheckPoint]) -> Counter[Place]:
    counts: Counter[Place] = Counter()
    for point in points:
        left = point.all_bits & ~point.acknowledged
        counts[point.body.group, point.body.topic, point.body.queue_id] += left.bit_count()
    return counts
