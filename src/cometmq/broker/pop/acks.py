"""Acknowledges popped messages, one or many at once, and changes the time for which they are invisible.

An acknowledgement without an open check point usually succeeds, because its message may have been acknowledged before,
or delivered again after its invisible time. Follows AckMessageProcessor and ChangeInvisibleTimeProcessor of RocketMQ
5.3.3. Differs: the old handle of a message in the retry topic cannot hide it again (Java would deliver it twice), and a
handle that was replaced by a change of the invisible time is refused while the new one is open (Java answers success
and delivers the message again).
"""

from collections.abc import Sequence
from typing import NamedTuple

from cometmq.broker.parts import Parts
from cometmq.broker.pop.check_points import CheckPoint, Place
from cometmq.broker.pop.invisible_time import check_invisible_time
from cometmq.broker.pop.journal import Journal
from cometmq.broker.pop.orders import NOT_FOUND, Orders
from cometmq.broker.pop.waiting import PopLongPolls
from cometmq.broker.tables.deleted_topics import deleted_group
from cometmq.codec.bodies.batch_ack import BatchAck
from cometmq.codec.bodies.pop_journal import CheckPointBody
from cometmq.codec.headers.pop import AckRequest, ChangeInvisibleTimeRequest
from cometmq.codec.receipt import ORDER_QUEUE, Receipt, parse_receipt, real_topic
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.names import pop_origin_topic


class ChangedTime(NamedTuple):
    """The values from which a message's new handle (its receipt) is made.

    Attributes:
        pop_time_ms: Pop time of the new check point, or now without one; of the old handle if in order; epoch ms.
        invisible_ms: Milliseconds from `pop_time_ms` to the requested end of its invisible time.
        revive_queue: Number of the revive queue, as in its old handle.
        keeps_handle: True if the old handle stays; None if the new one replaces it.
    """

    pop_time_ms: int
    invisible_ms: int
    revive_queue: int
    keeps_handle: bool | None = None


