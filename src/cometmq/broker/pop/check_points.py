"""What is handed out at present: check points, by what a handle says of them and by when they end.

Nothing here touches a disk; the journal keeps it on record, and makes it again at a start.

Next: cometmq.broker.pop.journal
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from cometmq.codec.bodies.pop_journal import AckBody, CheckPointBody

OPEN_MAX = 500_000  # Check points, 1 KB each; beyond it nothing more is handed out.
PERIOD_MS = 100  # How exactly a check point ends.

# Topic, group, queue, start offset, time of the pop.
Key = tuple[str, str, int, int, int]


class CheckPoint:
    """Messages of a queue that a group was given with one pop.

    Attributes:
        body: which, to whom, until when.
        revive_queue: of its record.
        acknowledged: bits, the lowest for its first message.
        recorded: those of them that are on record.
        place: queue offset of its record; -1: it has none yet.
        end: physical offset behind the last record that it needs to be on the device.
        is_said: whether the group's offset has passed it; until then a start needs its record.
    """

    __slots__ = (
        "acknowledged",
        "body",
        "end",
        "is_said",
        "place",
        "recorded",
        "revive_queue",
    )

    def __init__(self, body: CheckPointBody, revive_queue: int) -> None:
        self.body = body
        self.revive_queue = revive_queue
        self.acknowledged = self.recorded = body.acknowledged
        self.place = -1
        self.end = 0
        self.is_said = True

    def __repr__(self) -> str:
        """Of what, and how much of it is done with."""
        return f"<CheckPoint {self.body} done {self.acknowledged:b} at {self.place}>"

    @property
    def key(self) -> Key:
        """What a handle says of it."""
        body = self.body
        return body.topic, body.group, body.queue_id, body.start_offset, body.pop_time_ms

    @property
    def is_done(self) -> bool:
        """Whether every message was acknowledged or handed on."""
        return self.acknowledged == (1 << len(self.body.offsets)) - 1

    @property
    def due_ms(self) -> int:
        """When what is left of it comes again."""
        return self.body.pop_time_ms + self.body.invisible_ms

    def offsets_of(self, bits: int) -> tuple[int, ...]:
        """The queue offsets that these bits stand for."""
        return tuple(
            offset for place, offset in enumerate(self.body.offsets) if bits >> place & 1
        )

    def ack_of(self, bits: int) -> AckBody:
        """The acknowledgement that these bits stand for."""
        body = self.body
        return AckBody(
            body.topic, body.group, body.queue_id, body.start_offset, body.pop_time_ms,
            self.offsets_of(bits), body.broker_name,
        )  # fmt: skip


class CheckPoints:
    """All check points that are not done.

    Attributes:
        changed: those with acknowledgements that are not on record, in the order in which they
            came.
    """

    def __init__(self) -> None:
        self.changed: dict[CheckPoint, None] = {}
        self._by_key: dict[Key, CheckPoint] = {}
        # By the period in which they end; the heap has each such period, and some that are gone.
        self._by_end: dict[int, set[CheckPoint]] = {}
        self._ends: list[int] = []

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, key: Key) -> bool:
        return key in self._by_key

    def add(self, point: CheckPoint, *, at_ms: int | None = None) -> None:
        """A check point begins; `at_ms`: what is left of it is handed on then, not at its end."""
        self._by_key[point.key] = point
        self.again_at(point, point.due_ms if at_ms is None else at_ms)

    def __getitem__(self, key: Key) -> CheckPoint:
        return self._by_key[key]

    def acknowledge(self, key: Key, offsets: Iterable[int]) -> None:
        """Messages are done with; what is not known, or was before, is passed over."""
        point = self._by_key.get(key)
        if point is None:
            return
        known = point.body.offsets
        self.acknowledge_places(
            point, [known.index(offset) for offset in offsets if offset in known]
        )

    def acknowledge_places(self, point: CheckPoint, places: Iterable[int]) -> None:
        """The same by their places among the messages of an open check point."""
        bits = 0
        for place in places:
            bits |= 1 << place
        if bits & ~point.acknowledged:
            point.acknowledged |= bits
            self.changed[point] = None
            if point.is_done:
                self._end(point)

    def is_open(self, key: Key, offset: int) -> bool:
        """Whether a message of a check point is neither acknowledged nor handed on."""
        point = self._by_key.get(key)
        return point is not None and offset in point.offsets_of(~point.acknowledged)

    def take_due(self, now_ms: int) -> list[CheckPoint]:
        """Check points whose time is over; each is given once, or again after `again_at`."""
        last = now_ms // PERIOD_MS
        due: list[CheckPoint] = []
        while self._ends and self._ends[0] <= last:
            due.extend(self._by_end.pop(heappop(self._ends), ()))
        return sorted(due, key=lambda point: point.due_ms)

    def again_at(self, point: CheckPoint, at_ms: int) -> None:
        """What was due could not be handed on; try again."""
        period = self._period(at_ms)
        ends = self._by_end.get(period)
        if ends is None:
            ends = self._by_end[period] = set()
            heappush(self._ends, period)
        ends.add(point)

    def done(self, point: CheckPoint) -> None:
        """Nothing is left of it."""
        point.acknowledged = (1 << len(point.body.offsets)) - 1
        self.changed.pop(point, None)
        self._end(point)

    def _end(self, point: CheckPoint) -> None:
        self._by_key.pop(point.key, None)
        ends = self._by_end.get(self._period(point.due_ms))
        if ends is not None:
            ends.discard(point)
            if not ends:
                del self._by_end[self._period(point.due_ms)]

    @staticmethod
    def _period(at_ms: int) -> int:
        # Rounded up: never before its time.
        return -(-at_ms // PERIOD_MS)
