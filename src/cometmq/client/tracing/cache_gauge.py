"""Exports the number and bytes of messages cached by push consumers with `telemetry`, as OpenTelemetry gauges.

Names and labels are those of RocketMQ's own clients (rocketmq-clients, GaugeEnum and MetricLabels). The program's
provider, if it has one, reads the values when it exports, usually in its own thread.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache

from opentelemetry import metrics

from cometmq.client.connection.instance import ClientInstance

# Returns the number of messages and the bytes of their bodies, by topic.
Cached = Callable[[], Mapping[str, tuple[int, int]]]

_NAMES = {
    "rocketmq_consumer_cached_messages": "Messages that wait for a listener or are being consumed by one.",
    "rocketmq_consumer_cached_bytes": "Bytes of the bodies of cached messages.",
}


class CacheGauge:
    """The gauge values of one push consumer, read in any thread with `cached` and exported until `close`."""

    def __init__(self, instance: ClientInstance, group: str, cached: Cached) -> None:
        self._labels = {"client_id": instance.client_id, "consumer_group": group}
        self._cached = cached
        _of_consumers.add(self)
        _make()

    def close(self) -> None:
        """Stop exporting the values of this consumer."""
        _of_consumers.discard(self)

    def observed(self, place: int) -> Iterable[metrics.Observation]:
        """Yield a value for each topic: the number of cached messages (place 0), or the bytes of their bodies (place 1)."""
        for topic, counts in self._cached().items():
            yield metrics.Observation(counts[place], {"topic": topic, **self._labels})


_of_consumers: set[CacheGauge] = set()


@cache
def _make() -> None:
    """Create the instruments, once: OpenTelemetry ignores a second instrument with the same name."""
    meter = metrics.get_meter("cometmq")
    for place, (name, description) in enumerate(_NAMES.items()):
        meter.create_observable_gauge(name, [_reader(place)], description=description)


def _reader(place: int) -> Callable[[metrics.CallbackOptions], list[metrics.Observation]]:
    def read(_options: metrics.CallbackOptions) -> list[metrics.Observation]:
        return [each for one in list(_of_consumers) for each in one.observed(place)]

    return read
