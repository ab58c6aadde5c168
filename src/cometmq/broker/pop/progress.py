"""How far each group has popped each queue, and how far that may be said.

The group's offset in the table of offsets is what a start goes on from. It passes what was handed
out once a check point of it is on the device, or all of it is acknowledged; until then the place is
known here only.

Next: cometmq.broker.pop.reading
"""

from collections import deque

from cometmq.broker.offsets import Offsets
from cometmq.broker.pop.check_points import CheckPoint
from cometmq.codec.headers.pop import FROM_MIN
from cometmq.model.names import is_retry_topic
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.message_store import MessageStore

Place = tuple[str, str, int]  # Group, topic, queue.


class Progress:
    """The places of all groups that pop.

    Attributes:
        busy: places that are being read; nobody else may pop there.
    """

    def __init__(self, offsets: Offsets, store: MessageStore) -> None:
        self.busy: set[Place] = set()
        self._offsets = offsets
        self._store = store
        # What was handed out and not said yet: (check point or None, physical offset behind its
        # record, queue offset behind its messages).
        self._open: dict[Place, deque[tuple[CheckPoint | None, int, int]]] = {}

    def next_offset(self, place: Place) -> int | None:
        """Where the next pop begins; None where the group has never been."""
        group, topic, queue_id = place
        said = self._offsets.get(group, topic, queue_id)
        open_ = self._open.get(place)
        if open_:
            return open_[-1][2] if said is None else max(open_[-1][2], said)
        return said

    def begin(self, place: Place, queue: ConsumeQueue | None, init_mode: int) -> int:
        """Where a group begins that has never been here (PopMessageProcessor.getInitOffset)."""
        group, topic, queue_id = place
        offset = 0
        if queue is not None:
            is_from_min = init_mode == FROM_MIN or is_retry_topic(topic)
            is_from_min = is_from_min or self._is_young(queue, topic, queue_id)
            offset = queue.min_offset if is_from_min else max(queue.max_offset - 1, 0)
        self._offsets.commit(group, topic, queue_id, offset=offset)
        return offset

    def _is_young(self, queue: ConsumeQueue, topic: str, queue_id: int) -> bool:
        """Whether the queue still has its first message, and that counts as being in memory."""
        if queue.min_offset > 0:
            return False
        return not self._store.get(topic, queue_id, 0, max_count=1).suggest_slave

    def moved(self, place: Place, offset: int, point: CheckPoint | None = None) -> None:
        """The group goes on at `offset`; `point`: what it was given before."""
        end = 0
        if point is not None:
            end, point.is_said = point.end, False
        self._open.setdefault(place, deque()).append((point, end, offset))

    def reset(self, place: Place, offset: int) -> None:
        """The group goes on at `offset`, whatever was before."""
        for point, _, _ in self._open.pop(place, ()):
            if point is not None:
                point.is_said = True
        group, topic, queue_id = place
        self._offsets.commit(group, topic, queue_id, offset=offset)

    def settle(self) -> None:
        """Say what may be said by now."""
        flushed = self._store.flushed_offset
        for place in list(self._open):
            open_ = self._open[place]
            offset = None
            while open_:
                point, end, behind = open_[0]
                if point is not None:
                    if not point.is_done and end > flushed:
                        break
                    point.is_said = True
                offset = behind
                open_.popleft()
            if not open_:
                del self._open[place]
            if offset is not None:
                self._say(place, offset)

    def _say(self, place: Place, offset: int) -> None:
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
