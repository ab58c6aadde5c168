"""The check points of popped messages, as a machine: what is open, their records, and how far groups may be said to be.

Input comes in by its methods: a pop that hands out, an acknowledgement, a record of the revive topic, what a write
gave, how far the log is on the device, the time. What is to be done goes out: check points that are due,
acknowledgements to be put on record, records to be written anew, offsets that may be said. It reads and writes nothing
itself (`journal` and `revive` do), and is made again from the journal at a start.

A check point is in one of the states of `PointState`. It is found by its handle, and has an end, while it is OPEN; its
record is needed until it is FORGOTTEN.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum, auto
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import NamedTuple

from cometmq.codec.bodies.pop_journal import AckBody, CheckPointBody

OPEN_MAX = 500_000  # Check points, 1 KB each; beyond it nothing more is handed out.
PERIOD_MS = 100  # How exactly a check point ends.
# Records that a start may have to read for one open check point, where fewer than a quarter of them
# are needed: to write many anew would only move them on.
BEHIND_MAX = 100_000
_NEEDED_SHARE = 4
# Periods in the heap of ends in which nothing ends any more, beyond as many as have something.
GONE_MAX = 1_000

_NEVER = 1 << 63  # Beyond any log.

# Topic, group, queue, start offset, time of the pop.
Key = tuple[str, str, int, int, int]
Place = tuple[str, str, int]  # Group, topic, queue.


class PointState(IntEnum):
    """The state of a check point."""

    OPEN = auto()  # Some message of it is neither acknowledged nor handed on.
    DONE = auto()  # Nothing is left of it; a start may still need its record.
    FORGOTTEN = auto()  # Neither is needed: the group's offset has passed it, on the device.


class PointEvent(IntEnum):
    """An event that changes the state of a check point."""

    ALL_ACKNOWLEDGED = auto()
    HANDED_ON = auto()  # What was left is in the retry topic, or nobody wants it.
    NOT_NEEDED = auto()
    TAKEN_BACK = auto()  # The log was truncated before where it was handed on.


_NEXT = {
    (PointState.OPEN, PointEvent.ALL_ACKNOWLEDGED): PointState.DONE,
    (PointState.OPEN, PointEvent.HANDED_ON): PointState.DONE,
    (PointState.DONE, PointEvent.NOT_NEEDED): PointState.FORGOTTEN,
    (PointState.DONE, PointEvent.TAKEN_BACK): PointState.OPEN,
}


class CheckPoint:
    """Messages of a queue that a group was given with one pop.

    Attributes:
        body: which, to whom, until when.
        revive_queue: of its record.
        acknowledged: bits, the lowest for its first message.
        handed_on: those of them that were not acknowledged, but handed on.
        recorded: those of them that are on record.
        state: how far it is.
        place: queue offset of its record; -1: it has none yet.
        end: physical offset behind the last record that it needs to be on the device.
        is_said: whether the group's offset has passed it; until then a start needs its record.
        has_replaced: whether a message of it has a new handle, by a change of its invisible time.
    """

    __slots__ = (
        "acknowledged",
        "body",
        "end",
        "handed_on",
        "has_replaced",
        "is_said",
        "place",
        "recorded",
        "revive_queue",
        "state",
    )

    def __init__(self, body: CheckPointBody, revive_queue: int) -> None:
        self.body = body
        self.revive_queue = revive_queue
        self.acknowledged = self.recorded = body.acknowledged
        self.handed_on = 0
        # One without messages, and one that was acknowledged when it was written, has nothing left.
        self.state = PointState.DONE if self.acknowledged == self.all_bits else PointState.OPEN
        self.place = -1
        self.end = 0
        self.is_said = True
        self.has_replaced = False

    def __repr__(self) -> str:
        """Of what, and how much of it is done with."""
        return (
            f"<CheckPoint {self.body} {self.state.name} {self.acknowledged:b} at {self.place}>"
        )

    @property
    def key(self) -> Key:
        """The key by which a handle names the check point."""
        body = self.body
        return body.topic, body.group, body.queue_id, body.start_offset, body.pop_time_ms

    @property
    def all_bits(self) -> int:
        """`acknowledged` when nothing is left."""
        return (1 << len(self.body.offsets)) - 1

    @property
    def due_ms(self) -> int:
        """The time at which the rest of the check point is delivered again, ms since 1970."""
        return self.body.pop_time_ms + self.body.invisible_ms

    def offsets_of(self, bits: int) -> tuple[int, ...]:
        """The queue offsets that these bits stand for."""
        if bits == self.all_bits:
            return self.body.offsets
        return tuple(
            offset for place, offset in enumerate(self.body.offsets) if bits >> place & 1
        )

    def left(self) -> tuple[int, ...]:
        """The queue offsets of messages that are neither acknowledged nor handed on."""
        return self.offsets_of(~self.acknowledged)

    def ack_of(self, bits: int) -> AckBody:
        """The acknowledgement that these bits stand for."""
        body = self.body
        return AckBody(
            body.topic, body.group, body.queue_id, body.start_offset, body.pop_time_ms,
            self.offsets_of(bits), body.broker_name,
        )  # fmt: skip


class WrittenRecord(NamedTuple):
    """The place and size of a written record."""

    queue_offset: int
    physical_offset: int
    size: int


class _Unsaid(NamedTuple):
    """Messages that were handed out or passed over, and may not be counted as consumed yet.

    Attributes:
        point: None where messages were passed over.
        end: physical offset behind its record.
        behind: queue offset behind its messages.
    """

    point: CheckPoint | None
    end: int
    behind: int


class CheckPointTable:
    """The check points of all that is handed out.

    Attributes:
        on_work: told when something came in that time, or a write, has to follow; once, until somebody looks.
    """

    def __init__(self, revive_queues: int) -> None:
        """Nothing is handed out; the revive topic has so many queues."""
        self.on_work: Callable[[], None] = lambda: None
        self._is_told = False
        # Those with acknowledgements that are not on record, in the order in which they came.
        self._changed: dict[CheckPoint, None] = {}
        self._by_key: dict[Key, CheckPoint] = {}
        # Open ones that a change of the invisible time made since this start, by topic, group, queue and offset.
        self._replacing: dict[tuple[str, str, int, int], CheckPoint] = {}
        # By the period in which they end; the heap has each such period, and some that are gone.
        self._by_end: dict[int, set[CheckPoint]] = {}
        self._ends: list[int] = []
        # By revive queue: whose records a start needs, (place of the record, check point).
        self._needed: list[deque[tuple[int, CheckPoint]]] = [
            deque() for _ in range(revive_queues)
        ]
        self._unsaid: dict[Place, deque[_Unsaid]] = {}

    def __len__(self) -> int:
        """The number of open check points."""
        return len(self._by_key)

    def __contains__(self, key: Key) -> bool:
        return key in self._by_key

    def __getitem__(self, key: Key) -> CheckPoint:
        return self._by_key[key]

    def points(self) -> list[CheckPoint]:
        """The open check points."""
        return list(self._by_key.values())

    def look(self) -> None:
        """Whoever does the work looks at what there is: of what comes from now on it is told again."""
        self._is_told = False

    def _tell(self) -> None:
        if not self._is_told:
            self._is_told = True
            self.on_work()

    # --- what comes in: check points and their records

    def begin(self, point: CheckPoint, written: WrittenRecord) -> None:
        """A check point is on record: its messages may be handed out."""
        self.rewritten(point, written)
        if point.state is PointState.OPEN:
            self._open(point, point.due_ms)

    def rewritten(self, point: CheckPoint, written: WrittenRecord) -> None:
        """Note that a check point's record was written; what was acknowledged is in it."""
        self._place(point, written)
        point.recorded = point.acknowledged
        self._changed.pop(point, None)

    def begin_again(self, point: CheckPoint, written: WrittenRecord, grace_ms: int) -> None:
        """A record was read: of before this start, or another broker's; it is due `grace_ms` late."""
        known = self._by_key.get(point.key)
        if known is not None:  # It was written anew.
            known.revive_queue = point.revive_queue
            self._place(known, written)
            self.acknowledge_bits(known, point.acknowledged)
            return
        self._place(point, written)
        if point.state is PointState.OPEN:
            self._open(point, point.due_ms + grace_ms)

    def _place(self, point: CheckPoint, written: WrittenRecord) -> None:
        point.place = written.queue_offset
        point.end = written.physical_offset + written.size
        self._needed[point.revive_queue].append((point.place, point))
        self._tell()

    def _open(self, point: CheckPoint, at_ms: int) -> None:
        assert point.state is PointState.OPEN
        self._by_key[point.key] = point
        self.again_at(point, at_ms)

    def acknowledge(self, key: Key, offsets: Iterable[int]) -> None:
        """Messages are done with; what is not known, or was before, is passed over."""
        point = self._by_key.get(key)
        if point is None:
            return
        known = point.body.offsets
        bits = 0
        for offset in offsets:
            if offset in known:
                bits |= 1 << known.index(offset)
        self.acknowledge_bits(point, bits)

    def acknowledge_bits(self, point: CheckPoint, bits: int) -> None:
        """Messages of an open check point are done with, by their places in it."""
        if bits & ~point.acknowledged:
            assert point.state is PointState.OPEN, "nothing is left of the others"
            point.acknowledged |= bits
            self._changed[point] = None
            self._tell()
            if point.acknowledged == point.all_bits:
                self._close(point, PointEvent.ALL_ACKNOWLEDGED)

    def is_open(self, key: Key, offset: int) -> bool:
        """Whether a message of a check point is neither acknowledged nor handed on."""
        point = self._by_key.get(key)
        return point is not None and offset in point.left()

    def is_replaced(self, key: Key, offset: int) -> bool:
        """Return whether a message has another handle now: its invisible time was changed since the one of this key."""
        topic, group, queue_id, *_ = key
        other = self._replacing.get((topic, group, queue_id, offset))
        return other is not None and other.key != key and not self.is_open(key, offset)

    def replaced(self, key: Key, offset: int, point: CheckPoint) -> None:
        """Note that a message of a check point has one of its own now, and so another handle."""
        self._by_key[key].has_replaced = True
        self.acknowledge(key, (offset,))
        if point.state is PointState.OPEN:
            self._replacing[point.key[:4]] = point

    def new_pop_time(self, old: Key, offset: int, now_ms: int) -> int:
        """The pop time with which a message is handed out anew, so that its check point has a new key.

        Else the old one's end, or its acknowledgement, would be the new one's; that is on record behind the new
        one, so that a key is new only if it is later than the old one's.
        """
        topic, group, queue_id, _, pop_time_ms = old
        at_ms = max(now_ms, pop_time_ms + 1)
        while (topic, group, queue_id, offset, at_ms) in self._by_key:
            at_ms += 1
        return at_ms

    def forget(self, is_gone: Callable[[str, str], bool]) -> None:
        """End all check points of deleted topics or groups: their messages are not delivered again.

        Args:
            is_gone: Returns whether a topic, or the group of a check point, is deleted.
        """
        for point in self.points():
            if is_gone(point.body.topic, point.body.group):
                self.acknowledge_bits(point, point.all_bits)
        for place in [place for place in self._unsaid if is_gone(place[1], place[0])]:
            self.reset(place)

    # --- time

    def pop_due(self, now_ms: int) -> list[CheckPoint]:
        """Check points whose time is over; each is given once, or again after `again_at`."""
        last = now_ms // PERIOD_MS
        due: list[CheckPoint] = []
        while self._ends and self._ends[0] <= last:
            due.extend(self._by_end.pop(heappop(self._ends), ()))
        return sorted(due, key=lambda point: point.due_ms)

    def next_due_ms(self) -> int | None:
        """The time when `pop_due` may next give a check point; None: none is open."""
        return self._ends[0] * PERIOD_MS if self._ends else None

    def again_at(self, point: CheckPoint, at_ms: int) -> None:
        """Make a check point due at a time; also one that was due and could not be handed on."""
        period = _period(at_ms)
        ends = self._by_end.get(period)
        if ends is None:
            ends = self._by_end[period] = set()
            heappush(self._ends, period)
        ends.add(point)

    def handed_on(self, point: CheckPoint, written: WrittenRecord) -> None:
        """Note that the rest of a check point was handed on; `written` is the record that says so."""
        point.end = max(point.end, written.physical_offset + written.size)
        point.handed_on = point.all_bits & ~point.acknowledged
        point.acknowledged = point.all_bits
        self._changed.pop(point, None)
        self._close(point, PointEvent.HANDED_ON)

    def _close(self, point: CheckPoint, event: PointEvent) -> None:
        _move(point, event)
        self._tell()
        # The key may be another's by now: a check point that was read twice is known once.
        self._by_key.pop(point.key, None)
        if self._replacing and self._replacing.get(point.key[:4]) is point:
            del self._replacing[point.key[:4]]
        period = _period(point.due_ms)
        ends = self._by_end.get(period)
        if ends is not None:
            ends.discard(point)
            if not ends:
                del self._by_end[period]
                # A period comes anew with each check point that is alone in it: a pop that is acknowledged at once.
                if len(self._ends) > 2 * len(self._by_end) + GONE_MAX:
                    self._ends = list(self._by_end)
                    heapify(self._ends)

    # --- the log is truncated

    def truncated(self, end: int, end_of: Callable[[str, int], int]) -> list[CheckPoint]:
        """The log ends here now. What lies behind is let go; what was said there of the rest is not on record.

        Args:
            end: physical offset.
            end_of: the queue offset behind the last message of a topic's queue.

        Returns:
            Check points whose records have to be written anew.
        """
        known = {*self._by_key.values(), *(point for each in self._needed for _, point in each)}
        for point in known:
            if point.state is PointState.DONE and point.handed_on and point.end > end:
                point.acknowledged &= ~point.handed_on
                _move(point, PointEvent.TAKEN_BACK)
                self._open(point, point.due_ms)
            if point.state is PointState.OPEN:
                behind = end_of(point.body.topic, point.body.queue_id)
                offsets = point.body.offsets
                gone = sum(1 << n for n, offset in enumerate(offsets) if offset >= behind)
                self.acknowledge_bits(point, gone)
        for place, unsaid in list(self._unsaid.items()):
            self._unsaid[place] = deque(self._left_unsaid(unsaid, end, end_of(*place[1:])))
            if not self._unsaid[place]:
                del self._unsaid[place]
        self.on_work()
        # Acknowledgements may lie behind the new end; with a record anew nobody has to know which do.
        return [
            point
            for point in known
            if point.state is PointState.OPEN and (point.end > end or point.recorded)
        ]

    @staticmethod
    def _left_unsaid(unsaid: Iterable[_Unsaid], end: int, behind: int) -> Iterator[_Unsaid]:
        for each in unsaid:
            if each.behind > behind:
                if each.point is not None:
                    each.point.is_said = True  # By nobody: its messages are gone.
            elif each.end > end:
                yield each._replace(end=_NEVER)  # It is said when the point is done with.
            else:
                yield each

    def forget_places(self, revive_queue: int, behind: int) -> None:
        """The revive queue ends here now: no record stands there any more."""
        needed = self._needed[revive_queue]
        self._needed[revive_queue] = deque(each for each in needed if each[0] < behind)

    # --- what goes out: records

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is to be put on record, or said, before something comes in (`on_work`)."""
        return not (self._changed or self._unsaid) and all(
            not needed or needed[0][1].state is PointState.OPEN for needed in self._needed
        )

    def unrecorded(self, count_max: int) -> list[tuple[CheckPoint, int]]:
        """Acknowledgements that are not on record, the first that came: of which point, which bits."""
        return [
            (point, point.acknowledged & ~point.recorded)
            for point in islice(self._changed, count_max)
        ]

    def recorded(self, point: CheckPoint, bits: int) -> None:
        """The record of an acknowledgement was written."""
        point.recorded |= bits
        if point.recorded == point.acknowledged:
            del self._changed[point]

    def pop_far_behind(self, revive_queue: int, read_to: int) -> CheckPoint | None:
        """One whose record makes a start long: to be written anew, or given back by `keep_record`.

        Args:
            revive_queue: of its record.
            read_to: where the queue is read to.
        """
        needed = self._needed[revive_queue]
        while needed:
            place, point = needed[0]
            if read_to - place <= max(BEHIND_MAX, len(self) * _NEEDED_SHARE):
                return None
            needed.popleft()
            # One of another place was written anew before.
            if point.place == place and not (point.state is PointState.DONE and point.is_said):
                return point
        return None

    def keep_record(self, point: CheckPoint) -> None:
        """Keep the old record of a check point that could not be written anew."""
        self._needed[point.revive_queue].appendleft((point.place, point))

    def first_needed(self, revive_queue: int, flushed: int) -> int | None:
        """Place of the first record that a start needs; None: of none.

        Args:
            revive_queue: whose records.
            flushed: physical offset up to which the log is on the device.
        """
        needed = self._needed[revive_queue]
        while needed:
            place, point = needed[0]
            if point.place == place:
                is_done = point.state is PointState.DONE
                if not (is_done and point.is_said and point.end <= flushed):
                    return place
                _move(point, PointEvent.NOT_NEEDED)
            needed.popleft()
        return None

    # --- what goes out: how far groups are

    def next_offset(self, place: Place) -> int | None:
        """Behind all that a group was given of a queue and that is not said yet; None: all of it is."""
        unsaid = self._unsaid.get(place)
        return unsaid[-1].behind if unsaid else None

    def passed(self, place: Place, behind: int, point: CheckPoint | None = None) -> None:
        """A group goes on at `behind`; `point`: what it was given before, None: it was given nothing."""
        end = 0
        if point is not None:
            end, point.is_said = point.end, False
        self._unsaid.setdefault(place, deque()).append(_Unsaid(point, end, behind))
        self._tell()

    def reset(self, place: Place) -> None:
        """A group's offset is set, whatever was before."""
        for unsaid in self._unsaid.pop(place, ()):
            if unsaid.point is not None:
                unsaid.point.is_said = True

    def pop_sayable(self, flushed: int) -> list[tuple[Place, int]]:
        """Take the offsets to which groups may be said to be: all before is on the device, or done."""
        said = []
        for place in list(self._unsaid):
            unsaid = self._unsaid[place]
            offset = None
            while unsaid:
                point, end, behind = unsaid[0]
                if point is not None:
                    if point.state is PointState.OPEN and end > flushed:
                        break
                    point.is_said = True
                offset = behind
                unsaid.popleft()
            if not unsaid:
                del self._unsaid[place]
            if offset is not None:
                said.append((place, offset))
        return said


def _move(point: CheckPoint, event: PointEvent) -> None:
    state = _NEXT.get((point.state, event))
    assert state is not None, f"{point} cannot be moved on by {event.name}"
    point.state = state


def _period(at_ms: int) -> int:
    # Rounded up: never before its time.
    return -(-at_ms // PERIOD_MS)
