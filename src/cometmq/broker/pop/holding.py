"""Extends and ends the invisible time of popped messages without new handles, for a consumer that is known to be alive.

Differs: RocketMQ's proxy changes the invisible time of each message instead, which gives it a new handle that only this
proxy knows. Here the check point, or the lock of a queue popped in order, gets another end, so that the handle that the
consumer has stays good as long as the message is hidden, also after a restart.
"""

from typing import NamedTuple

from cometmq.broker.parts import Parts
from cometmq.broker.pop.acks import ChangedTime
from cometmq.broker.pop.check_points import CheckPoint, Place, PointState
from cometmq.broker.pop.invisible_time import check_invisible_time
from cometmq.broker.pop.journal import Journal
from cometmq.broker.pop.orders import Orders
from cometmq.broker.pop.waiting import PopLongPolls
from cometmq.codec.headers.pop import ChangeInvisibleTimeRequest
from cometmq.codec.receipt import ORDER_QUEUE, Receipt, parse_receipt, real_topic
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.names import pop_origin_topic
from cometmq.model.text import as_given


class OrderedPop(NamedTuple):
    """The messages of a queue that were popped in order at a time, epoch ms."""

    place: Place
    pop_time_ms: int


# Messages of a pop that are hidden together.
HeldMessages = CheckPoint | OrderedPop


class Holding:
    """Finds the messages of a pop by a handle, and changes until when they are hidden."""

    def __init__(
        self, parts: Parts, *, journal: Journal, orders: Orders, waiting: PopLongPolls
    ) -> None:
        self._clock = parts.clock
        self._settings = parts.settings
        self._journal = journal
        self._check_points = journal.check_points
        self._orders = orders
        self._waiting = waiting

    def find(self, receipt: Receipt, topic: str, group: str) -> HeldMessages | None:
        """Return the messages popped together with that of a handle; None if all are acknowledged or delivered again.

        `topic` is the one that the consumer asked for.
        """
        name = real_topic(topic, group, receipt.kind)
        if receipt.revive_queue == ORDER_QUEUE:
            pop = OrderedPop((group, name, receipt.queue_id), receipt.pop_time_ms)
            return pop if self.offsets(pop) else None
        key = (name, group, receipt.queue_id, receipt.start_offset, receipt.pop_time_ms)
        return self._check_points.get(key)

    def offsets(self, held: HeldMessages) -> list[int]:
        """Return the queue offsets of the messages that are neither acknowledged nor delivered again."""
        if isinstance(held, OrderedPop):
            return self._orders.in_flight(*held)
        return list(held.left()) if held.state is PointState.OPEN else []

    def extend(self, held: HeldMessages, invisible_ms: int) -> None:
        """Hide messages for a time from now on; StoreError: they are hidden, but a restart would forget that."""
        until_ms = self._clock.now_ms() + invisible_ms
        if isinstance(held, OrderedPop):
            self._show_at(held, until_ms)
        elif held.state is PointState.OPEN:
            self._journal.extend(held, until_ms - held.body.pop_time_ms)

    def keep(self, request: ChangeInvisibleTimeRequest) -> ChangedTime:
        """Hide the messages of a pop for another time under their handles, for a proxy; with 0 ms they are delivered again.

        With an offset the time is never made shorter; without a handle nothing is changed.

        Raises:
            RequestError: NO_MESSAGE: The message (offset below 0: each of them) is acknowledged or delivered again; or the
                handle is malformed, or the time out of bounds.
            StoreError: They are hidden, but a restart would forget that.
        """
        now_ms = self._clock.now_ms()
        if not request.extra_info:
            return ChangedTime(now_ms, 0, 0, keeps_handle=True)
        check_invisible_time(request.invisible_time, 0, self._settings)
        receipt, group = parse_receipt(request.extra_info), request.consumer_group
        held = self.find(receipt, pop_origin_topic(request.topic, group), group)
        offsets = self.offsets(held) if held is not None else []
        if (
            held is None
            or not offsets
            or (request.offset >= 0 and request.offset not in offsets)
        ):
            raise RequestError(
                ResponseCode.NO_MESSAGE,
                f"no message of group {group} in queue {request.queue_id} of topic {request.topic} is hidden under the "
                f"handle {as_given(request.extra_info, 120)}",
            )
        if not request.invisible_time:
            self.release(held)
        elif (
            request.offset < 0 or self._hidden_until_ms(held) < now_ms + request.invisible_time
        ):
            self.extend(held, request.invisible_time)
        until_ms = now_ms + request.invisible_time
        return ChangedTime(
            receipt.pop_time_ms, until_ms - receipt.pop_time_ms, receipt.revive_queue, keeps_handle=True
        )  # fmt: skip

    def _hidden_until_ms(self, held: HeldMessages) -> int:
        """Return the time until which any of the messages is hidden, epoch ms."""
        if isinstance(held, OrderedPop):
            return self._orders.hidden_until_ms(held.place)
        return held.due_ms

    def release(self, held: HeldMessages) -> None:
        """Let messages be delivered again now."""
        if isinstance(held, OrderedPop):
            self._show_at(held, self._clock.now_ms())
            group, topic, _ = held.place
            self._waiting.wake((pop_origin_topic(topic, group), group))
        else:
            self._check_points.release(held, self._clock.now_ms())

    def _show_at(self, pop: OrderedPop, at_ms: int) -> None:
        for offset in self._orders.in_flight(*pop):
            self._orders.show_again_at(pop.place, offset, pop.pop_time_ms, at_ms)
