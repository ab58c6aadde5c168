"""A cluster in memory for planning tests: queues with offsets and times, no network."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from cometmq.client.results import PullStatus, RawPull
from cometmq.codec.properties import encode_properties
from cometmq.codec.record import Record, encode_record
from cometmq.model.errors import TopicNotFound
from cometmq.model.queue import MessageQueue
from cometmq.spark.source.cluster import PullPlan


@dataclass
class MemoryQueue:
    """Offsets [first, next); message `offset` was stored at `offset * 1000` ms."""

    first: int = 0
    next: int = 0
    committed: int | None = None
    hidden: frozenset[int] = frozenset()  # What the broker's filter leaves out.


@dataclass
class MemoryCluster:
    queues_by_name: dict[MessageQueue, MemoryQueue] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    pulls_seen: list[tuple[int, int]] = field(default_factory=list)

    def add(self, topic: str, broker: str = "b", queue: int = 0, **state) -> MessageQueue:
        name = MessageQueue(topic, broker, queue)
        self.queues_by_name[name] = MemoryQueue(**state)
        return name

    def topics(self) -> list[str]:
        return sorted({queue.topic for queue in self.queues_by_name})

    def brokers(self) -> set[str]:
        return {queue.broker_name for queue in self.queues_by_name} - self.down | {
            "b"
        } - self.down

    def queues(self, topic: str) -> list[MessageQueue]:
        found = [
            queue
            for queue in self.queues_by_name
            if queue.topic == topic and queue.broker_name not in self.down
        ]
        if not found:
            raise TopicNotFound(f"no route of {topic!r}")
        return found

    def min_offset(self, queue: MessageQueue) -> int:
        return self.queues_by_name[queue].first

    def max_offset(self, queue: MessageQueue) -> int:
        return self.queues_by_name[queue].next

    def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        state = self.queues_by_name[queue]
        return min(max(-(-timestamp_ms // 1000), state.first), state.next)

    def committed_offset(self, queue: MessageQueue) -> int | None:
        return self.queues_by_name[queue].committed

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
            there = [offset for offset in range(start, until) if offset not in state.hidden]
            status = PullStatus.FOUND if there else PullStatus.NO_MATCHED_MESSAGE
            body = b"".join(record(queue, offset) for offset in there)
            yield RawPull(status, until, *limits, body)
            start = until


def record(queue: MessageQueue, offset: int) -> bytes:
    return encode_record(
        Record(
            queue_id=queue.queue_id,
            queue_offset=offset,
            store_timestamp=offset * 1000,
            topic=queue.topic,
            body=f"{queue}#{offset}".encode(),
            property_block=encode_properties({"TAGS": "t"}),
        )
    )
