"""A cluster in memory for planning tests: queues with offsets and times, no network."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cometmq.client.consumer.filters import subscription_of
from cometmq.client.results import IndexedMessages, PullStatus, RawPull
from cometmq.codec.bodies.missing_brokers import MissingBroker
from cometmq.codec.properties import encode_properties
from cometmq.codec.record import Record, encode_record
from cometmq.model.errors import NetError, TopicNotFound
from cometmq.model.queue import MessageQueue
from cometmq.spark.source.cluster import PullPlan, SourceCluster


@dataclass
class MemoryQueue:
    """Offsets [first, next); message `offset` was stored `offset * ms_each` ms after the first."""

    first: int = 0
    next: int = 0
    committed: int | None = None
    hidden: frozenset[int] = frozenset()  # What the broker's filter leaves out.
    tags: tuple[str, ...] = ("t",)  # Of the messages, in turn.
    ms_each: int = 1000
    begun_ms: int = 0  # When offset 0 was stored.


@dataclass
class MemoryCluster(SourceCluster):
    queues_by_name: dict[MessageQueue, MemoryQueue] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    vanishing: set[str] = field(default_factory=set)  # Questions that nobody answers.
    pulls_seen: list[tuple[int, int]] = field(default_factory=list)
    asked_ahead: list[int] = field(default_factory=list)  # How many ranges at once.
    index: dict[str, IndexedMessages] = field(default_factory=dict)  # By key or id.
    missing: list[MissingBroker] = field(default_factory=list)
    ordered: list[MessageQueue] = field(default_factory=list)
    is_busy: bool = False

    def close(self) -> None:
        pass

    def add(self, topic: str, broker: str = "b", queue: int = 0, **state) -> MessageQueue:
        name = MessageQueue(topic, broker, queue)
        self.queues_by_name[name] = MemoryQueue(**state)
        return name

    def topics(self) -> list[str]:
        return sorted({queue.topic for queue in self.queues_by_name})

    def _answers(self, question: str) -> None:
        if question in self.vanishing:
            raise NetError(f"nobody answers {question}")

    def brokers(self) -> set[str]:
        self._answers("brokers")
        return {queue.broker_name for queue in self.queues_by_name} - self.down | {
            "b"
        } - self.down

    def missing_brokers(self) -> list[MissingBroker]:
        self._answers("missing_brokers")
        return self.missing

    def ordered_queues(self, topics: Sequence[str]) -> list[MessageQueue]:
        return [queue for queue in self.ordered if queue.topic in topics]

    def queues(self, topics: Sequence[str]) -> dict[str, list[MessageQueue] | TopicNotFound]:
        self._answers("queues")
        return {topic: self._queues(topic) for topic in topics}

    def _queues(self, topic: str) -> list[MessageQueue] | TopicNotFound:
        found = [
            queue
            for queue in self.queues_by_name
            if queue.topic == topic and queue.broker_name not in self.down
        ]
        return found or TopicNotFound(f"no route of {topic!r}")

    def min_offsets(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        if queues:
            self._answers("min_offsets")
        return {queue: self.queues_by_name[queue].first for queue in queues}

    def max_offsets(
        self, queues: Sequence[MessageQueue], *, patient: bool = False
    ) -> dict[MessageQueue, int | NetError]:
        try:
            self._answers("max_offsets")
        except NetError as error:
            return dict.fromkeys(queues, error)
        return {queue: self.queues_by_name[queue].next for queue in queues}

    def offsets_by_time(self, times_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        return {queue: self._by_time(queue, at) for queue, at in times_ms.items()}

    def _by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        state = self.queues_by_name[queue]
        if state.ms_each == 0:  # All of one moment.
            return state.first if timestamp_ms <= state.begun_ms else state.next
        offset = -(-(timestamp_ms - state.begun_ms) // state.ms_each)
        return min(max(offset, state.first), state.next)

    def committed_offsets(
        self, queues: Sequence[MessageQueue]
    ) -> dict[MessageQueue, int | None]:
        return {queue: self.queues_by_name[queue].committed for queue in queues}

    def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        for queue, offset in offsets.items():
            self.queues_by_name[queue].committed = offset

    def indexed(self, topic: str, key: str, *, is_id: bool) -> IndexedMessages | None:
        return self.index.get(key)

    def mean_sizes(
        self, starts: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, float | None]:
        self._answers("mean_sizes")
        return {queue: self._mean_size(queue, start) for queue, start in starts.items()}

    def _mean_size(self, queue: MessageQueue, start: int) -> float | None:
        state = self.queues_by_name[queue]
        return len(record(queue, start, state)) if state.first <= start < state.next else None

    def first_pulls(
        self, asked: Sequence[tuple[MessageQueue, int, int]], plan: PullPlan
    ) -> list[RawPull | None]:
        self.asked_ahead.append(len(asked))
        return [
            next(self.pulls(queue, start=start, end=end, plan=plan))
            for queue, start, end in asked
        ]

    def pulls(
        self, queue: MessageQueue, *, start: int, end: int, plan: PullPlan
    ) -> Iterator[RawPull]:
        state = self.queues_by_name[queue]
        while start < end:
            self.pulls_seen.append((start, end))
            limits = (state.first, state.next)
            if start < state.first or start > state.next:
                yield RawPull(PullStatus.OFFSET_ILLEGAL, state.first, *limits, b"")
                return
            if start == state.next:
                yield RawPull(PullStatus.NO_NEW_MESSAGE, start, *limits, b"")
                return
            until = min(start + plan.rows, state.next, end)
            wanted = subscription_of(queue.topic, plan.expression)
            there = [
                offset
                for offset in range(start, until)
                if offset not in state.hidden and wanted.matches_tag(tag_of(offset, state))
            ]
            status = PullStatus.FOUND if there else PullStatus.NO_MATCHED_MESSAGE
            body = b"".join(record(queue, offset, state) for offset in there)
            yield RawPull(status, until, *limits, body)
            start = until


def tag_of(offset: int, state: MemoryQueue) -> str:
    return state.tags[offset % len(state.tags)]


def record(queue: MessageQueue, offset: int, state: MemoryQueue) -> bytes:
    properties = {"TAGS": tag_of(offset, state), "KEYS": f"k{offset % 7}"}
    return encode_record(
        Record(
            queue_id=queue.queue_id,
            queue_offset=offset,
            store_timestamp=state.begun_ms + offset * state.ms_each,
            topic=queue.topic,
            body=f"{queue}#{offset}".encode(),
            property_block=encode_properties(properties),
        )
    )
