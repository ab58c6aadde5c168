"""Copies messages that were not acknowledged in time to a retry topic of their group, from which it can pop them again.

The copies for the retry topic and the acknowledgement are one write, in this order: a crash in between can repeat a
message but not lose one. Follows PopReviveService.reviveRetry of RocketMQ 5.3.3.
"""

import logging
from collections.abc import Iterable

from cometmq.broker.inner.puts import InnerMessage
from cometmq.broker.inner.queue_cursor import QueueCursor
from cometmq.broker.inner.redelivery import once_more
from cometmq.broker.parts import Parts
from cometmq.broker.pop.check_points import CheckPoint, PointState
from cometmq.broker.pop.journal import Journal
from cometmq.broker.pop.waiting import PopLongPolls
from cometmq.codec.record import Record
from cometmq.model.errors import CodecError, CometError
from cometmq.model.flags import PERM_READ_WRITE
from cometmq.model.names import (
    is_retry_topic,
    length_fault,
    pop_origin_topic,
    pop_retry_topic,
)
from cometmq.model.properties import FIRST_POP_TIME
from cometmq.model.topic import TopicConfig
from cometmq.steps.steps import Steps

_log = logging.getLogger(__name__)

_AGAIN_MS = 10_000  # After a failure (the first of ckRewriteIntervalsInSeconds).
_RETRY_QUEUES = 1  # PopAckConstants.retryQueueNum.


class Revive:
    """The redelivery of messages that were not acknowledged in time."""

    def __init__(self, parts: Parts, *, journal: Journal, waiting: PopLongPolls) -> None:
        self._parts = parts
        self._journal = journal
        self._check_points = journal.check_points
        self._waiting = waiting

    def hand_on(self, due: Iterable[CheckPoint]) -> Steps[None]:
        """Copy unacknowledged messages of due check points to retry topics.

        A check point that fails is due again in 10 s. Messages that cannot be redelivered, for example those of a
        deleted topic, are dropped.
        """
        for point in due:
            if point.state is not PointState.OPEN:
                continue
            try:
                yield from self._hand_on(point)
            except Exception as error:  # noqa: BLE001  A forgotten check point would be lost messages.
                is_of_the_world = isinstance(error, CometError | OSError)
                trace = None if is_of_the_world else error
                _log.warning("%s cannot be redelivered yet: %s", point, error, exc_info=trace)
                self._check_points.again_at(point, self._parts.clock.now_ms() + _AGAIN_MS)

    def _hand_on(self, point: CheckPoint) -> Steps[None]:
        body = point.body
        origin = pop_origin_topic(body.topic, body.group)
        is_wanted = self._parts.topics.get(origin) is not None and (
            self._parts.groups.peek(body.group) is not None
            # A deleted group whose offsets were kept continues there when it is created again.
            or self._parts.offsets.get(body.group, body.topic, body.queue_id) is not None
        )
        records = (yield from self._read(point)) if is_wanted else []
        # Messages that were acknowledged during the read, or truncated, are not delivered again.
        left = set(point.left())
        # Includes the acknowledgements since the last record.
        bits = point.all_bits & ~point.recorded
        if not left:
            return
        wanted = [record for record in records if record.queue_offset in left]
        messages = self._messages(point, origin, wanted)
        results = self._parts.inner.put(*messages, self._journal.acknowledgement(point, bits))
        events, queue = self._parts.counters.events, str(point.revive_queue)
        events.add("rocketmq_pop_revive_out_message_total", body.group, body.topic, "CK", queue)
        if messages:
            events.add(
                "rocketmq_pop_revive_retry_messages_total", body.group, body.topic, "PUT_OK",
                count=len(messages),
            )  # fmt: skip
        self._check_points.handed_on(point, self._journal.passed(point, results[-1]))
        if messages:
            self._waiting.wake((origin, body.group))

    def _read(self, point: CheckPoint) -> Steps[list[Record]]:
        """Read the remaining messages of a check point; those that the store no longer has are left out."""
        body, parts = point.body, self._parts
        cursor = QueueCursor(parts.store, body.topic, body.queue_id, offset=0)
        left = point.left()
        records: list[Record] = []
        for offset in left:
            if offset >= cursor.offset:  # It was not read with those before it.
                cursor.offset = offset
                try:
                    some = yield from cursor.next_records(left[-1] - offset + 1)
                except CodecError:  # Maybe of one that is not left.
                    cursor.offset = offset + 1
                    record = yield from cursor.record_at(offset)
                    some = [] if record is None else [record]
                records += [record for record in some if record.queue_offset in left]
        return records

    def _messages(
        self, point: CheckPoint, origin: str, records: list[Record]
    ) -> list[InnerMessage]:
        """Create the messages for the retry topic, and that topic if it is missing.

        Commits offset 0 there for a group without one. If the topic's name is too long, as can be after pops of older
        versions, logs that and returns none.
        """
        name = self._retry_name(point, origin)
        fault = length_fault(name)
        if fault is not None:
            _log.error("%s cannot be redelivered: %s", point, fault)
            return []
        topic = self._retry_topic(point, name)
        return [self._again(record, topic, point.body.pop_time_ms) for record in records]

    def _retry_name(self, point: CheckPoint, origin: str) -> str:
        if is_retry_topic(point.body.topic):
            return point.body.topic
        is_v2 = self._parts.settings.is_retry_topic_v2
        return pop_retry_topic(origin, point.body.group, is_v2=is_v2)

    def _retry_topic(self, point: CheckPoint, name: str) -> TopicConfig:
        body = point.body
        topic = self._parts.topics.ensure(name, queues=_RETRY_QUEUES, perm=PERM_READ_WRITE)
        if self._parts.offsets.get(body.group, name, 0) is None:
            self._parts.offsets.commit(body.group, name, 0, offset=0)
        return topic

    @staticmethod
    def _again(record: Record, topic: TopicConfig, pop_time_ms: int) -> InnerMessage:
        properties = record.properties()
        if record.reconsume_times == 0 or FIRST_POP_TIME not in properties:
            properties[FIRST_POP_TIME] = str(pop_time_ms)
        return once_more(
            record, topic, 0, properties, reconsume_times=record.reconsume_times + 1
        )
