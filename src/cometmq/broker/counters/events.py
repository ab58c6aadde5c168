"""Events that are rare, counted by the labels under which metrics show them, and gauges that features offer."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from cometmq.broker.counters.latencies import Latencies

# Of all names together; further ones are not counted.
EVENTS_MAX = 50_000
_LABELS_LENGTH_MAX = 1_024  # Of one event, characters.


class Gauge(NamedTuple):
    """The present value of one metric.

    Attributes:
        name: of the metric (broker.metrics.metric_table).
        labels: the values of its labels, in their order.
        value: in the metric's unit.
    """

    name: str
    labels: tuple[str, ...]
    value: float


class EventCounts:
    """Counts of events since the start, by name and labels.

    Attributes:
        gauges: what features know and nobody counts; each is asked when metrics are shown, and must not wait.
    """

    def __init__(self) -> None:
        self._counts: dict[str, dict[tuple[str, ...], int]] = defaultdict(dict)
        self._latencies: dict[str, dict[tuple[str, ...], Latencies]] = defaultdict(dict)
        self._size = 0
        self.gauges: list[Callable[[], Iterable[Gauge]]] = []

    def add(self, name: str, *labels: str, count: int = 1) -> None:
        """Add to the count of an event."""
        counts = self._counts[name]
        if labels in counts:
            counts[labels] += count
        elif self._has_room(labels):
            counts[labels] = count

    def took(self, name: str, *labels: str, time_us: int, count: int = 1) -> None:
        """Add the duration of an event, `count` times."""
        latencies = self.latencies(name, *labels)
        if latencies is not None:
            latencies.add(time_us, count)

    def latencies(self, name: str, *labels: str) -> Latencies | None:
        """The latencies of an event; None where there are too many names."""
        latencies = self._latencies[name].get(labels)
        if latencies is None and self._has_room(labels):
            latencies = self._latencies[name][labels] = Latencies()
        return latencies

    def _has_room(self, labels: tuple[str, ...]) -> bool:
        """Take room for the labels of one more event, if there is any."""
        if self._size >= EVENTS_MAX or sum(map(len, labels)) > _LABELS_LENGTH_MAX:
            return False
        self._size += 1
        return True

    def of(self, name: str) -> dict[tuple[str, ...], int]:
        """The counts of an event, by labels."""
        return dict(self._counts.get(name, {}))

    def times_of(self, name: str) -> dict[tuple[str, ...], Latencies]:
        """The latencies of an event, by labels."""
        return dict(self._latencies.get(name, {}))
