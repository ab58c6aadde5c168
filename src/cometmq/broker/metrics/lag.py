"""The lag of consumer groups for metrics, in messages and in time.

Computed in steps when a metrics page is created or metrics are exported. The times need the log and are read in a
thread, for a limited number of queues.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from cometmq.broker.parts import Parts
from cometmq.broker.tables.positions import Place
from cometmq.codec.metrics_text import Sample, Source
from cometmq.model.names import is_retry_topic, is_system_group, is_system_topic
from cometmq.steps.steps import Steps, elsewhere, turn_end
from cometmq.store.consume_queue import ConsumeQueue

# Largest number of group-topic pairs, and of queues whose times are read per page.
ROWS_MAX = 50_000
TIMES_MAX = 2_000
_AT_ONCE = 250  # Group-topic pairs per step; with 8 queues each they take 1 ms.
_TIMES_AT_ONCE = 100


class Lag(NamedTuple):
    """The lag of a group in a topic.

    Attributes:
        labels: Group, topic, whether it is a retry topic, whether it is a system topic.
        messages: Number of messages not consumed, including those in flight.
        in_flight: Number of messages popped, except by pops in order, and neither acknowledged nor delivered again.
        consumed: Sum over the queues of the offset up to which the group has consumed.
        oldest: Queues with unconsumed messages, each with the offset of about the first one: that of the next message
            less the number in flight, but at least the queue's first.
    """

    labels: tuple[str, str, str, str]
    messages: int
    in_flight: int
    consumed: int
    oldest: list[tuple[ConsumeQueue, int]]


class Lags:
    """The lag of consumer groups when last computed, for at most 50,000 pairs of group and topic (ROWS_MAX).

    System groups have no lag here, nor have groups with members in broadcasting mode, which keep their own offsets. A
    slave has none while it replicates: its master reports the same, and a sum over both would count it twice.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._lags: list[Lag] = []
        self._ages_ms: dict[tuple[str, str, str, str], int] = {}

    def look(self) -> Steps[None]:
        """Compute the lag of the consumer groups, for the methods that yield samples; ages only for some 2,000 queues."""
        self._lags = yield from self._looked_up()
        wanted = [lag for lag in self._lags if lag.oldest]
        ages: dict[tuple[str, str, str, str], int] = {lag.labels: 0 for lag in self._lags}
        left = TIMES_MAX
        while wanted and left > 0:
            some, wanted = wanted[:_TIMES_AT_ONCE], wanted[_TIMES_AT_ONCE:]
            left -= sum(len(lag.oldest) for lag in some)
            ages.update((yield from elsewhere(lambda some=some: self._ages(some))))  # type: ignore[misc]
        for lag in wanted:
            del ages[lag.labels]  # Their times were not read.
        self._ages_ms = ages

    def _looked_up(self) -> Steps[list[Lag]]:
        lags: list[Lag] = []
        positions = self._parts.positions
        if self._parts.settings.is_slave and self._parts.replication().has_master:
            return lags
        in_flight = yield from positions.in_flight()
        for number, (group, topic) in enumerate(positions.pairs()[:ROWS_MAX]):
            if not (is_system_group(group) or positions.is_broadcast(group)):
                lags.append(self._lag(group, topic, in_flight))
            if number % _AT_ONCE == _AT_ONCE - 1:
                yield from turn_end()
        return lags

    def _lag(self, group: str, topic: str, in_flight: Mapping[Place, int]) -> Lag:
        is_retry = "true" if is_retry_topic(topic) else "false"
        labels = (group, topic, is_retry, "true" if is_system_topic(topic) else "false")
        messages, held, consumed, oldest = 0, 0, 0, []
        config = self._parts.topics.get(topic)
        # Light queues have no configuration.
        ids = (
            self._parts.offsets.of(group, topic)
            if config is None
            else range(config.read_queues)
        )
        for position in self._parts.positions.of(group, topic, ids, in_flight):
            queue, start = position.queue, position.next - position.in_flight
            held += position.in_flight
            consumed += start
            if queue is not None and (lag := position.lag) > 0:
                messages += lag
                oldest.append((queue, max(start, queue.min_offset)))
        return Lag(labels, messages, held, consumed, oldest)

    def _ages(self, lags: list[Lag]) -> dict[tuple[str, str, str, str], int]:
        """Return the age of about the oldest unconsumed message of each lag, ms; 0 if unknown. May wait for the disk.

        Callable in any thread.
        """
        now_ms, time_at = self._parts.clock.now_ms(), self._parts.store.store_time_at
        ages = {}
        for lag in lags:
            times = [time_at(queue, offset) for queue, offset in lag.oldest]
            known = [each for each in times if each >= 0]
            ages[lag.labels] = max(now_ms - min(known), 0) if known else 0
        return ages

    # --- samples

    def table(self) -> Mapping[str, Source]:
        """Return the sources of the metrics that this class provides, by name of the metric."""
        return {
            "rocketmq_consumer_lag_messages": self.messages,
            "rocketmq_consumer_lag_latency_milliseconds": self.ages_ms,
            "rocketmq_consumer_inflight_messages": self.in_flight,
            "rocketmq_consumer_queueing_latency_milliseconds": self.ages_ms,
            "rocketmq_consumer_ready_messages": self.ready,
            "rocketmq_send_to_dlq_messages_total": self.dead_letters,
            "cometmq_consumer_offsets": self.consumed,
        }

    def messages(self) -> Iterator[Sample]:
        """Yield the numbers of messages that groups had not consumed at the last `look`, by group and topic."""
        return ((lag.labels, lag.messages) for lag in self._lags)

    def in_flight(self) -> Iterator[Sample]:
        """Yield the numbers of messages in flight (see `Lag`) at the last `look`, by group and topic."""
        return ((lag.labels, lag.in_flight) for lag in self._lags)

    def ready(self) -> Iterator[Sample]:
        """Yield the numbers of messages not consumed at the last `look`, without those in flight, by group and topic."""
        return ((lag.labels, max(lag.messages - lag.in_flight, 0)) for lag in self._lags)

    def consumed(self) -> Iterator[Sample]:
        """Yield the sums of the offsets up to which groups had consumed at the last `look`, by group and topic."""
        return ((lag.labels[:2], lag.consumed) for lag in self._lags)

    def ages_ms(self) -> Iterator[Sample]:
        """Yield the age of about the oldest unconsumed message by group and topic, ms, if read; 0 without any or if unknown."""
        yield from self._ages_ms.items()

    def dead_letters(self) -> Iterator[Sample]:
        """Yield the number of dead letters since the start, by group and topic; 0 for other known pairs except retry topics."""
        counted = set()
        for each in self._parts.counters.dead.wholes():
            counted.add((each.of.group, each.of.topic))
            yield (
                (each.of.group, each.of.topic, "true" if each.of.is_system else "false"),
                each.count,
            )
        for group, topic, is_retry, is_system in (lag.labels for lag in self._lags):
            if is_retry == "false" and (group, topic) not in counted:
                yield (group, topic, is_system), 0
