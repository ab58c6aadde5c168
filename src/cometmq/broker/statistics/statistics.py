"""The progress of topics and groups: offsets, store times and rates.

Offsets come from the tables; store times need the log and are read in a pool thread. The put rate of a topic is
computed from store times, the rate of a group from the growth of its offsets, so sends and pulls need no counting.
Follows AdminBrokerProcessor of RocketMQ 5.3.3.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from cometmq.broker.parts import Parts
from cometmq.broker.tables.offsets import Offsets, topics_by_group
from cometmq.broker.tables.positions import Place, Position
from cometmq.codec.bodies.consumer_offset import TOPIC_GROUP_SEPARATOR
from cometmq.codec.bodies.stats import (
    ConsumeStats,
    QueueBounds,
    QueueProgress,
    TimeSpan,
    TopicStats,
)
from cometmq.model.clock import Clock
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.queue import MessageQueue
from cometmq.model.topic import TopicConfig
from cometmq.steps.steps import Steps, elsewhere
from cometmq.store.consume_queue import ConsumeQueue

WINDOW_SECONDS = 60.0  # As the tps of RocketMQ's StatsItem.
SAMPLE_SECONDS = 10.0


class ConsumeRateSamples:
    """The last samples of the offsets of groups, at most six, normally 10 s apart.

    Pulls are not counted: if an offset grew by n since a sample, n messages count as consumed.
    """

    def __init__(self, offsets: Offsets, clock: Clock) -> None:
        self._offsets = offsets
        self._clock = clock
        self._samples: deque[tuple[float, dict[str, int]]] = deque(
            maxlen=int(WINDOW_SECONDS / SAMPLE_SECONDS)
        )

    def sample(self) -> bool:
        """Sample all offsets; return whether the kept samples differ, so that sampling should continue."""
        self._samples.append((self._clock.monotonic(), self._offsets.consumed_counts()))
        return any(counts != self._samples[0][1] for _, counts in self._samples)

    def rate(self, group: str, topic: str) -> float:
        """Return about the messages per second that a group consumed of a topic in the last minute. For any thread."""
        key = topic + TOPIC_GROUP_SEPARATOR + group
        # A copy, because the loop adds samples meanwhile.
        known = [(at, counts[key]) for at, counts in list(self._samples) if key in counts]
        if not known:
            return 0.0
        at = self._clock.monotonic()
        # There are no samples while nothing changes, so the last one before the window is its start.
        began, first = [
            *known[:1],
            *(each for each in known if each[0] <= at - WINDOW_SECONDS),
        ][-1]
        # Directly after a sample, a few messages would appear as thousands a second.
        seconds = min(max(at - began, SAMPLE_SECONDS), WINDOW_SECONDS)
        now = self._offsets.consumed_count(key)
        return max((first if now is None else now) - first, 0) / seconds


# A group, one of its topics, and the group's position in each queue of the topic.
_Work = tuple[str, str, dict[MessageQueue, Position]]

# Number of queues that are looked up per loop iteration: some 3 ms.
QUEUES_IN_A_TURN = 1_000


class ProgressStatistics:
    """Computes the progress of topics and groups: offsets, store times and rates."""

    def __init__(self, parts: Parts, *, rates: ConsumeRateSamples) -> None:
        """The caller must sample `rates` itself."""
        self._parts = parts
        self._broker_name = parts.settings.broker_name
        self._rates = rates

    # --- topics

    def of_topic(self, name: str) -> Steps[TopicStats]:
        """Return the bounds of a topic's queues and its put rate; raise RequestError if there is no such topic."""
        config = self._topic(name)
        queues = self._queues(config, max(config.read_queues, config.write_queues))
        return (yield from elsewhere(lambda: self._topic_stats(queues)))

    def _topic_stats(self, queues: dict[MessageQueue, ConsumeQueue | None]) -> TopicStats:
        since_ms = self._parts.clock.now_ms() - int(WINDOW_SECONDS * 1000)
        bounds, put_count = {}, 0
        for name, queue in queues.items():
            if queue is None:
                bounds[name] = QueueBounds(0, 0)
                continue
            last = queue.max_offset
            updated_ms = max(self._parts.store.store_time_at(queue, last - 1), 0)
            bounds[name] = QueueBounds(queue.min_offset, last, updated_ms)
            if updated_ms >= since_ms:
                put_count += last - self._parts.store.offset_by_time(queue, since_ms)
        return TopicStats(bounds, put_count / WINDOW_SECONDS)

    # --- groups

    def of_group(self, group: str, named: list[str] | None) -> Steps[list[ConsumeStats]]:
        """Return the progress of a group in the named topics, or in all that it consumes, without unknown topics."""
        in_flight = yield from self._parts.positions.in_flight()
        topics = named
        if topics is None:
            topics = self._parts.positions.topics_of(
                group, self._parts.offsets.topics_of(group)
            )
        work = self._work(group, topics, in_flight, only_ordered=False)
        return (yield from elsewhere(lambda: [self._progress(*each) for each in work]))

    def of_groups(
        self, groups: Sequence[str], *, only_ordered: bool
    ) -> Steps[dict[str, list[ConsumeStats]]]:
        """Return by group its progress in existing topics that it consumes (`only_ordered`: in ordered ones only)."""
        in_flight = yield from self._parts.positions.in_flight()
        offsets = self._parts.offsets.places()
        topics = yield from elsewhere(lambda: topics_by_group(key for key, _ in offsets))
        stats: dict[str, list[ConsumeStats]] = {group: [] for group in groups}
        work: list[_Work] = []
        count = 0
        for group in groups:
            wanted = self._parts.positions.topics_of(group, topics.get(group, []))
            added = self._work(group, wanted, in_flight, only_ordered=only_ordered)
            work += added
            count += sum(len(queues) for _, _, queues in added)
            if count >= QUEUES_IN_A_TURN:
                yield from self._add(stats, work)
                work, count = [], 0
        yield from self._add(stats, work)
        return stats

    def _add(self, stats: dict[str, list[ConsumeStats]], work: list[_Work]) -> Steps[None]:
        found = yield from elsewhere(lambda: [self._progress(*each) for each in work])
        for (group, _, _), each in zip(work, found, strict=True):
            stats[group].append(each)

    def _work(
        self,
        group: str,
        topics: list[str],
        in_flight: Mapping[Place, int],
        *,
        only_ordered: bool,
    ) -> list[_Work]:
        """Return a group's positions in the read queues of those topics that exist (`only_ordered`: are ordered)."""
        configs = [
            config
            for name in topics
            if (config := self._parts.topics.get(name)) is not None
            and (config.ordered or not only_ordered)
        ]
        return [
            (group, each.name, self._positions_in(group, each, each.read_queues, in_flight))
            for each in configs
        ]

    def _positions_in(
        self, group: str, config: TopicConfig, count: int, in_flight: Mapping[Place, int]
    ) -> dict[MessageQueue, Position]:
        positions = self._parts.positions.of(group, config.name, range(count), in_flight)
        return dict(zip(self._names(config, count), positions, strict=True))

    def _progress(
        self, group: str, topic: str, positions: dict[MessageQueue, Position]
    ) -> ConsumeStats:
        table, time_at = {}, self._parts.store.store_time_at
        for name, position in positions.items():
            # Tools subtract: end minus consumer offset is the lag, pull offset minus consumer offset is in flight.
            offset = position.next - position.in_flight
            queue, consumed_ms, oldest_ms = position.queue, 0, 0
            if queue is not None and position.is_committed and offset > 0:
                consumed_ms = max(time_at(queue, offset - 1), 0)
            if queue is not None and position.lag > 0:
                oldest_ms = max(time_at(queue, max(offset, queue.min_offset)), 0)
            table[name] = QueueProgress(
                position.end,
                offset,
                position.next,
                consumed_ms,
                position.is_committed,
                oldest_ms,
            )
        return ConsumeStats(table, self._rates.rate(group, topic))

    def time_spans(self, topic: str, group: str) -> Steps[list[TimeSpan]]:
        """Return the time span of the messages of each write queue of a topic, and the age of a group's next one.

        Raises:
            RequestError: TOPIC_NOT_EXIST: There is no such topic.
        """
        config = self._topic(topic)
        positions = self._positions_in(group, config, config.write_queues, {})
        return (
            yield from elsewhere(
                lambda: [self._span(name, each) for name, each in positions.items()]
            )
        )

    def _span(self, name: MessageQueue, position: Position) -> TimeSpan:
        """Return the times of a queue, and the age of the next message for a group."""
        queue, offset = position.queue, position.next
        if queue is None:
            return TimeSpan(name, -1, -1, -1, 0)
        time_at = self._parts.store.store_time_at
        min_ms = time_at(queue, queue.min_offset)
        delay_ms = 0
        if offset < queue.max_offset:
            delay_ms = self._parts.clock.now_ms() - time_at(queue, offset)
        return TimeSpan(
            name,
            min_ms,
            time_at(queue, queue.max_offset - 1),
            time_at(queue, offset - 1) if offset > queue.min_offset else min_ms,
            delay_ms,
        )

    # --- common

    def _topic(self, name: str) -> TopicConfig:
        config = self._parts.topics.get(name)
        if config is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        return config

    def _names(self, config: TopicConfig, count: int) -> list[MessageQueue]:
        return [MessageQueue(config.name, self._broker_name, number) for number in range(count)]

    def _queues(
        self, config: TopicConfig, count: int
    ) -> dict[MessageQueue, ConsumeQueue | None]:
        names = self._names(config, count)
        return {name: self._parts.store.queue(name.topic, name.queue_id) for name in names}
