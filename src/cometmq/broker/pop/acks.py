"""ACK_MESSAGE 200051, BATCH_ACK_MESSAGE 200151 and CHANGE_MESSAGE_INVISIBLETIME 200053.

An acknowledgement that names no open check point is answered like any other: its message was
acknowledged before, or its time is over and it comes again. Follows AckMessageProcessor and
ChangeInvisibleTimeProcessor of RocketMQ 5.3.3; differs in that a message whose time is over cannot be
hidden any more, where Java would hand it out twice.

Next: cometmq.broker.pop.journal
"""

from cometmq.broker.parts import Parts
from cometmq.broker.pop.hand_outs import CheckPoint, Place
from cometmq.broker.pop.invisible_time import check_invisible_time
from cometmq.broker.pop.journal import Journal
from cometmq.broker.pop.orders import NOT_FOUND, Orders
from cometmq.broker.pop.waiting import PopLongPolls
from cometmq.codec.bodies.batch_ack import BatchAck, decode_batch_ack
from cometmq.codec.bodies.pop_journal import CheckPointBody
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.pop import AckRequest, ChangeInvisibleTimeRequest
from cometmq.codec.receipt import ORDER_QUEUE, Receipt, parse_receipt, real_topic
from cometmq.codec.remoting import Command
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.names import pop_origin_topic
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer


class Acks:
    """Handles what clients say of messages that they were given."""

    def __init__(
        self, parts: Parts, *, journal: Journal, orders: Orders, waiting: PopLongPolls
    ) -> None:
        self._parts = parts
        self._journal = journal
        self._hand_outs = journal.hand_outs
        self._orders = orders
        self._waiting = waiting

    def ack(self, command: Command, _peer: Peer) -> Answer:
        """A message is done with."""
        request = decode_fields(AckRequest, command.fields)
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
        return Answer()

    def batch_ack(self, command: Command, _peer: Peer) -> Answer:
        """Messages of several check points are done with."""
        acks = decode_batch_ack(command.body) if command.body else []
        if not acks:
            raise RequestError(ResponseCode.NO_MESSAGE, "the batch acknowledges nothing")
        for ack in acks:
            self._ack_some(ack)
        return Answer()

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
        self._hand_outs.acknowledge((topic, group, queue_id, start, pop_time_ms), offsets)

    def _ack_in_order(self, place: Place, offset: int, pop_time_ms: int) -> None:
        group, topic, queue_id = place
        known = self._parts.offsets.get(group, topic, queue_id)
        if known is not None and offset < known:
            return
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
        if following >= 0:
            self._parts.offsets.commit(group, topic, queue_id, offset=following)
            self._waiting.wake((pop_origin_topic(topic, group), group))

    def change_invisible_time(self, command: Command, _peer: Peer) -> Answer:
        """A message comes again after another time."""
        request = decode_fields(ChangeInvisibleTimeRequest, command.fields)
        low, high = self._range(request.topic, request.queue_id)
        if not low <= request.offset < high:
            raise RequestError(
                ResponseCode.NO_MESSAGE,
                f"offset {request.offset} is not in {low}~{high} of {request.topic}",
            )
        check_invisible_time(request.invisible_time, 0, self._parts.settings)
        receipt = parse_receipt(request.extra_info)
        if receipt.revive_queue == ORDER_QUEUE:
            return self._show_in_order_later(request, receipt)
        now = self._hide_again(request, receipt)
        return _changed(now, request.invisible_time, receipt)

    def _show_in_order_later(
        self, request: ChangeInvisibleTimeRequest, receipt: Receipt
    ) -> Answer:
        place = (request.consumer_group, request.topic, request.queue_id)
        at_ms = self._parts.clock.now_ms() + request.invisible_time
        self._orders.show_again_at(place, request.offset, receipt.pop_time_ms, at_ms)
        return _changed(receipt.pop_time_ms, at_ms - receipt.pop_time_ms, receipt)

    def _hide_again(self, request: ChangeInvisibleTimeRequest, receipt: Receipt) -> int:
        """A check point of its own for the message; the time of its pop, ms."""
        group, topic, queue_id = request.consumer_group, request.topic, request.queue_id
        offset, now = request.offset, self._parts.clock.now_ms()
        old = (topic, group, queue_id, receipt.start_offset, receipt.pop_time_ms)
        if not self._hand_outs.is_open(old, offset):
            return now
        now = self._hand_outs.new_pop_time(old, offset, now)
        body = CheckPointBody(
            topic, group, queue_id, offset, (offset,), now, request.invisible_time,
            broker_name=self._parts.settings.broker_name,
        )  # fmt: skip
        self._journal.record(
            CheckPoint(body, self._journal.queue_or_other(receipt.revive_queue))
        )
        self._hand_outs.acknowledge(old, (offset,))
        return now

    def _range(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The offsets of a queue that clients may name."""
        config = self._parts.topics.get(topic)
        if config is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!"
            )
        if not 0 <= queue_id < config.read_queues:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"queueId[{queue_id}] is illegal, topic:[{topic}] "
                f"topicConfig.readQueueNums:[{config.read_queues}]",
            )
        queue = self._parts.store.queue(topic, queue_id)
        return (0, 0) if queue is None else (queue.min_offset, queue.max_offset)


def _changed(pop_time_ms: int, invisible_ms: int, receipt: Receipt) -> Answer:
    return Answer(
        fields={
            "popTime": str(pop_time_ms),
            "invisibleTime": str(invisible_ms),
            "reviveQid": str(receipt.revive_queue),
        }
    )
