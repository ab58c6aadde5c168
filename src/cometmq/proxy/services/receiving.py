"""ReceiveMessage: pops messages, waits for some if there are none, and answers with a stream of them.

Checks and texts follow ReceiveMessageActivity and ConsumerProcessor of RocketMQ 5.3.x. Whether a group consumes in
order, and its number of attempts, come from its configuration in the broker, so a client need not send settings first.
Messages that a group has tried too often are not sent to it but become dead letters.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from cometmq.broker.pop.popping import PopResult
from cometmq.codec.headers.pop import PopRequest
from cometmq.codec.receipt import Receipt
from cometmq.codec.record import decode_records
from cometmq.model.clock import Clock
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CometError
from cometmq.model.group import GroupConfig
from cometmq.model.rights import Action, Right
from cometmq.model.subscription import SQL92, TAG
from cometmq.proxy.backend import Backend
from cometmq.proxy.queue_choice import ANY_QUEUE
from cometmq.proxy.services.access import group_access, topic_accesses
from cometmq.proxy.services.clients import CLIENT_VERSION
from cometmq.proxy.services.methods import NO_MESSAGE, CallContext, CallRunner, Method
from cometmq.proxy.services.renewals import Renewals
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.checks import (
    INVISIBLE_MS_MIN,
    check_invisible,
    group_name,
    milliseconds,
    topic_name,
)
from cometmq.proxy.v2.delivered_messages import THREAD_SIZE, Delivery, delivered_messages
from cometmq.proxy.v2.receipt_handles import encode_handle
from cometmq.proxy.v2.statuses import OK, ProxyRefusal
from cometmq.steps.steps import Steps, called_back, elsewhere

_log = logging.getLogger(__name__)

BATCH_MAX = 32
POLL_MS_MIN, POLL_MS_MAX = 5_000, 20_000
RENEWED_MS = 60_000  # How long messages are hidden that the proxy hides again and again.
# An answer is sent this long before the deadline of its call, because some clients have no time left after it.
_HEADROOM_MS = 200
# Clients try again 20 ms after TOO_MANY_REQUESTS; such an answer waits for so long.
_FULL_SECONDS = 0.2
_OLD_CODE_VERSION = "5.0.3"
_CODE = RequestCode.POP_MESSAGE


class Receiving:
    """ReceiveMessage: pops messages for a consumer group, each with a receipt handle."""

    def __init__(self, runner: CallRunner, renewals: Renewals, clock: Clock) -> None:
        self._runner = runner
        self._renewals = renewals
        self._clock = clock
        self.method = Method(
            _CODE, pb.ReceiveMessageRequest, pb.ReceiveMessageResponse, self.receive
        )

    def receive(self, context: CallContext, request: pb.ReceiveMessageRequest) -> Steps[None]:
        """Check the request and pop messages; the call is answered when there are some, or its time is over."""
        poll_ms = self._poll_ms(context, request)
        topic, group = topic_name(request.message_queue.topic), group_name(request.group)
        context.check(Right.READER, topic_accesses(topic, Action.SUB), group_access(group))
        invisible_ms = RENEWED_MS
        if not request.auto_renew:
            invisible_ms = milliseconds(request.invisible_duration)
            check_invisible(invisible_ms, INVISIBLE_MS_MIN)
        if request.batch_size <= 0:
            raise ProxyRefusal(
                pb.BAD_REQUEST, f"batch_size must be 1 or more, not {request.batch_size}"
            )
        broker_name = yield from context.backend.broker(
            topic, request.message_queue.broker.name
        )
        if not (yield from context.backend.topic(topic)).is_readable:
            raise ProxyRefusal(pb.FORBIDDEN, "no readable queue")
        config = yield from context.backend.group(group)
        # A push consumer of a group in order has a call for each queue; a simple one names any queue and means all.
        is_of_queue = config.orderly and context.client.type == pb.PUSH_CONSUMER
        queue_id = request.message_queue.id if is_of_queue else ANY_QUEUE
        expression = request.filter_expression
        pop = PopRequest(
            group, topic, queue_id, min(request.batch_size, BATCH_MAX), invisible_ms, poll_ms,
            exp_type=SQL92 if expression.type == pb.SQL else TAG,
            exp=expression.expression or "*",
            order=config.orderly,
            attempt_id=request.attempt_id or None,
        )  # fmt: skip
        answer = partial(self._answer, context, request, pop, config, broker_name)
        caller = self._runner.waiting(self.method, context, answer)
        result = yield from context.backend.pop(broker_name, pop, caller)
        if result is not None:
            yield from answer(result)

    def _poll_ms(self, context: CallContext, request: pb.ReceiveMessageRequest) -> int:
        """Return how long the call may wait, in ms; raise ProxyRefusal if its deadline is in less than 5 s."""
        deadline = context.call.deadline
        wanted = POLL_MS_MAX
        if request.HasField("long_polling_timeout"):
            wanted = milliseconds(request.long_polling_timeout)
        wanted = min(max(wanted, POLL_MS_MIN), POLL_MS_MAX)
        if deadline is None:
            return wanted
        left_ms = int((deadline - self._clock.monotonic()) * 1_000)
        if wanted > left_ms:
            if left_ms < POLL_MS_MIN:
                version = context.call.metadata.get(CLIENT_VERSION, "")
                is_old = version < _OLD_CODE_VERSION
                raise ProxyRefusal(
                    pb.BAD_REQUEST if is_old else pb.ILLEGAL_POLLING_TIME,
                    "The deadline time remaining is not enough for polling, please check network condition",
                )
            wanted = left_ms
        return max(min(wanted, left_ms - _HEADROOM_MS), 1)

    def _answer(
        self,
        context: CallContext,
        request: pb.ReceiveMessageRequest,
        pop: PopRequest,
        group: GroupConfig,
        broker_name: str,
        result: PopResult,
    ) -> Steps[None]:
        """Answer a call with its popped messages, or release them if the call is over; raise ProxyRefusal if none.

        Messages that were tried too often become dead letters before, in either case.
        """
        call, backend = context.call, context.backend
        if result.code == ResponseCode.POLLING_FULL:
            yield from _pause(_FULL_SECONDS)
            raise ProxyRefusal(pb.TOO_MANY_REQUESTS, "polling full")
        if result.code != ResponseCode.SUCCESS:
            raise ProxyRefusal(pb.MESSAGE_NOT_FOUND, NO_MESSAGE)
        deliveries = _deliveries(result, broker_name)
        dead = [each for each in deliveries if each.attempt > group.retry_max_times + 1]
        if dead:
            deliveries = [each for each in deliveries if each not in dead]
            yield from _bury(backend, pop, dead)
        if not deliveries:
            raise ProxyRefusal(pb.MESSAGE_NOT_FOUND, "no match message")
        make = partial(_encoded, deliveries, request.message_queue.topic.resource_namespace)
        size = sum(len(each.record.body) for each in deliveries)
        parts = (yield from elsewhere(make)) if size > THREAD_SIZE else make()
        held = backend.held(
            [each.receipt for each in deliveries if each.receipt], pop.topic, pop.consumer_group
        )
        if call.is_closed:
            for each in held:
                each.release()
            return
        if request.auto_renew:
            for each in held:
                self._renewals.add(context.client, each, pop.invisible_time)
        now = pb.ReceiveMessageResponse()
        now.delivery_timestamp.FromMilliseconds(self._clock.now_ms())
        for part in (*parts, now.SerializeToString()):
            call.answer(part)
        call.finish()


def _deliveries(result: PopResult, broker_name: str) -> list[Delivery]:
    """Return the messages of a pop with their handles, in the order in which the broker returned them."""
    records = iter(decode_records(b"".join(result.records)))
    counts = {place: count for _, place, count in result.order_counts or ()}
    found = []
    for (kind, queue_id, start), (_, _, offsets) in zip(
        result.starts, result.offsets, strict=True
    ):
        for offset, record in zip(offsets, records, strict=False):
            receipt = Receipt(
                start, result.pop_time_ms, result.invisible_ms, result.revive_queue, kind,
                broker_name, queue_id, offset,
            )  # fmt: skip
            times = record.reconsume_times
            if result.order_counts is not None:
                times = counts.get(f"qo{queue_id}%{offset}", 0)
            handle = encode_handle(receipt, record.physical_offset)
            found.append(Delivery(record, receipt, handle, times + 1, result.invisible_ms))
    return found


def _bury(backend: Backend, pop: PopRequest, dead: Sequence[Delivery]) -> Steps[None]:
    """Store messages as dead letters and acknowledge them; one that fails (logged) is delivered again later."""
    for each in dead:
        assert each.receipt is not None, "it was popped"
        offset = each.record.physical_offset
        try:
            yield from backend.bury(each.receipt, offset, pop.topic, pop.consumer_group)
        except (CometError, OSError) as error:
            _log.warning(
                "a message that group %s has tried too often is no dead letter yet: %s",
                pop.consumer_group, error,
            )  # fmt: skip


def _encoded(deliveries: Sequence[Delivery], namespace: str) -> list[bytes]:
    """Return the encoded parts of an answer: its status, and each message."""
    messages = delivered_messages(deliveries, namespace)
    parts = [pb.ReceiveMessageResponse(status=OK)]
    parts += [pb.ReceiveMessageResponse(message=each) for each in messages]
    return [part.SerializeToString() for part in parts]


def _pause(seconds: float) -> Steps[None]:
    with suppress(TimeoutError):
        yield from called_back(lambda _done: None, seconds)
