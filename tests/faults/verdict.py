"""Judges the books that clients kept under faults: what was acknowledged is there, once, in order, and was consumed."""

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.faults.clients import FILL, ORDERED, QUEUES, SHARED, TO_ONE_QUEUE

SLOT_SECONDS = 0.5  # A slot with an acknowledgement counts as writable.

Place = tuple[int, int]  # Queue id and queue offset.
Period = tuple[float, float]  # Begin and end, s.


class Acknowledged(NamedTuple):
    """An acknowledgement: when, which message of which producer, and where it is stored."""

    at: float
    producer: int
    number: int
    place: Place

    @property
    def start(self) -> str:
        """How the body begins."""
        return f"{self.producer}-{self.number}-"


class Delivery(NamedTuple):
    """A message as a listener got it."""

    at: float
    group: str
    place: Place
    body: str


class Seen:
    """All that the clients have noted so far.

    Attributes:
        acknowledged: in the order of time.
        errors: how often sends failed, by the class of the error.
        deliveries: in the order of time.
    """

    def __init__(self, producers: Iterable[Path], consumers: Iterable[Path]) -> None:
        self.acknowledged: list[Acknowledged] = []
        self.errors: Counter[str] = Counter()
        for at, producer, number, *rest in _rows(producers):
            if len(rest) == 1:
                self.errors[rest[0].partition(":")[0]] += 1
            else:
                self.acknowledged.append(Acknowledged(at, producer, number, tuple(rest)))
        self.deliveries = [
            Delivery(at, group, (queue_id, offset), body)
            for at, group, queue_id, offset, body in _rows(consumers)
        ]

    def is_all_delivered(self) -> bool:
        """Whether each group got each acknowledged message."""
        wanted = {each.start for each in self.acknowledged}
        return all(wanted <= self._got(group) for group in (ORDERED, SHARED))

    def _got(self, group: str) -> set[str]:
        return {_start(each.body) for each in self.deliveries if each.group == group}

    def judge(self, stored: Sequence[Sequence[tuple[int, str]]]) -> None:
        """Compare with what is stored, by queue (offset, body) of all messages.

        Raises:
            AssertionError: Something is lost, at two places of one queue, at a place of another message, or out of order.
        """
        for found in stored:
            assert [offset for offset, _ in found] == list(range(len(found)))
        at = {
            (queue_id, offset): body
            for queue_id, found in enumerate(stored)
            for offset, body in found
        }
        lost = [
            each
            for each in self.acknowledged
            if not at.get(each.place, "").startswith(each.start)
        ]
        assert not lost, f"{len(lost)} acknowledged are not at their place, as {lost[:3]}"
        other = [each for each in self.deliveries if at.get(each.place) != each.body]
        assert not other, f"{len(other)} deliveries of what is not there, as {other[:3]}"
        assert self.is_all_delivered()
        for queue_id in range(QUEUES):
            self._judge_order(queue_id, [body for _, body in stored[queue_id]])

    def _judge_order(self, queue_id: int, bodies: Sequence[str]) -> None:
        if queue_id in TO_ONE_QUEUE:
            own = Counter(
                _start(each)
                for each in bodies
                if each.startswith(f"{queue_id}-") and each.endswith(FILL)
            )
            twice = [each for each, count in own.items() if count > 1]
            assert not twice, f"queue {queue_id}: {len(twice)} are there again, as {twice[:3]}"
            sent = [each.place[1] for each in self.acknowledged if each.producer == queue_id]
            assert sent == sorted(sent), f"queue {queue_id}: later messages are before others"
        firsts: list[int] = []
        known: set[int] = set()
        for each in self.deliveries:
            if each.group == ORDERED and each.place[0] == queue_id:
                if each.place[1] not in known:
                    firsts.append(each.place[1])
                known.add(each.place[1])
        assert firsts[:1] == [0], f"queue {queue_id}: deliveries do not begin with the first"
        skipped = [
            (before, after)
            for before, after in itertools.pairwise(firsts)
            if after != before + 1
        ]
        assert not skipped, f"queue {queue_id}: deliveries out of order, as {skipped[:3]}"

    def writable(self, without_majority: Sequence[Period]) -> float:
        """Return the share of time with acknowledgements, of the time in which a majority was connected."""
        first, last = self.acknowledged[0].at, self.acknowledged[-1].at
        has_some: defaultdict[int, bool] = defaultdict(bool)
        for each in self.acknowledged:
            has_some[int((each.at - first) / SLOT_SECONDS)] = True
        slots = [
            has_some[slot]
            for slot in range(int((last - first) / SLOT_SECONDS))
            if not any(
                begin < first + (slot + 1) * SLOT_SECONDS and first + slot * SLOT_SECONDS < end
                for begin, end in without_majority
            )
        ]
        return sum(slots) / len(slots)

    def longest_gap(self, begin: float, end: float) -> float:
        """Return the longest time without an acknowledgement that ends in a period, s."""
        times = [each.at for each in self.acknowledged]
        gaps = [after - at for at, after in itertools.pairwise(times) if begin <= after < end]
        return max(gaps, default=0.0)


def _start(body: str) -> str:
    return body.rpartition("-")[0] + "-"


def _rows(paths: Iterable[Path]) -> list[list]:
    """All whole lines of some books, in the order of time."""
    lines = [
        line
        for path in paths
        if path.exists()
        for line in path.read_text().splitlines(keepends=True)
    ]
    return sorted(json.loads(line) for line in lines if line.endswith("\n"))
