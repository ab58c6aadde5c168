"""The check points of popped messages: which are open, which of their records a start needs, and how far groups may commit.

A state machine without I/O, which is done by `journal` and `revive`; a start rebuilds it from the journal. Some methods
take input: pops, acknowledgements, written records, the flushed offset, the time. Others return what is to be done: due
check points, acknowledgements to record, records to rewrite, offsets to commit. A check point is OPEN while one of its
messages is neither acknowledged, retried nor dropped; it can then be found by its handle.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from enum import IntEnum, auto
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import NamedTuple

from cometmq.codec.bodies.pop_journal import AckBody, CheckPointBody
from cometmq.model.text import printable

OPEN_MAX = 500_000  # Check points, 1 KB each; beyond this, no more messages can be popped.
PERIOD_MS = 100  # Precision of the due time.
# A record is written again if more than this many newer ones follow, or four times as many as there are open check points:
# a start reads from the oldest needed record on.
BEHIND_MAX = 100_000
_NEEDED_SHARE = 4
# The heap of due times is rebuilt when it has this many empty periods more than used ones.
GONE_MAX = 1_000

_NEVER = 1 << 63  # Greater than any log offset.

# Topic, group, queue, start offset, time of the pop.
Key = tuple[str, str, int, int, int]
Place = tuple[str, str, int]  # Group, topic, queue.


class PointState(IntEnum):
    """The state of a check point: OPEN, DONE (no message is left), or FORGOTTEN (no start needs its record any more)."""

    OPEN = auto()  # Some of its messages are neither acknowledged nor retried.
    DONE = auto()  # No message is left; a start may still need its record.
    # Its record is not needed: the group's offset, which is on disk, has passed it.
    FORGOTTEN = auto()


class PointEvent(IntEnum):
    """An event of a check point: all is acknowledged, the rest retried or dropped, its record not needed, or a retry lost."""

    ALL_ACKNOWLEDGED = auto()
    HANDED_ON = auto()  # The rest was put into the retry topic, or its topic or group is gone.
    NOT_NEEDED = auto()
    TAKEN_BACK = auto()  # The log was truncated before the record of the retry.


_NEXT = {
    (PointState.OPEN, PointEvent.ALL_ACKNOWLEDGED): PointState.DONE,
    (PointState.OPEN, PointEvent.HANDED_ON): PointState.DONE,
    (PointState.DONE, PointEvent.NOT_NEEDED): PointState.FORGOTTEN,
    (PointState.DONE, PointEvent.TAKEN_BACK): PointState.OPEN,
}


class CheckPoint:
    """Messages of a queue that a group popped at once, or one whose invisible time was changed; or a reset, with none.

    Attributes:
        body: The content of its record: messages, group, pop time and invisible time.
        revive_queue: Number of the revive queue for its record.
        acknowledged: Bits of the messages that are acknowledged, retried or dropped; the lowest is the first message.
        handed_on: Bits of the messages that were retried or dropped when they were due.
        recorded: Bits of the messages whose acknowledgement by the group is recorded.
        place: Queue offset of its newest record; -1 if it has none yet.
        end: Physical offset after the last of its records that must be flushed.
        is_said: False while an offset of the group after it waits to be committed; until then a start needs its record.
        has_replaced: Whether one of its messages has a new handle, after a change of its invisible time.
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
        # A check point without messages, or written with all of them acknowledged, is done.
        self.state = PointState.DONE if self.acknowledged == self.all_bits else PointState.OPEN
        self.place = -1
        self.end = 0
        self.is_said = True
        self.has_replaced = False

    def __str__(self) -> str:
        body = self.body
        queue = f"queue {body.queue_id} of topic {printable(body.topic)}"
        return f"the messages that group {printable(body.group)} popped from {queue} at offset {body.start_offset}"

    @property
    def key(self) -> Key:
        """The topic, group, queue id, start offset and pop time by which an acknowledgement names the check point."""
        body = self.body
        return body.topic, body.group, body.queue_id, body.start_offset, body.pop_time_ms

    @property
    def all_bits(self) -> int:
        """The value of `acknowledged` when no message is left, with one bit per message."""
        return (1 << len(self.body.offsets)) - 1

    @property
    def due_ms(self) -> int:
        """The earliest time at which the remaining messages are delivered again, epoch ms."""
        return self.body.pop_time_ms + self.body.invisible_ms

    def offsets_of(self, bits: int) -> tuple[int, ...]:
        """Return the queue offsets of the messages of these bits (the lowest is the first message)."""
        if bits == self.all_bits:
            return self.body.offsets
        return tuple(
            offset for place, offset in enumerate(self.body.offsets) if bits >> place & 1
        )

    def left(self) -> tuple[int, ...]:
        """Return the queue offsets of the messages that are neither acknowledged nor retried nor dropped."""
        return self.offsets_of(~self.acknowledged)

    def ack_of(self, bits: int) -> AckBody:
        """Return the acknowledgement record of the messages of these bits."""
        body = self.body
        return AckBody(
            body.topic, body.group, body.queue_id, body.start_offset, body.pop_time_ms,
            self.offsets_of(bits), body.broker_name,
        )  # fmt: skip


