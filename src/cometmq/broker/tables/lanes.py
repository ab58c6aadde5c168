"""Cache of what a send needs of a queue (its lane); the fast path of sends uses the lanes of checked queues.

The first send to a queue is checked in full and opens its lane. Later sends on the fast path find the lane by topic
name and queue id, as they are in the request header, and by the delay level if any, and skip the checks. Every change
of a topic must therefore call `forget`.
"""

import json
from collections.abc import Callable

from cometmq.broker.counters.counters import Counters
from cometmq.codec.properties import encode_properties
from cometmq.kernel import LaneTable, rows
from cometmq.kernel.rows import HALF_LEVEL, TIMED_LEVEL, Timing, place_of_level
from cometmq.model.flags import MULTI_TAGS
from cometmq.model.names import (
    DLQ_PREFIX,
    HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    WHEEL_TIMER_TOPIC,
    is_written_by_brokers,
)
from cometmq.model.properties import REAL_QID, REAL_TOPIC
from cometmq.model.topic import TopicConfig
from cometmq.store.appender import encode_topic_block
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.message_store import MessageStore

_MULTI_TAG = "MULTI_TAG"
# Topics to whose queues the fast path stores messages of other topics.
WAITING_TOPICS = (SCHEDULE_TOPIC, HALF_TOPIC, WHEEL_TIMER_TOPIC)
# A queue may have a lane for each delay level; if there are more lanes of this kind, all are made again.
WAITING_MAX = 20_000


# Its fields are documented in cometmq.kernel.rows.
Lane = rows.Lane[ConsumeQueue]


class Lanes:
    """Cache of what the broker needs to store messages in its queues: a lane per queue, and per delay level used there.

    Attributes:
        straight: The lanes that the fast path may use.
    """

    def __init__(
        self, store: MessageStore, *, region: str, is_trace_on: bool, counters: Counters
    ) -> None:
        """`region` (MSG_REGION) and `is_trace_on` (TRACE_ON) are in the header of answers to sends."""
        self._counters = counters
        self.straight: LaneTable[ConsumeQueue] = LaneTable()
        self._opened: dict[str, dict[int, Lane]] = {}
        self._waiting_count = 0  # Lanes of `open_waiting` since the last `forget_all`.
        # The start of an answer depends only on the queue id, so all topics share one string per id. With 80,000 queues,
        # a string per queue would not fit into the processor's cache.
        self._answer_starts: dict[str, str] = {}
        self._store = store
        self._fields = json.dumps(
            {"MSG_REGION": region, "TRACE_ON": "true" if is_trace_on else "false"},
            separators=(",", ":"),
        )[:-1]

    def open(self, topic: TopicConfig, queue_id: int, *, is_kept: bool) -> Lane:
        """Return the cached data for sends to a queue (its lane), creating it if needed.

        With `is_kept`, for which `topic` must be writable, the fast path may use the queue from now on, unless queue or
        topic need special treatment.
        """
        siblings = self._opened.setdefault(topic.name, {})
        lane = siblings.get(queue_id)
        if lane is None or lane.queue.deleted:
            lane = siblings[queue_id] = self._make(topic, queue_id, siblings)
        if is_kept and not lane.sys_flag:
            assert not is_written_by_brokers(topic.name), "no client sends there"
            self._keep(topic, queue_id, lane)
        return lane

    def open_waiting(
        self,
        topic: TopicConfig,
        queue_id: int,
        waits: Lane,
        timing_of: Callable[[str], Timing] | None,
    ) -> None:
        """Let the fast path store messages to a queue that wait elsewhere: with a delay level or time, or half messages.

        The fast path does not store them if queue or topic need special treatment.

        Args:
            topic: The destination; it is writable, which the caller has checked.
            queue_id: Its queue.
            waits: The lane of the queue where they wait, in the topic of delay levels, of half or of timed messages.
            timing_of: For timed messages, as in `RoutedSend`; else None.
        """
        level, delay_ms = HALF_LEVEL, -1
        if timing_of is not None:
            level = TIMED_LEVEL
        elif waits.queue.topic == SCHEDULE_TOPIC:
            level = waits.queue.queue_id + 1
            delay_ms = self._store.settings.delay_levels_ms[level - 1]
        place = place_of_level(level, queue_id)
        lane = self._opened.get(topic.name, {}).get(place)
        if lane is None or lane.queue is not waits.queue:
            if self._waiting_count >= WAITING_MAX:
                self.forget_all()
            self._waiting_count += 1
            start = self.answer_start(queue_id, None if timing_of is None else "")
            lane = waits._replace(
                answer_start=self._answer_starts.setdefault(start, start),
                asked_block=encode_topic_block(topic.name),
                extra=encode_properties({REAL_TOPIC: topic.name, REAL_QID: str(queue_id)}),
                delay_ms=delay_ms,
                timing=None if timing_of is None else timing_of(topic.name),
            )
            self._opened.setdefault(topic.name, {})[place] = lane
        self._keep(topic, place, lane)

    def _keep(self, topic: TopicConfig, place: int, lane: Lane) -> None:
        if lane.queue.fault is None and not topic.name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            self.straight.keep(topic.name, place, lane)

    def _make(self, topic: TopicConfig, queue_id: int, siblings: dict[int, Lane]) -> Lane:
        """Create a lane, and its queue if missing; count the puts into it. Lanes of a topic share its encoded name."""
        block = next((lane.asked_block for lane in siblings.values()), None)
        block = block or encode_topic_block(topic.name)
        start = self.answer_start(queue_id)
        queue = self._store.queue_for_append(topic.name, queue_id)
        self._counters.follow(queue)
        return Lane(
            queue,
            block,
            self._answer_starts.setdefault(start, start),
            MULTI_TAGS if topic.filter_type == _MULTI_TAG else 0,
            block,
        )

    def answer_start(self, queue_id: int, recall_handle: str | None = None) -> str:
        """Return the JSON header of a send's answer up to the physical offset in the message id.

        `queue_id` is the queue that the producer sent to; with `recall_handle` a timed message can be recalled.
        """
        handle = "" if recall_handle is None else f',"recallHandle":"{recall_handle}"'
        host = self._store.store_host.hex().upper()
        return (
            f'{{"code":0,"extFields":{self._fields}{handle},"queueId":"{queue_id}",'
            f'"msgId":"{host}'
        )

    def forget_all(self) -> None:
        """Drop all cached queues, so that sends are checked again."""
        self.straight.clear()
        self._opened.clear()
        self._waiting_count = 0

    def forget(self, topic: str) -> None:
        """Drop a topic's cached queues, or for one of WAITING_TOPICS all, so that sends are checked again."""
        if topic in WAITING_TOPICS:  # Messages of all topics wait there.
            self.forget_all()
            return
        self.straight.forget(topic)
        self._opened.pop(topic, None)
