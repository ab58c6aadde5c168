"""Records check points in the revive topic, and reads them again at a start.

A check point is written before its messages are sent, acknowledgements a moment later and many at once;
`CheckPointTable` decides what is written. A start reads after the committed offset of the group
CID_RMQ_SYS_REVIVE_GROUP; as in Java that is the offset of the last record before the first needed one.

Follows PopMessageProcessor.buildCkMsg and PopReviveService of RocketMQ 5.3.3. Differs: records do not pass through the
timer, so that the broker knows at once what was popped (docs/design/0014).
"""

import logging
from collections import deque

from cometmq.broker.inner.puts import InnerMessage
from cometmq.broker.inner.queue_cursor import QueueCursor
from cometmq.broker.parts import Parts
from cometmq.broker.pop.check_points import (
    CheckPoint,
    CheckPointTable,
    Place,
    PointState,
    WrittenRecord,
)
from cometmq.broker.tables.deleted_topics import deleted_group
from cometmq.codec.bodies.pop_journal import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECK_POINT_TAG,
    CheckPointBody,
    decode_ack,
    decode_check_point,
    encode_ack,
    encode_check_point,
)
from cometmq.codec.record import Record
from cometmq.model.errors import CodecError, StoreError
from cometmq.model.names import REVIVE_LOG_PREFIX, pop_origin_topic
from cometmq.model.properties import TAGS, TIMER_DELIVER_MS
from cometmq.steps.steps import Steps
from cometmq.store.appender import PutResult
from cometmq.store.consume_queue import ConsumeQueue

_log = logging.getLogger(__name__)

REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
_PUT_MAX = 500  # Records per write.
# In Java, the timer delivers check points this much before they are due (ackTimeInterval), but acknowledgements when they
# are due. A check point that a timer delivered therefore waits for them, as in PopReviveService: from when it is due or, if
# the timer is late because no broker ran meanwhile, from when it is read.
_EARLY_MS = 1_000
_ACKS_LATE_MS = 3_000


