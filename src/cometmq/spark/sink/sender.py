"""Sends batches and waits for every acknowledgement: what a task reports is stored.

Several requests are under way at once, but never two for a queue that rows named or a key chose:
those keep the order of the task even when a request is tried again.

Next: cometmq.client.producer
"""

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from cometmq.client.results import SendResult
from cometmq.model.errors import NetError, SendFailed, SettingsError, TopicNotFound
from cometmq.model.java_hash import java_hash
from cometmq.model.queue import MessageQueue
from cometmq.spark.sink.batches import Batch, Place
from cometmq.spark.sink.cluster import Sending, SinkCluster
from cometmq.spark.sink.columns import Target
from cometmq.spark.sink.settings import SinkSettings

log = logging.getLogger(__name__)


@dataclass
class Stored:
    """What a task has stored in one queue: how many messages, the first and last offset."""

    rows: int
    first: int
    last: int


@dataclass
class Sender:
    """Sends the batches of one task.

    Attributes:
        cluster: where to.
        settings: the options of the write.
        stored: what is acknowledged so far.
    """

    cluster: SinkCluster
    settings: SinkSettings
    stored: dict[MessageQueue, Stored] = field(default_factory=dict)
    _queues: dict[str, Sequence[MessageQueue]] = field(default_factory=dict)
    _under_way: deque[tuple[Batch, Sending]] = field(default_factory=deque)

    def place_of(self, target: Target) -> Place:
        """Where a row goes: to the queue that it names or its key chooses, or to any.

        Raises:
            SettingsError: the topic has no such queue, or several brokers have it.
            TopicNotFound: nobody knows the topic.
        """
        if target.queue_id is not None or target.broker_name is not None:
            return Place(target.topic, self._named(target))
        if target.sharding_key:
            queues = self._writable(target.topic)
            # Follows SelectMessageQueueByHash of the Java client, so both choose alike.
            number = abs(java_hash(target.sharding_key)) % len(queues)
            return Place(target.topic, queues[number])
        return Place(target.topic)

    def send(self, batch: Batch) -> None:
        """Start to send; waits when too much is under way.

        Raises:
            CometError: a batch was not stored after all tries.
        """
        while len(self._under_way) >= self.settings.inflight_max or self._has_under_way(batch):
            self._wait_oldest()
        self._under_way.append((batch, self._start(batch)))

    def finish(self) -> None:
        """Wait until everything is stored.

        Raises:
            CometError: a batch was not stored after all tries.
        """
        while self._under_way:
            self._wait_oldest()

    def _has_under_way(self, batch: Batch) -> bool:
        return batch.place.queue is not None and any(
            each.place == batch.place for each, _ in self._under_way
        )

    def _start(self, batch: Batch) -> Sending:
        return self.cluster.send_batch(batch.place.topic, batch.place.queue, batch.body)

    def _wait_oldest(self) -> None:
        batch, sending = self._under_way.popleft()
        for attempt in count():
            try:
                self._note(sending.result(), batch.rows)
            except (NetError, SendFailed) as error:
                # The client has tried a free batch on other queues itself.
                if batch.place.queue is None or attempt >= self.settings.retries:
                    raise
                log.warning("a batch for %s is sent again: %s", batch.place.queue, error)
                sending = self._start(batch)
            else:
                return

    def _note(self, result: SendResult, rows: int) -> None:
        first, last = result.queue_offset, result.queue_offset + rows - 1
        known = self.stored.get(result.queue)
        if known is None:
            self.stored[result.queue] = Stored(rows, first, last)
        else:
            known.rows += rows
            known.first, known.last = min(known.first, first), max(known.last, last)

    def _writable(self, topic: str) -> Sequence[MessageQueue]:
        if topic not in self._queues:
            self._queues[topic] = self.cluster.writable_queues(topic)
        if not self._queues[topic]:
            raise TopicNotFound(f"topic {topic!r} has no queue that can be written")
        return self._queues[topic]

    def _named(self, target: Target) -> MessageQueue:
        fitting = [
            queue
            for queue in self._writable(target.topic)
            if target.broker_name in (None, queue.broker_name)
            and target.queue_id in (None, queue.queue_id)
        ]
        if target.queue_id is None or len(fitting) != 1:
            raise SettingsError(
                f"brokerName {target.broker_name!r} and queueId {target.queue_id} fit "
                f"{len(fitting)} writable queues of {target.topic}; they must name one"
            )
        return fitting[0]
