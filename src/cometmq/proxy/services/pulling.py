"""PullMessage, UpdateOffset, GetOffset and QueryOffset: consuming by offset, not implemented in RocketMQ's proxy."""

from functools import partial

from google.protobuf.message import Message

from cometmq.broker.pull.pulls import PullAnswer
from cometmq.codec.headers.offset import QueryConsumerOffset, UpdateConsumerOffset
from cometmq.codec.headers.pull import PullRequest
from cometmq.codec.record import decode_records
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.flags import PULL_SUBSCRIPTION, PULL_SUSPEND
from cometmq.model.queue import MessageQueue
from cometmq.model.rights import Action, Right
from cometmq.model.subscription import SQL92, TAG
from cometmq.proxy.services.access import group_access, topic_accesses
from cometmq.proxy.services.methods import NO_MESSAGE, CallContext, CallRunner, Method
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.checks import group_name, milliseconds, topic_name
from cometmq.proxy.v2.delivered_messages import THREAD_SIZE, Delivery, delivered_messages
from cometmq.proxy.v2.statuses import OK, ProxyRefusal, status
from cometmq.steps.steps import Steps, elsewhere

BATCH_MAX = 32
POLL_MS_MAX = 20_000
_SIZE_MAX = 4 << 20
_LONG_MAX = (1 << 63) - 1
_MOVED = ResponseCode.PULL_OFFSET_MOVED


class Pulling:
    """PullMessage: reads messages of a queue by offset, without a receipt."""

    def __init__(self, runner: CallRunner) -> None:
        self._runner = runner
        self.method = Method(
            RequestCode.PULL_MESSAGE, pb.PullMessageRequest, pb.PullMessageResponse, self.pull
        )

    def pull(self, context: CallContext, request: pb.PullMessageRequest) -> Steps[None]:
        """Read messages of a queue from an offset on; if there are none, wait as requested, at most 20 s."""
        queue = yield from _queue(context, request.message_queue)
        group = group_name(request.group)
        context.check(
            Right.READER, topic_accesses(queue.topic, Action.SUB), group_access(group)
        )
        if request.batch_size <= 0:
            raise ProxyRefusal(
                pb.BAD_REQUEST, f"batch_size must be 1 or more, not {request.batch_size}"
            )
        if request.offset < 0:
            raise ProxyRefusal(pb.ILLEGAL_OFFSET, f"offset {request.offset} is negative")
        poll_ms = min(max(milliseconds(request.long_polling_timeout), 0), POLL_MS_MAX)
        expression = request.filter_expression
        wanted = PullRequest(
            group, queue.topic, queue.queue_id, request.offset, min(request.batch_size, BATCH_MAX),
            PULL_SUBSCRIPTION | (PULL_SUSPEND if poll_ms else 0),
            suspend_timeout_millis=poll_ms,
            subscription=expression.expression or "*",
            expression_type=SQL92 if expression.type == pb.SQL else TAG,
            max_msg_bytes=_SIZE_MAX,
        )  # fmt: skip
        answer = partial(self._answer, context, request)
        caller = self._runner.waiting(self.method, context, answer)
        result = yield from context.backend.pull(queue.broker_name, wanted, caller)
        if result is not None:
            yield from answer(result)

    def _answer(
        self, context: CallContext, request: pb.PullMessageRequest, result: PullAnswer
    ) -> Steps[None]:
        call = context.call
        found = OK
        if not result.records:
            is_moved = result.code == _MOVED
            found = (
                status(
                    pb.ILLEGAL_OFFSET,
                    f"the offset is not within {result.min_offset} to {result.max_offset}",
                )
                if is_moved
                else status(pb.MESSAGE_NOT_FOUND, NO_MESSAGE)
            )
        make = partial(_encoded, result, request.message_queue.topic.resource_namespace, found)
        size = sum(map(len, result.records))
        parts = (yield from elsewhere(make)) if size > THREAD_SIZE else make()
        for part in parts:
            call.answer(part)
        call.finish()


def _encoded(result: PullAnswer, namespace: str, found: pb.Status) -> list[bytes]:
    """Return the encoded parts of an answer: its status, each message, and the next offset."""
    deliveries = [Delivery(record) for record in decode_records(b"".join(result.records))]
    messages = delivered_messages(deliveries, namespace)
    parts = [pb.PullMessageResponse(status=found)]
    parts += [pb.PullMessageResponse(message=each) for each in messages]
    parts.append(pb.PullMessageResponse(next_offset=result.next_offset))
    return [part.SerializeToString() for part in parts]


def update_offset(context: CallContext, request: pb.UpdateOffsetRequest) -> Steps[Message]:
    """Commit the offset of a group in a queue."""
    queue = yield from _queue(context, request.message_queue)
    group = group_name(request.group)
    context.check(
        Right.READER,
        topic_accesses(queue.topic, Action.SUB, Action.UPDATE),
        group_access(group),
    )
    if request.offset < 0:
        raise ProxyRefusal(pb.ILLEGAL_OFFSET, f"offset {request.offset} is negative")
    wanted = UpdateConsumerOffset(group, queue.topic, queue.queue_id, request.offset)
    try:
        yield from context.backend.commit(queue.broker_name, wanted)
    except RequestError as error:
        if error.code == ResponseCode.INVALID_PARAMETER:
            raise ProxyRefusal(pb.ILLEGAL_OFFSET, error.remark) from None
        raise
    return pb.UpdateOffsetResponse(status=OK)


def get_offset(context: CallContext, request: pb.GetOffsetRequest) -> Steps[Message]:
    """Return the offset that a group has committed in a queue; without one the answer is OFFSET_NOT_FOUND."""
    queue = yield from _queue(context, request.message_queue)
    group = group_name(request.group)
    context.check(
        Right.READER,
        topic_accesses(queue.topic, Action.SUB, Action.GET),
        group_access(group),
    )
    wanted = QueryConsumerOffset(
        group, queue.topic, queue.queue_id, set_zero_if_not_found=False
    )
    offset = yield from context.backend.committed(queue.broker_name, wanted)
    return pb.GetOffsetResponse(status=OK, offset=offset)


def query_offset(context: CallContext, request: pb.QueryOffsetRequest) -> Steps[Message]:
    """Return the first offset of a queue, the one after its last message, or the one found for a time."""
    queue = yield from _queue(context, request.message_queue)
    context.check(Right.READER, topic_accesses(queue.topic, Action.SUB, Action.GET))
    backend, policy = context.backend, request.query_offset_policy
    if policy == pb.TIMESTAMP:
        if not request.HasField("timestamp"):
            raise ProxyRefusal(pb.BAD_REQUEST, "the policy TIMESTAMP needs a timestamp")
        time_ms = milliseconds(request.timestamp)
        offset = yield from backend.offset_by_time(queue, time_ms)
    elif policy == pb.BEGINNING:
        offset = yield from backend.first_offset(queue)
    elif policy == pb.END:
        offset = yield from backend.end_offset(queue)
    else:
        raise ProxyRefusal(pb.BAD_REQUEST, f"unknown offset policy {policy}")
    return pb.QueryOffsetResponse(status=OK, offset=offset)


def _queue(context: CallContext, named: pb.MessageQueue) -> Steps[MessageQueue]:
    """Return the queue that a request names; raise ProxyRefusal if its topic or broker is unknown, or it is missing."""
    name = topic_name(named.topic)
    topic = yield from context.backend.topic(name)
    broker_name = yield from context.backend.broker(name, named.broker.name)
    topic.check_queue(broker_name, named.id)
    return MessageQueue(name, broker_name, named.id)
