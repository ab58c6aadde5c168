"""Popped messages whose invisible time the proxy renews at their brokers.

A CometMQ broker hides all messages of a pop for longer under their handles (`keeps_handle`), so any proxy can acknowledge
them. A broker of RocketMQ makes a new handle for each, which, as in RocketMQ's proxy, only this process knows.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

from cometmq.client.api.consuming import ConsumeApi
from cometmq.codec.headers.pop import (
    AckRequest,
    ChangedTimeResponse,
    ChangeInvisibleTimeRequest,
)
from cometmq.codec.receipt import ORDER_QUEUE, Receipt, real_topic
from cometmq.model.errors import BrokerRefused, CometError
from cometmq.net.tasks import Tasks
from cometmq.proxy.v2.receipt_handles import OF_HANDLES

_log = logging.getLogger(__name__)

# The first attempts to change an invisible time follow each other after one second, later ones after ten.
_QUICK_ATTEMPTS, _PAUSE_SECONDS, _LATER_SECONDS = 3, 1, 10
# After this time a released message of a broker of RocketMQ is delivered again (invisibleTimeMillisWhenClear).
_CLEAR_MS = 1_000
_ANY_OFFSET = -1

# The address of a broker by its name and a topic, and whether it keeps handles; raises CometError if it is unknown.
FindBroker = Callable[[str, str], Awaitable[tuple[str, bool]]]
# Broker, topic, group, queue, offset and the time of the pop, epoch ms.
_Key = tuple[str, str, str, int, int, int]


class _HiddenOfPop:
    """Messages of one queue that were popped together and are not acknowledged through this proxy, with newest receipts."""

    __slots__ = ("__weakref__", "_table", "changes", "group", "left", "topic")

    def __init__(
        self, table: "HiddenOfBrokers", topic: str, group: str, left: dict[int, Receipt]
    ) -> None:
        self._table = table
        self.topic = topic
        self.group = group
        self.left = left
        # How many changes were begun; the last one counts.
        self.changes = 0

    @property
    def is_over(self) -> bool:
        """Whether all are acknowledged through this proxy, or the broker says that none is hidden any more."""
        return not self.left

    def extend(self, invisible_ms: int) -> None:
        """Begin to ask the broker to hide the messages for a time from now on; a failure is logged."""
        self._table.change_soon(self, invisible_ms)

    def release(self) -> None:
        """Begin to ask the broker to deliver the messages again; a failure is logged."""
        self._table.change_soon(self, 0)


class HiddenOfBrokers:
    """The messages that are renewed."""

    def __init__(self, api: ConsumeApi, find: FindBroker, tasks: Tasks) -> None:
        self._api = api
        self._find = find
        self._tasks = tasks
        self._of: WeakValueDictionary[_Key, _HiddenOfPop] = WeakValueDictionary()

    def put(self, receipts: list[Receipt], topic: str, group: str) -> list[_HiddenOfPop]:
        """Return what holds messages that were just popped, by queue and topic; kept here as long as the caller keeps it."""
        pops: dict[Receipt, _HiddenOfPop] = {}
        for each in receipts:
            start = each._replace(queue_offset=-1)
            pop = pops.get(start)
            if pop is None:
                pop = pops[start] = _HiddenOfPop(self, topic, group, {})
            pop.left[each.queue_offset] = each
            self._of[_key(each, topic, group)] = pop
        return list(pops.values())

    def newest(self, receipt: Receipt, topic: str, group: str) -> Receipt | None:
        """Return the newest receipt of a message that is renewed here, by its first one; None for others."""
        pop = self._of.get(_key(receipt, topic, group))
        return None if pop is None else pop.left.get(receipt.queue_offset)

    def forget(self, receipt: Receipt, topic: str, group: str) -> Receipt | None:
        """Renew a message no more, because it is acknowledged or has a new handle; `receipt` is its first one.

        Returns its newest receipt, if it was renewed here.
        """
        pop = self._of.pop(_key(receipt, topic, group), None)
        return None if pop is None else pop.left.pop(receipt.queue_offset, None)

    def change_soon(self, pop: _HiddenOfPop, invisible_ms: int) -> None:
        """Hide messages for another time from now on, or with 0 ms have them delivered again, in the background."""
        if pop.left:
            pop.changes += 1
            self._tasks.spawn(self._change(pop, invisible_ms), "renewal")

    async def _change(self, pop: _HiddenOfPop, invisible_ms: int) -> None:
        """Try until it succeeds or the next change begins, for about as long as the messages would be hidden."""
        number = pop.changes
        for attempt in range(_QUICK_ATTEMPTS + invisible_ms // (_LATER_SECONDS * 1_000)):
            if number != pop.changes:
                return
            try:
                await self._change_once(pop, invisible_ms)
            except CometError as error:
                if attempt == _QUICK_ATTEMPTS - 1:
                    _log.warning(
                        "the invisible time of messages of group %s could not be changed: %s", pop.group, error
                    )  # fmt: skip
            else:
                return
            is_quick = attempt < _QUICK_ATTEMPTS - 1
            await asyncio.sleep(_PAUSE_SECONDS if is_quick else _LATER_SECONDS)

    async def _change_once(self, pop: _HiddenOfPop, invisible_ms: int) -> None:
        if not pop.left:
            return
        first = next(iter(pop.left.values()))
        address, keeps_handles = await self._find(first.broker_name, pop.topic)
        if keeps_handles:
            try:
                await self.keep(address, first, pop.topic, pop.group, invisible_ms, _ANY_OFFSET)
            except BrokerRefused as refused:
                if refused.code not in OF_HANDLES:
                    raise
                pop.left.clear()
            return
        failure: BrokerRefused | None = None
        for offset, receipt in list(pop.left.items()):
            try:
                told = await self._api.change_invisibility(
                    address, change_request(receipt, pop.topic, pop.group, invisible_ms or _CLEAR_MS)
                )  # fmt: skip
            except BrokerRefused as refused:
                if refused.code in OF_HANDLES:
                    pop.left.pop(offset, None)
                else:
                    failure = refused
                continue
            if receipt.revive_queue == ORDER_QUEUE:
                continue
            newest = following(receipt, told)
            if offset in pop.left:
                pop.left[offset] = newest
            else:  # It was acknowledged, or got another handle, under its old one meanwhile.
                await self._api.ack(address, ack_request(newest, pop.topic, pop.group))
        if failure is not None:
            raise failure

    async def keep(
        self,
        address: str,
        receipt: Receipt,
        topic: str,
        group: str,
        invisible_ms: int,
        offset: int,
    ) -> None:
        """Have a CometMQ broker hide the messages of a pop for longer; raise BrokerRefused if this one is not hidden.

        With an offset they stay hidden for at least that time.
        """
        request = change_request(receipt, topic, group, invisible_ms)
        await self._api.change_invisibility(
            address, ChangeInvisibleTimeRequest(
                request.consumer_group, request.topic, request.queue_id, request.extra_info, offset,
                invisible_ms, request.broker_name, keeps_handle=True,
            )
        )  # fmt: skip


def change_request(
    receipt: Receipt, topic: str, group: str, invisible_ms: int
) -> ChangeInvisibleTimeRequest:
    """Return the request to hide a message of the requested topic for a time from now on."""
    return ChangeInvisibleTimeRequest(
        group, real_topic(topic, group, receipt.kind), receipt.queue_id, str(receipt),
        receipt.queue_offset, invisible_ms, receipt.broker_name,
    )  # fmt: skip


def ack_request(receipt: Receipt, topic: str, group: str) -> AckRequest:
    """Return the request to acknowledge a message of the requested topic."""
    return AckRequest(
        group, real_topic(topic, group, receipt.kind), receipt.queue_id, str(receipt),
        receipt.queue_offset, receipt.broker_name,
    )  # fmt: skip


def following(receipt: Receipt, told: ChangedTimeResponse) -> Receipt:
    """Return the receipt of a message after its invisible time was changed."""
    return receipt._replace(
        start_offset=receipt.queue_offset, pop_time_ms=told.pop_time,
        invisible_ms=told.invisible_time, revive_queue=told.revive_qid,
    )  # fmt: skip


def _key(receipt: Receipt, topic: str, group: str) -> _Key:
    name = real_topic(topic, group, receipt.kind)
    return (
        receipt.broker_name, name, group, receipt.queue_id, receipt.queue_offset,
        receipt.pop_time_ms,
    )  # fmt: skip