class Acks:
    """The service for acknowledgements and changes of the invisible time."""

    def __init__(
        self, parts: Parts, *, journal: Journal, orders: Orders, waiting: PopLongPolls
    ) -> None:
        self._parts = parts
        self._journal = journal
        self._check_points = journal.check_points
        self._orders = orders
        self._waiting = waiting

    def ack(self, request: AckRequest) -> None:
        """Acknowledge a popped message; usually ignored if it was acknowledged before or is delivered again.

        Raises:
            RequestError: Topic or queue does not exist, the offset is out of its range, the handle is malformed or was
                replaced, or a message popped in order is not found.
        """
        topic, queue_id, offset = request.topic, request.queue_id, request.offset
        low, high = self._range(topic, queue_id)
        if not low <= offset <= high:
            raise RequestError(
                ResponseCode.NO_MESSAGE,
                f"offset is illegal, key:{topic}@{queue_id}, commit:{offset}, store:{low}~{high}",
            )
        receipt = parse_receipt(request.extra_info)
        place = (request.consumer_group, topic, queue_id)
        if receipt.revive_queue == ORDER_QUEUE:
            self._ack_in_order(place, offset, receipt.pop_time_ms)
        else:
            self._ack(place, receipt.start_offset, receipt.pop_time_ms, (offset,))

    def batch_ack(self, acks: Sequence[BatchAck]) -> None:
        """Acknowledge messages of several check points, as many as possible.

        Raises:
            RequestError: The batch is empty, a message popped in order is not found, or a handle was replaced. Others
                are acknowledged, except those after a message that is not found in its entry of the batch.
        """
        if not acks:
            raise RequestError(
                ResponseCode.NO_MESSAGE, "the batch contains no acknowledgements"
            )
        failure: RequestError | None = None
        for ack in acks:
            try:
                self._ack_some(ack)
            except RequestError as error:
                failure = failure or error  # The other acknowledgements are still done.
        if failure is not None:
            raise failure

    def _ack_some(self, ack: BatchAck) -> None:
        topic = real_topic(ack.topic, ack.group, ack.kind)
        place = (ack.group, topic, ack.queue_id)
        if ack.revive_queue != ORDER_QUEUE:
            self._ack(place, ack.start_offset, ack.pop_time_ms, ack.offsets)
            return
        for offset in ack.offsets:
            self._ack_in_order(place, offset, ack.pop_time_ms)

    def _ack(
        self, place: Place, start: int, pop_time_ms: int, offsets: tuple[int, ...]
    ) -> None:
        group, topic, queue_id = place
        key = (topic, group, queue_id, start, pop_time_ms)
        replaced = [each for each in offsets if self._check_points.is_replaced(key, each)]
        self._check_points.acknowledge(key, offsets)
        self.counted(topic, group, len(offsets) - len(replaced))
        if replaced:
            raise _replaced(topic, queue_id, replaced)

    def counted(self, topic: str, group: str, count: int) -> None:
        """Add to the counter of a group's acknowledged messages, for statistics."""
        self._parts.counters.acks.of(topic, group).add(count, 0, 0)

    def _ack_in_order(self, place: Place, offset: int, pop_time_ms: int) -> None:
        group, topic, queue_id = place
        known = self._parts.offsets.get(group, topic, queue_id)
        if known is not None and offset < known:
            return
        deleted = self._parts.topics.deleted
        names = (topic, deleted_group(group))
        if any(deleted.was_deleted(name, since_ms=pop_time_ms) for name in names):
            return  # The handle is from before the topic or group was deleted.
        queue = self._parts.store.queue(topic, queue_id)
        is_there = queue is not None and offset < queue.max_offset
        following = NOT_FOUND
        if is_there:
            following = self._orders.acknowledge(place, offset, pop_time_ms)
        if following == NOT_FOUND:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"offset is illegal, key:{topic}@{group}@{queue_id}, old:{known}, commit:{offset}",
            )
        self.counted(topic, group, 1)
        if following >= 0:
            self._parts.offsets.commit(group, topic, queue_id, offset=following)
            self._waiting.wake((pop_origin_topic(topic, group), group))

    def change_invisible_time(self, request: ChangeInvisibleTimeRequest) -> ChangedTime:
        """Change the time after which a popped message is delivered again; return the values of its new handle.

        A message that is acknowledged already, or due and put into the retry topic, is left as it is, without an error.

        Raises:
            RequestError: Topic, queue or offset does not exist, the handle is malformed or was replaced, or the time is
                out of bounds.
            StoreError: The new check point cannot be recorded.
        """
        low, high = self._range(request.topic, request.queue_id)
        if not low <= request.offset < high:
            raise RequestError(
                ResponseCode.NO_MESSAGE,
                f"queue {request.queue_id} of topic {request.topic} has no message at offset {request.offset}: "
                f"its first offset is {low}, and its next message gets {high}",
            )
        check_invisible_time(request.invisible_time, 0, self._parts.settings)
        receipt = parse_receipt(request.extra_info)
        if receipt.revive_queue == ORDER_QUEUE:
            return self._show_in_order_later(request, receipt)
        now = self._hide_again(request, receipt)
        return ChangedTime(now, request.invisible_time, receipt.revive_queue)

    def _show_in_order_later(
        self, request: ChangeInvisibleTimeRequest, receipt: Receipt
    ) -> ChangedTime:
        place = (request.consumer_group, request.topic, request.queue_id)
        at_ms = self._parts.clock.now_ms() + request.invisible_time
        self._orders.show_again_at(place, request.offset, receipt.pop_time_ms, at_ms)
        return ChangedTime(
            receipt.pop_time_ms, at_ms - receipt.pop_time_ms, receipt.revive_queue
        )

    def _hide_again(self, request: ChangeInvisibleTimeRequest, receipt: Receipt) -> int:
        """Give the message its own check point, and return the pop time of that, epoch ms.

        If the message has no open check point of this handle, only return the current time. Raises RequestError if its
        handle was replaced.
        """
        group, topic, queue_id = request.consumer_group, request.topic, request.queue_id
        offset, now = request.offset, self._parts.clock.now_ms()
        old = (topic, group, queue_id, receipt.start_offset, receipt.pop_time_ms)
        if self._check_points.is_replaced(old, offset):
            raise _replaced(topic, queue_id, [offset])
        if not self._check_points.is_open(old, offset):
            return now
        now = self._check_points.new_pop_time(old, offset, now)
        body = CheckPointBody(
            topic, group, queue_id, offset, (offset,), now, request.invisible_time,
            broker_name=self._parts.settings.broker_name,
        )  # fmt: skip
        point = CheckPoint(body, self._journal.queue_or_other(receipt.revive_queue))
        self._journal.record(point)
        self._check_points.replaced(old, offset, point)
        return now

    def _range(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return a queue's min and max offset, 0 and 0 if it never had a message; raise RequestError if it does not exist."""
        config = self._parts.topics.existing(topic)
        if not 0 <= queue_id < config.read_queues:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"queueId[{queue_id}] is illegal, topic:[{topic}] "
                f"topicConfig.readQueueNums:[{config.read_queues}]",
            )
        queue = self._parts.store.queue(topic, queue_id)
        return (0, 0) if queue is None else (queue.min_offset, queue.max_offset)


def _replaced(topic: str, queue_id: int, offsets: Sequence[int]) -> RequestError:
    return RequestError(
        ResponseCode.MESSAGE_ILLEGAL,
        f"the handle of {topic}@{queue_id}@{', '.join(map(str, offsets))} was replaced when the invisible time "
        "was changed; use the handle from the answer to that change",
    )
