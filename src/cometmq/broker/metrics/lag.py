"""The lag of consumer groups for metrics, in messages and in time.

Looked at in steps when a page is made; the times need the log, and are read in a thread, of so many queues at most.
"""

from collections.abc import Iterator
from typing import NamedTuple

from cometmq.broker.machines.steps import Steps, elsewhere, turn_end
from cometmq.broker.metrics.page import Sample
from cometmq.broker.parts import Parts
from cometmq.codec.bodies.consumer_offset import TOPIC_GROUP_SEPARATOR
from cometmq.model.names import is_retry_topic, is_system_group, is_system_topic
from cometmq.store.consume_queue import ConsumeQueue

# Groups and topics whose lag is told, and queues of them whose times are read for a page.
ROWS_MAX = 50_000
TIMES_MAX = 2_000
_AT_ONCE = 250  # Groups of topics; 8 queues each take 1 ms then.
_TIMES_AT_ONCE = 100
IN_FLIGHT = "rocketmq_consumer_inflight_messages"


class Lag(NamedTuple):
    """The lag of a group in a topic.

    Attributes:
        labels: group, topic, whether it is for retries, whether it is the system's.
        messages: not consumed.
        in_flight: handed out, not acknowledged.
        oldest: queues with such messages, each with the offset of its first.
    """

    labels: tuple[str, str, str, str]
    messages: int
    in_flight: int
    oldest: list[tuple[ConsumeQueue, int]]


class Lags:
    """The lag of all groups at the last look."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._lags: list[Lag] = []
        self._ages_ms: dict[tuple[str, str, str, str], int] = {}

    def look(self) -> Steps[None]:
        """Look at all groups."""
        lags: list[Lag] = []
        held = self._in_flight()
        for number, (place, offsets) in enumerate(self._parts.offsets.places()[:ROWS_MAX]):
            topic, _, group = place.partition(TOPIC_GROUP_SEPARATOR)
            if not is_system_group(group):
                lags.append(self._lag(group, topic, offsets, held))
            if number % _AT_ONCE == _AT_ONCE - 1:
                yield from turn_end()
        self._lags = lags
        wanted = [lag for lag in lags if lag.oldest]
        ages: dict[tuple[str, str, str, str], int] = {lag.labels: 0 for lag in lags}
        left = TIMES_MAX
        while wanted and left > 0:
            some, wanted = wanted[:_TIMES_AT_ONCE], wanted[_TIMES_AT_ONCE:]
            left -= sum(len(lag.oldest) for lag in some)
            ages.update((yield from elsewhere(lambda some=some: self._ages(some))))  # type: ignore[misc]
        for lag in wanted:
            del ages[lag.labels]  # Nobody looked.
        self._ages_ms = ages

    def _lag(
        self,
        group: str,
        topic: str,
        offsets: dict[int, int],
        held: dict[tuple[str, ...], int],
    ) -> Lag:
        is_retry = "true" if is_retry_topic(topic) else "false"
        labels = (group, topic, is_retry, "true" if is_system_topic(topic) else "false")
        messages, oldest = 0, []
        for queue_id, offset in list(offsets.items()):
            queue = self._parts.store.queue(topic, queue_id)
            behind = 0 if queue is None else queue.max_offset - offset
            if queue is not None and behind > 0:
                messages += behind
                oldest.append((queue, max(offset, queue.min_offset)))
        return Lag(labels, messages, held.get(labels, 0), oldest)

    def _in_flight(self) -> dict[tuple[str, ...], int]:
        return {
            gauge.labels: int(gauge.value)
            for ask in self._parts.counters.events.gauges
            for gauge in ask()
            if gauge.name == IN_FLIGHT
        }

    def _ages(self, lags: list[Lag]) -> dict[tuple[str, str, str, str], int]:
        """The age of the first message of each lag, ms; may wait for the device; any thread."""
        now_ms, time_at = self._parts.clock.now_ms(), self._parts.store.store_time_at
        ages = {}
        for lag in lags:
            times = [time_at(queue, offset) for queue, offset in lag.oldest]
            known = [each for each in times if each >= 0]
            ages[lag.labels] = max(now_ms - min(known), 0) if known else 0
        return ages

    # --- samples

    def messages(self) -> Iterator[Sample]:
        """Not consumed."""
        return ((lag.labels, lag.messages) for lag in self._lags)

    def in_flight(self) -> Iterator[Sample]:
        """Handed out, not acknowledged."""
        return ((lag.labels, lag.in_flight) for lag in self._lags)

    def ready(self) -> Iterator[Sample]:
        """Not handed out."""
        return ((lag.labels, max(lag.messages - lag.in_flight, 0)) for lag in self._lags)

    def ages_ms(self) -> Iterator[Sample]:
        """The age of the oldest message that is not consumed, ms, by labels."""
        yield from self._ages_ms.items()
