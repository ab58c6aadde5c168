"""Counts and durations of events, by the labels of their metric, and gauges that features provide."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from cometmq.broker.counters.latencies import Latencies

# Largest number of label sets, over all names; further ones are not counted.
EVENTS_MAX = 50_000
_LABELS_LENGTH_MAX = 1_024  # Largest total length of an event's labels, characters.


class Gauge(NamedTuple):
    """The current value of a metric.

    Attributes:
        name: The name of the metric (broker.metrics.metric_table).
        labels: The values of its labels, in their order.
        value: The value, in the metric's unit.
    """

    name: str
    labels: tuple[str, ...]
    value: float


class EventCounts:
    """Counts and durations of events since the start, by name and labels.

    Attributes:
        gauges: Callbacks that return current values of features; called when metrics are read; must not wait.
    """

    def __init__(self) -> None:
        self._counts: dict[str, dict[tuple[str, ...], int]] = defaultdict(dict)
        self._latencies: dict[str, dict[tuple[str, ...], Latencies]] = defaultdict(dict)
        self._size = 0
        self.gauges: list[Callable[[], Iterable[Gauge]]] = []

    def add(self, name: str, *labels: str, count: int = 1) -> None:
        """Add to the count of an event; new labels are ignored if they are too long, or too many are known."""
        counts = self._counts[name]
        if labels in counts:
            counts[labels] += count
        elif self._has_room(labels):
            counts[labels] = count

    def took(self, name: str, *labels: str, time_us: int) -> None:
        """Add the duration of an event; new labels are ignored if they are too long, or too many are known."""
        latencies = self.latencies(name, *labels)
        if latencies is not None:
            latencies.add(time_us)

    def latencies(self, name: str, *labels: str) -> Latencies | None:
        """Return the latencies of an event, created if missing; None if too many are known, or labels are too long."""
        latencies = self._latencies[name].get(labels)
        if latencies is None and self._has_room(labels):
            latencies = self._latencies[name][labels] = Latencies()
        return latencies

    def _has_room(self, labels: tuple[str, ...]) -> bool:
        """Reserve room for one more label set; return whether there was room."""
        if self._size >= EVENTS_MAX or sum(map(len, labels)) > _LABELS_LENGTH_MAX:
            return False
        self._size += 1
        return True

    def of(self, name: str) -> dict[tuple[str, ...], int]:
        """Return the counts of an event, by labels; empty if there are none."""
        return dict(self._counts.get(name, {}))

    def times_of(self, name: str) -> dict[tuple[str, ...], Latencies]:
        """Return the latencies of an event, by labels."""
        return dict(self._latencies.get(name, {}))
