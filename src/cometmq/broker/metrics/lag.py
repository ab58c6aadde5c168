"""The lag of consumer groups for metrics, in messages and in time.

Computed in steps when a metrics page is created or metrics are exported. The times need the log and are read in a
thread, for a limited number of queues.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cometmq.broker.metrics.metric_table import METRICS
from cometmq.broker.parts import Parts
from cometmq.broker.tables.positions import Place
from cometmq.codec.metrics_text import Column, LabelRows, Sample, Source
from cometmq.model.names import is_retry_topic, is_system_group, is_system_topic
from cometmq.steps.steps import Steps, elsewhere, turn_end
from cometmq.store.consume_queue import ConsumeQueue

# Largest number of group-topic pairs, and of queues whose times are read per page.
ROWS_MAX = 50_000
TIMES_MAX = 2_000
_AT_ONCE = 250  # Group-topic pairs per step; with 8 queues each they take 1 ms.
_TIMES_AT_ONCE = 100


_Labels = tuple[str, str, str, str]
_NAMES = METRICS["rocketmq_consumer_lag_messages"].labels


class Lag(NamedTuple):
    """The lag of a group in a topic.

    Attributes:
        labels: Group, topic, whether it is a retry topic, whether it is a system topic.
        messages: Number of messages not consumed, including those in flight.
        in_flight: Number of messages popped, except by pops in order, and neither acknowledged nor delivered again.
        consumed: Sum over the queues of the offset up to which the group has consumed.
        oldest: Queues with unconsumed messages, each with the offset of about the first one: that of the next message
            less the number in flight, but at least the queue's first. Empty if their times are not to be read.
    """

    labels: _Labels
    messages: int
    in_flight: int
    consumed: int
    oldest: Sequence[tuple[ConsumeQueue, int]]


class _TopicSum(NamedTuple):
    """A topic, and the lag in it of a group without an offset there.

    Attributes:
        is_retry: Label: whether it is a retry topic.
        is_system: Label: whether it is a system topic.
        messages: Number of messages in its read queues.
        consumed: Sum of the first offsets of these.
        begins: First offset and end of each queue, by id.
    """

    is_retry: str
    is_system: str
    messages: int
    consumed: int
    begins: list[tuple[int, int]]


class _Sums:
    """Computes the lags of groups during one `Lags.look`.

    If possible, a group's sums are derived from those of an imaginary group without offsets, computed once per topic.
    """

    def __init__(self, parts: Parts, in_flight: Mapping[Place, int]) -> None:
        self._topics = parts.topics
        self._positions = parts.positions
        self._in_flight = in_flight
        self._popped = {(group, topic) for group, topic, _ in in_flight}
        self._wholes: dict[str, _TopicSum] = {}
        # Whether the positions of a group follow from its offsets; None: it has no lag here.
        self._groups: dict[str, bool | None] = {}

    def has(self, group: str) -> bool:
        """Return whether the lag of a group is reported here: not that of system groups and broadcasting ones."""
        if group not in self._groups:
            has_none = is_system_group(group) or self._positions.is_broadcast(group)
            self._groups[group] = None if has_none else self._positions.is_committed_all(group)
        return self._groups[group] is not None

    def lag(self, group: str, topic: str, offsets: Mapping[int, int], *, is_dated: bool) -> Lag:
        """Return the lag of a group in a topic, with the queues whose times are to be read if it `is_dated`."""
        whole = self._wholes.get(topic) or self._whole(topic)
        if whole is None:  # Light queues have no configuration.
            return self._summed(group, topic, list(offsets), is_dated=is_dated)
        if self._groups[group] and (group, topic) not in self._popped:
            passed, grown = self._positions.passed(offsets, whole.begins)
            messages = whole.messages - passed
            if not (messages and is_dated):
                labels = (group, topic, whole.is_retry, whole.is_system)
                return Lag(labels, messages, 0, whole.consumed + grown, ())
        return self._summed(group, topic, range(len(whole.begins)), is_dated=is_dated)

    def _whole(self, topic: str) -> _TopicSum | None:
        config = self._topics.get(topic)
        if config is None:
            return None
        begins = self._positions.begins(topic, config.read_queues)
        whole = self._wholes[topic] = _TopicSum(
            *_kind_of(topic),
            sum(end - first for first, end in begins),
            sum(first for first, _ in begins),
            begins,
        )
        return whole

    def _summed(self, group: str, topic: str, ids: Iterable[int], *, is_dated: bool) -> Lag:
        messages, held, consumed, oldest = 0, 0, 0, []
        for position in self._positions.of(group, topic, ids, self._in_flight):
            queue, start = position.queue, position.next - position.in_flight
            held += position.in_flight
            consumed += start
            if queue is not None and (lag := position.lag) > 0:
                messages += lag
                if is_dated:
                    oldest.append((queue, max(start, queue.min_offset)))
        return Lag((group, topic, *_kind_of(topic)), messages, held, consumed, oldest)


def _kind_of(topic: str) -> tuple[str, str]:
    """Return whether a topic is a retry topic, and whether it is a system topic."""
    return (
        "true" if is_retry_topic(topic) else "false",
        "true" if is_system_topic(topic) else "false",
    )


class Lags:
    """The lag of consumer groups when last computed, for at most 50,000 pairs of group and topic (ROWS_MAX).

    System groups have no lag here, nor have groups with members in broadcasting mode, which keep their own offsets. A
    slave has none while it replicates: its master reports the same, and a sum over both would count it twice.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._lags: list[Lag] = []
        self._ages_ms: dict[_Labels, int] = {}
        self._labels = self._aged = LabelRows(_NAMES, ())

    def look(self) -> Steps[None]:
        """Compute the lag of the consumer groups, for the methods that yield samples; ages only for some 2,000 queues."""
        self._lags = yield from self._looked_up()
        ages = {lag.labels: 0 for lag in self._lags if lag.oldest or not lag.messages}
        dated = [lag for lag in self._lags if lag.oldest]
        while dated:
            some, dated = dated[:_TIMES_AT_ONCE], dated[_TIMES_AT_ONCE:]
            ages.update((yield from elsewhere(lambda some=some: self._ages(some))))  # type: ignore[misc]
        self._ages_ms = ages
        self._labels = LabelRows(_NAMES, [lag.labels for lag in self._lags])
        self._aged = LabelRows(_NAMES, [*ages]) if len(ages) < len(self._lags) else self._labels

    def _looked_up(self) -> Steps[list[Lag]]:
        lags: list[Lag] = []
        positions = self._parts.positions
        if self._parts.settings.is_slave and self._parts.replication().has_master:
            return lags
        sums = _Sums(self._parts, (yield from positions.in_flight()))
        left = TIMES_MAX
        for number, (group, topic, offsets) in enumerate(positions.pairs()[:ROWS_MAX]):
            if sums.has(group):
                lag = sums.lag(group, topic, offsets, is_dated=left > 0)
                left -= len(lag.oldest)
                lags.append(lag)
            if number % _AT_ONCE == _AT_ONCE - 1:
                yield from turn_end()
        return lags

    def _ages(self, lags: list[Lag]) -> dict[_Labels, int]:
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

    def messages(self) -> Column:
        """Return the numbers of messages that groups had not consumed at the last `look`, by group and topic."""
        return Column(self._labels, [lag.messages for lag in self._lags])

    def in_flight(self) -> Column:
        """Return the numbers of messages in flight (see `Lag`) at the last `look`, by group and topic."""
        return Column(self._labels, [lag.in_flight for lag in self._lags])

    def ready(self) -> Column:
        """Return the numbers of messages not consumed at the last `look`, without those in flight, by group and topic."""
        return Column(
            self._labels,
            [
                max(messages - held, 0) if held else messages
                for _, messages, held, _, _ in self._lags
            ],
        )

    def consumed(self) -> Iterator[Sample]:
        """Yield the sums of the offsets up to which groups had consumed at the last `look`, by group and topic."""
        return ((lag.labels[:2], lag.consumed) for lag in self._lags)

    def ages_ms(self) -> Column:
        """Return the ages of about the oldest unconsumed messages, ms, by group and topic; 0 if none or unknown."""
        return Column(self._aged, [*self._ages_ms.values()])

    def dead_letters(self) -> Iterator[Sample]:
        """Yield the number of dead letters since the start, by group and topic; also 0, except for retry topics."""
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