class WrittenRecord(NamedTuple):
    """The place of a written record, and its size in bytes."""

    queue_offset: int
    physical_offset: int
    size: int


class _Unsaid(NamedTuple):
    """A position of a group after messages that it has popped or skipped; not committed yet.

    Attributes:
        point: The check point of the messages; None if they were skipped.
        end: Physical offset after the record of the check point.
        behind: Queue offset after the messages.
    """

    point: CheckPoint | None
    end: int
    behind: int


class CheckPointTable:
    """The check points of popped messages, except for those popped in order, which have none.

    Attributes:
        on_work: Called when input may have created work, usually only once until `look`.
    """

    def __init__(self, revive_queues: int) -> None:
        self.on_work: Callable[[], None] = lambda: None
        self._is_told = False
        # Check points with unrecorded acknowledgements, oldest first.
        self._changed: dict[CheckPoint, None] = {}
        self._by_key: dict[Key, CheckPoint] = {}
        # Open check points made since this start by a change of the invisible time, by topic, group, queue and offset.
        self._replacing: dict[tuple[str, str, int, int], CheckPoint] = {}
        # Check points by due period; the heap has each of these periods, and some that are empty now.
        self._by_end: dict[int, set[CheckPoint]] = {}
        self._ends: list[int] = []
        # By revive queue, the records that a start needs: (queue offset of the record, check point).
        self._needed: list[deque[tuple[int, CheckPoint]]] = [
            deque() for _ in range(revive_queues)
        ]
        self._unsaid: dict[Place, deque[_Unsaid]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, key: Key) -> bool:
        return key in self._by_key

    def __getitem__(self, key: Key) -> CheckPoint:
        return self._by_key[key]

    def get(self, key: Key) -> CheckPoint | None:
        """Return the open check point with a key, or None."""
        return self._by_key.get(key)

    def points(self) -> list[CheckPoint]:
        """Return the open check points."""
        return list(self._by_key.values())

    def look(self) -> None:
        """Note that the caller now does all work that there is; `on_work` is called again for later input."""
        self._is_told = False

    def _tell(self) -> None:
        if not self._is_told:
            self._is_told = True
            self.on_work()

    # --- input: check points and their records

    def begin(self, point: CheckPoint, written: WrittenRecord) -> None:
        """Add a check point whose record has been written, so that its messages may be delivered."""
        self.rewritten(point, written)
        if point.state is PointState.OPEN:
            self._open(point, point.due_ms)

    def rewritten(self, point: CheckPoint, written: WrittenRecord) -> None:
        """Note that a check point's record was written, with all acknowledgements so far."""
        self._place(point, written)
        point.recorded = point.acknowledged
        self._changed.pop(point, None)

    def begin_again(self, point: CheckPoint, written: WrittenRecord, at_ms: int) -> None:
        """Add a check point read from the revive topic, of an earlier process or another broker; due at `at_ms` (epoch ms).

        If the check point is open here already, only its record's queue and place, its acknowledgements and, if later,
        the end of its invisible time are updated.
        """
        known = self._by_key.get(point.key)
        if known is not None:  # Its record was rewritten.
            known.revive_queue = point.revive_queue
            self._place(known, written)
            if point.due_ms > known.due_ms:
                self.extend(known, point.body.invisible_ms)
            self.acknowledge_bits(known, point.acknowledged)
            return
        self._place(point, written)
        if point.state is PointState.OPEN:
            self._open(point, at_ms)

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
        """Acknowledge messages; unknown and already acknowledged ones are ignored."""
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
        """Acknowledge messages of an open check point, given by their bits; close it if no message is left."""
        if bits & ~point.acknowledged:
            assert point.state is PointState.OPEN, "nothing is left of the others"
            point.acknowledged |= bits
            self._changed[point] = None
            self._tell()
            if point.acknowledged == point.all_bits:
                self._close(point, PointEvent.ALL_ACKNOWLEDGED)

    def is_open(self, key: Key, offset: int) -> bool:
        """Return whether an open check point has this key, and its message is neither acknowledged nor retried."""
        point = self._by_key.get(key)
        return point is not None and offset in point.left()

    def is_replaced(self, key: Key, offset: int) -> bool:
        """Return whether a message has a newer handle than this one, because its invisible time was changed.

        Newer handles whose check point is done, or that an earlier process made, are not known.
        """
        topic, group, queue_id, *_ = key
        other = self._replacing.get((topic, group, queue_id, offset))
        return other is not None and other.key != key and not self.is_open(key, offset)

    def replaced(self, key: Key, offset: int, point: CheckPoint) -> None:
        """Note that a message got its own check point, and so a new handle, because its invisible time was changed.

        In the old check point, the message counts as acknowledged.
        """
        self._by_key[key].has_replaced = True
        self.acknowledge(key, (offset,))
        if point.state is PointState.OPEN:
            self._replacing[point.key[:4]] = point

    def new_pop_time(self, old: Key, offset: int, now_ms: int) -> int:
        """Return a pop time for a message that is hidden again, so that its new check point gets a new key.

        With the same key, the due time or acknowledgement of the old check point would apply to the new one. The
        acknowledgement of the old one is recorded after the new check point, so the new time must also be later than
        the old one.
        """
        topic, group, queue_id, _, pop_time_ms = old
        at_ms = max(now_ms, pop_time_ms + 1)
        while (topic, group, queue_id, offset, at_ms) in self._by_key:
            at_ms += 1
        return at_ms

    def forget(self, is_gone: Callable[[str, str], bool]) -> None:
        """Close check points and drop uncommitted offsets of deleted topics or groups; `is_gone` gets topic and group.

        Their messages are not delivered again.
        """
        for point in self.points():
            if is_gone(point.body.topic, point.body.group):
                self.acknowledge_bits(point, point.all_bits)
        for place in [place for place in self._unsaid if is_gone(place[1], place[0])]:
            self.reset(place)

    # --- time

    def pop_due(self, now_ms: int) -> list[CheckPoint]:
        """Unschedule and return the check points that are due, by due time; some of them may be done already."""
        last = now_ms // PERIOD_MS
        due: list[CheckPoint] = []
        while self._ends and self._ends[0] <= last:
            due.extend(self._by_end.pop(heappop(self._ends), ()))
        return sorted(due, key=lambda point: point.due_ms)

    def next_due_ms(self) -> int | None:
        """Return when `pop_due` should be called next, epoch ms, maybe in vain; None if it need not be called."""
        return self._ends[0] * PERIOD_MS if self._ends else None

    def again_at(self, point: CheckPoint, at_ms: int) -> None:
        """Schedule a check point to be due at `at_ms` (epoch ms), also one that was due and could not be retried."""
        period = _period(at_ms)
        ends = self._by_end.get(period)
        if ends is None:
            ends = self._by_end[period] = set()
            heappush(self._ends, period)
        ends.add(point)

    def extend(self, point: CheckPoint, invisible_ms: int) -> None:
        """Change how long the messages of an open check point are hidden, counted from their pop; their handles stay."""
        self._unschedule(point)
        point.body = replace(point.body, invisible_ms=invisible_ms)
        self.again_at(point, point.due_ms)

    def release(self, point: CheckPoint, now_ms: int) -> None:
        """Let the remaining messages of a check point be delivered again now; does nothing if it is done."""
        if point.state is PointState.OPEN:
            self._unschedule(point)
            self.again_at(point, now_ms)
            self._tell()

    def handed_on(self, point: CheckPoint, written: WrittenRecord) -> None:
        """Note that the rest of a check point was put into the retry topic or dropped, as the record `written` says."""
        point.end = max(point.end, written.physical_offset + written.size)
        point.handed_on = point.all_bits & ~point.acknowledged
        point.acknowledged = point.all_bits
        self._changed.pop(point, None)
        self._close(point, PointEvent.HANDED_ON)

    def _close(self, point: CheckPoint, event: PointEvent) -> None:
        _move(point, event)
        self._tell()
        # A check point that was read twice is known once, so the key may belong to another one.
        self._by_key.pop(point.key, None)
        if self._replacing and self._replacing.get(point.key[:4]) is point:
            del self._replacing[point.key[:4]]
        self._unschedule(point)

    def _unschedule(self, point: CheckPoint) -> None:
        period = _period(point.due_ms)
        ends = self._by_end.get(period)
        if ends is not None:
            ends.discard(point)
            if not ends:
                del self._by_end[period]
                # Check points that are acknowledged at once leave many empty periods in the heap.
                if len(self._ends) > 2 * len(self._by_end) + GONE_MAX:
                    self._ends = list(self._by_end)
                    heapify(self._ends)

    # --- the log is truncated

    def truncated(self, end: int, end_of: Callable[[str, int], int]) -> list[CheckPoint]:
        """Adapt to a log that ends at physical offset `end` now; return the check points to be written again.

        Messages that the log has lost are forgotten, and retries that it has lost are undone. `end_of` returns the
        queue offset after the last message of a topic's queue.
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
        # Acknowledgements may be lost with the end of the log; a rewritten record contains all of them.
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
                    each.point.is_said = True  # Nobody commits it: its messages are gone.
            elif each.end > end:
                yield each._replace(end=_NEVER)  # It is committed when the check point is done.
            else:
                yield each

    def forget_places(self, revive_queue: int, behind: int) -> None:
        """Forget the records at or after a revive queue's new end (`behind`)."""
        needed = self._needed[revive_queue]
        self._needed[revive_queue] = deque(each for each in needed if each[0] < behind)

    # --- output: records

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing of the pops has to be recorded or committed until new input arrives (`on_work`)."""
        return not (self._changed or self._unsaid) and all(
            not needed or needed[0][1].state is PointState.OPEN for needed in self._needed
        )

    def unrecorded(self, count_max: int) -> list[tuple[CheckPoint, int]]:
        """Return at most `count_max` check points with acknowledgements to record, and the bits of these."""
        return [
            (point, point.acknowledged & ~point.recorded)
            for point in islice(self._changed, count_max)
        ]

    def recorded(self, point: CheckPoint, bits: int) -> None:
        """Note that the record of an acknowledgement was written."""
        point.recorded |= bits
        if point.recorded == point.acknowledged:
            del self._changed[point]

    def pop_far_behind(self, revive_queue: int, read_to: int) -> CheckPoint | None:
        """Return the check point with the oldest needed record of a revive queue if that makes a start slow, else None.

        The table no longer counts the record: the caller writes it again, or calls `keep_record`. `read_to` is the
        queue offset up to which the revive queue has been read.
        """
        needed = self._needed[revive_queue]
        while needed:
            place, point = needed[0]
            if read_to - place <= max(BEHIND_MAX, len(self) * _NEEDED_SHARE):
                return None
            needed.popleft()
            # If the place differs, its record was rewritten before.
            if point.place == place and not (point.state is PointState.DONE and point.is_said):
                return point
        return None

    def keep_record(self, point: CheckPoint) -> None:
        """Count the record of a check point from `pop_far_behind` as needed again, because it could not be rewritten."""
        self._needed[point.revive_queue].appendleft((point.place, point))

    def first_needed(self, revive_queue: int, flushed: int) -> int | None:
        """Return the queue offset of the first record that a start needs, and forget the records before it.

        `flushed` is the physical offset to which the log is flushed. Returns None if no record is needed.
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

    # --- output: offsets of groups

    @property
    def has_unsaid(self) -> bool:
        """Whether any group has offsets that are not committed yet (see `next_offset`)."""
        return bool(self._unsaid)

    def next_offset(self, place: Place) -> int | None:
        """Return the offset after what a group popped or skipped in a queue, if it is not committed yet, else None."""
        unsaid = self._unsaid.get(place)
        return unsaid[-1].behind if unsaid else None

    def passed(self, place: Place, behind: int, point: CheckPoint | None = None) -> None:
        """Note the queue offset at which a group goes on, `behind` the messages of `point` (None: skipped ones), for a later commit."""
        end = 0
        if point is not None:
            end, point.is_said = point.end, False
        self._unsaid.setdefault(place, deque()).append(_Unsaid(point, end, behind))
        self._tell()

    def reset(self, place: Place) -> None:
        """Forget the uncommitted offsets of a group that pops a queue, for example because its offset was set."""
        for unsaid in self._unsaid.pop(place, ()):
            if unsaid.point is not None:
                unsaid.point.is_said = True

    def pop_sayable(self, flushed: int) -> list[tuple[Place, int]]:
        """Remove and return offsets to commit, the last of each queue: check points before them are flushed or done."""
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
    assert state is not None, f"{point}: {event.name} is impossible in state {point.state.name}"
    point.state = state


def _period(at_ms: int) -> int:
    # Rounded up, so that a check point never ends early.
    return -(-at_ms // PERIOD_MS)
