"""Lanes: what the fast path of sends needs to know of a queue, made once and found by two texts of a header.

A lane is opened by the first send to a queue, after all checks of topic and queue. The sends behind
it find the lane by the texts of their header and skip those checks; so whatever changes a topic
forgets its lanes.
"""

import json

from cometmq.broker.counters.counters import Counters
from cometmq.kernel import LaneTable, rows
from cometmq.model.flags import MULTI_TAGS
from cometmq.model.names import DLQ_PREFIX, RETRY_PREFIX, is_written_by_brokers
from cometmq.model.topic import TopicConfig
from cometmq.store.appender import encode_topic_block
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.message_store import MessageStore

_MULTI_TAG = "MULTI_TAG"


# Its fields: cometmq.kernel.rows.
Lane = rows.Lane[ConsumeQueue]


class Lanes:
    """The lanes of a broker.

    Attributes:
        straight: the lanes of topics without any special treatment.
    """

    def __init__(
        self, store: MessageStore, *, region: str, is_trace_on: bool, counters: Counters
    ) -> None:
        """`region` and `is_trace_on` are told to the producer with each answer."""
        self._counters = counters
        self.straight: LaneTable[ConsumeQueue] = LaneTable()
        self._opened: dict[str, dict[int, Lane]] = {}
        # Queues with the same number are answered alike in all topics: one text, which stays in the
        # processor's cache, where one for each of 80,000 lanes would not.
        self._answer_starts: dict[str, str] = {}
        self._store = store
        self._fields = json.dumps(
            {"MSG_REGION": region, "TRACE_ON": "true" if is_trace_on else "false"},
            separators=(",", ":"),
        )[:-1]

    def open(self, topic: TopicConfig, queue_id: int, *, is_kept: bool) -> Lane:
        """The lane of a queue that may be sent to.

        Args:
            topic: of the queue.
            queue_id: of the queue.
            is_kept: whether sends may find it without this call from now on.
        """
        siblings = self._opened.setdefault(topic.name, {})
        lane = siblings.get(queue_id)
        if lane is None or lane.queue.deleted:
            lane = siblings[queue_id] = self._make(topic, queue_id, siblings)
        is_straight = (
            not lane.sys_flag
            and lane.queue.fault is None
            and not topic.name.startswith((RETRY_PREFIX, DLQ_PREFIX))
        )
        if is_straight and is_kept:
            assert not is_written_by_brokers(topic.name), "no client sends there"
            self.straight.keep(topic.name, queue_id, lane)
        return lane

    def _make(self, topic: TopicConfig, queue_id: int, siblings: dict[int, Lane]) -> Lane:
        """A new lane; it shares with its siblings, and with all others, what is the same."""
        block = next((lane.topic_block for lane in siblings.values()), None)
        start = self.answer_start(queue_id)
        queue = self._store.queue_for_append(topic.name, queue_id)
        self._counters.follow(queue)
        return Lane(
            queue,
            block or encode_topic_block(topic.name),
            self._answer_starts.setdefault(start, start),
            MULTI_TAGS if topic.filter_type == _MULTI_TAG else 0,
        )

    def answer_start(self, queue_id: int, recall_handle: str | None = None) -> str:
        """The header of a send's answer, up to the physical offset in its message id.

        Args:
            queue_id: as the sender knows it.
            recall_handle: of a timed message.
        """
        handle = f',"recallHandle":"{recall_handle}"' if recall_handle else ""
        host = self._store.store_host.hex().upper()
        return (
            f'{{"code":0,"extFields":{self._fields}{handle},"queueId":"{queue_id}",'
            f'"msgId":"{host}'
        )

    def forget_all(self) -> None:
        """The broker's permission changed: the next sends are checked again."""
        self.straight.clear()
        self._opened.clear()

    def forget(self, topic: str) -> None:
        """The topic changed or is gone: its next sends are checked again."""
        self.straight.forget(topic)
        self._opened.pop(topic, None)