class Journal:
    """The records of check points and acknowledgements in the revive topic; `check_points` has their current state."""

    def __init__(self, parts: Parts) -> None:
        name = f"{REVIVE_LOG_PREFIX}{parts.settings.cluster_name}"
        topic = parts.topics.get(name)
        assert topic is not None, "made with the table of topics"
        self.check_points = CheckPointTable(topic.queue_count)
        self._parts = parts
        self._topic = topic
        self._next_queue = 0
        # To be rewritten: the log has lost their records.
        self._anew: deque[CheckPoint] = deque()
        # The read position of each queue.
        self._cursors = [
            QueueCursor(parts.store, name, queue_id, offset=self._begin(queue_id))
            for queue_id in range(topic.queue_count)
        ]

    def _begin(self, queue_id: int) -> int:
        offsets, topic = self._parts.offsets, self._topic.name
        queue = self._parts.store.queue(topic, queue_id)
        least, end = (0, 0) if queue is None else (queue.min_offset, queue.max_offset)
        last_done = offsets.get(REVIVE_GROUP, topic, queue_id)
        if last_done is not None and last_done >= end:
            # The offset counts records that the log has lost, or never got.
            last_done = end - 1 if end else None
            if last_done is None:
                offsets.forget_queue(REVIVE_GROUP, topic, queue_id)
            else:
                offsets.commit(REVIVE_GROUP, topic, queue_id, offset=last_done)
        return least if last_done is None else min(max(last_done + 1, least), end)

    def queues(self) -> list[ConsumeQueue]:
        """Return the queues of the revive topic, where other brokers may write records, too."""
        count = self._topic.queue_count
        return [self._parts.store.queue_to_watch(self._topic.name, n) for n in range(count)]

    # --- reading

    def read_on(self) -> Steps[list[CheckPoint]]:
        """Read on in the revive topic, apply it to `check_points`, and return the check points found.

        These are mostly of other brokers or an earlier process; acknowledgements found are applied, but not returned.

        Rewritten ones are returned again, also if their check point is known. Check points of deleted topics or groups
        are skipped, and with a log entry those whose content cannot be decoded.
        """
        found: list[CheckPoint] = []
        for queue_id, cursor in enumerate(self._cursors):
            while not cursor.is_at_end:
                records = yield from cursor.next_records()
                if not records:
                    break
                for record in records:
                    self._apply(record, queue_id, found)
        return found

    def _apply(self, record: Record, queue_id: int, found: list[CheckPoint]) -> None:
        try:
            tag = record.properties().get(TAGS)
            if tag == CHECK_POINT_TAG:
                point = CheckPoint(decode_check_point(record.body), queue_id)
                if self._is_of_deleted(point.body, record.physical_offset):
                    return
                found.append(point)
                is_timed = record.store_timestamp >= point.due_ms - _EARLY_MS
                self.check_points.begin_again(
                    point,
                    WrittenRecord(
                        record.queue_offset, record.physical_offset, record.store_size
                    ),
                    at_ms=self._when_acknowledged(point) if is_timed else point.due_ms,
                )
            elif tag in (ACK_TAG, BATCH_ACK_TAG):
                ack = decode_ack(record.body)
                key = (ack.topic, ack.group, ack.queue_id, ack.start_offset, ack.pop_time_ms)
                self.check_points.acknowledge(key, ack.offsets)
        except CodecError as error:
            _log.error(
                "the record at offset %d of revive queue %d cannot be decoded and is skipped: %s",
                record.queue_offset, queue_id, error,
            )  # fmt: skip

    def _when_acknowledged(self, point: CheckPoint) -> int:
        """Return when a check point that a timer delivered is due, epoch ms: after its acknowledgements were read."""
        return max(point.due_ms, self._parts.clock.now_ms()) + _ACKS_LATE_MS

    def _is_of_deleted(self, body: CheckPointBody, physical_offset: int) -> bool:
        """Return whether a deletion of a check point's topic or group is remembered that came after its record."""
        covers = self._parts.topics.deleted.covers
        return any(
            covers(name, physical_offset)
            for name in (
                body.topic, pop_origin_topic(body.topic, body.group), deleted_group(body.group)
            )
        )  # fmt: skip

    # --- writing

    def choose_queue(self) -> int:
        """Return the revive queue for the next check points, round robin."""
        count = min(self._parts.settings.revive_queues, self._topic.queue_count)
        self._next_queue = (self._next_queue + 1) % count
        return self._next_queue

    def queue_or_other(self, queue_id: int) -> int:
        """Return the revive queue that a handle names, or another if it does not exist."""
        return queue_id if 0 <= queue_id < self._topic.queue_count else self.choose_queue()

    def record(self, point: CheckPoint) -> None:
        """Write a check point's record, then add it to `check_points`; on StoreError, do not deliver its messages."""
        (result,) = self._parts.inner.put(self._check_point(point))
        self.check_points.begin(point, self.passed(point, result))

    def extend(self, point: CheckPoint, invisible_ms: int) -> None:
        """Change how long the messages of an open check point are hidden, under their old handles, and record that.

        The time counts from their pop. Raises StoreError if the record cannot be written: then a restart of the broker
        delivers the messages after their former invisible time.
        """
        self.check_points.extend(point, invisible_ms)
        (result,) = self._parts.inner.put(self._check_point(point))
        self.check_points.rewritten(point, self.passed(point, result))

    def record_reset(self, place: Place, offset: int) -> None:
        """Record that a group's offset was set, so that older check points do not move it back; only log a failure."""
        group, topic, queue_id = place
        body = CheckPointBody(
            topic, group, queue_id, offset, (), self._parts.clock.now_ms(), 0,
            broker_name=self._parts.settings.broker_name,
        )  # fmt: skip
        try:
            self.record(CheckPoint(body, self.choose_queue()))
        except StoreError as error:
            _log.warning(
                "the offset reset of group %s in queue %d of topic %s cannot be recorded, and a restart may undo it: %s",
                group, queue_id, topic, error,
            )  # fmt: skip

    def acknowledgement(self, point: CheckPoint, bits: int) -> InnerMessage:
        """Return the record that acknowledges these messages of a check point."""
        tag, body = encode_ack(point.ack_of(bits))
        return self._message(point, tag, body, deliver_ms=point.due_ms)

    def record_acknowledgements(self) -> None:
        """Write the acknowledgements that are not recorded yet; if the store fails, they remain for the next call."""
        while part := self.check_points.unrecorded(_PUT_MAX):
            messages = [self.acknowledgement(point, bits) for point, bits in part]
            try:
                results = self._parts.inner.put(*messages)
            except StoreError as error:
                _log.warning(
                    "acknowledgements of popped messages cannot be recorded yet: %s", error
                )
                return
            for (point, bits), result in zip(part, results, strict=True):
                self.check_points.recorded(point, bits)
                self.passed(point, result)

    def truncated(self, end: int) -> None:
        """Adapt to a truncated log: forget lost messages, note lost records to rewrite, and move read positions back."""
        topic = self._topic.name
        self._anew = deque(self.check_points.truncated(end, self.end_of))
        for queue_id, cursor in enumerate(self._cursors):
            behind = self.end_of(topic, queue_id)
            cursor.offset = min(cursor.offset, behind)
            self.check_points.forget_places(queue_id, behind)
            last_done = self._parts.offsets.get(REVIVE_GROUP, topic, queue_id)
            if last_done is not None and last_done >= behind:
                self._parts.offsets.commit(
                    REVIVE_GROUP, topic, queue_id, offset=max(behind - 1, 0)
                )

    def end_of(self, topic: str, queue_id: int) -> int:
        """Return the queue offset after the last message of a queue; 0 if there is no such queue."""
        queue = self._parts.store.queue(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    @property
    def is_whole(self) -> bool:
        """Whether the needed records that a truncation removed have all been written again."""
        return not self._anew

    def _rewrite_truncated(self) -> None:
        for _ in range(min(len(self._anew), _PUT_MAX)):
            point = self._anew[0]
            if point.state is PointState.OPEN:
                (result,) = self._parts.inner.put(self._check_point(point))
                self.check_points.rewritten(point, self.passed(point, result))
            self._anew.popleft()

    def rewrite_old(self) -> None:
        """Write records of check points again that are lost, or so old that a start would have to read too much.

        One call writes at most 500 lost ones, and 500 old ones per revive queue. It ends early if the store fails.
        """
        try:
            self._rewrite_truncated()
        except StoreError:
            return
        for queue_id, cursor in enumerate(self._cursors):
            for _ in range(_PUT_MAX):
                point = self.check_points.pop_far_behind(queue_id, cursor.offset)
                if point is None:
                    break
                try:
                    (result,) = self._parts.inner.put(self._check_point(point))
                except StoreError:
                    self.check_points.keep_record(point)
                    return
                self.check_points.rewritten(point, self.passed(point, result))

    def say_done(self) -> None:
        """Commit, for each revive queue, the offset of the last record that a start need not read."""
        flushed = self._parts.store.flushed_offset
        for queue_id, cursor in enumerate(self._cursors):
            needed = self.check_points.first_needed(queue_id, flushed)
            last = (cursor.offset if needed is None else needed) - 1
            known = self._parts.offsets.get(REVIVE_GROUP, self._topic.name, queue_id)
            if last >= 0 and (known is None or last > known):
                self._parts.offsets.commit(
                    REVIVE_GROUP, self._topic.name, queue_id, offset=last
                )

    def _check_point(self, point: CheckPoint) -> InnerMessage:
        body = point.body
        content = encode_check_point(
            body, revive_offset=max(point.place, 0), acknowledged=point.acknowledged
        )
        deliver_ms = max(point.due_ms - _EARLY_MS, 0)
        return self._message(point, CHECK_POINT_TAG, content, deliver_ms=deliver_ms)

    def _message(
        self, point: CheckPoint, tag: str, body: bytes, *, deliver_ms: int
    ) -> InnerMessage:
        # Java's records also have a unique key, but nothing reads it; without a key they are not indexed.
        deliver = str(deliver_ms)
        return InnerMessage(
            topic=self._topic,
            queue_id=point.revive_queue,
            body=body,
            properties={TAGS: tag, TIMER_DELIVER_MS: deliver},
            block=f"{TAGS}\1{tag}\2{TIMER_DELIVER_MS}\1{deliver}\2".encode(),
            born_ms=self._parts.clock.now_ms(),
            born_host=self._parts.store.store_host,
        )

    def passed(self, point: CheckPoint, result: PutResult) -> WrittenRecord:
        """Note that a record of the revive topic was written, skip it if it is next to read, return its position."""
        written = WrittenRecord._make(result)
        cursor = self._cursors[point.revive_queue]
        if cursor.offset == written.queue_offset:
            cursor.offset += 1
        return written
