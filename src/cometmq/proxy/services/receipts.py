"""AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue: the methods that need a receipt handle.

A handle is good at least for as long as the broker hides its message, even beyond the time in the handle.
Source: AckMessageActivity, ChangeInvisibleDurationActivity and ForwardMessageToDLQActivity of RocketMQ 5.3.x.
"""

from google.protobuf.message import Message

from cometmq.codec.receipt import Receipt
from cometmq.model.codes import RequestCode
from cometmq.model.errors import RequestError
from cometmq.model.rights import Action, Right
from cometmq.proxy.services.access import group_access, topic_accesses
from cometmq.proxy.services.methods import CallContext
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.checks import check_invisible, group_name, milliseconds, topic_name
from cometmq.proxy.v2.receipt_handles import OF_HANDLES, decode_handle, encode_handle, expired
from cometmq.proxy.v2.statuses import OK, ProxyRefusal, status_of, status_of_entries
from cometmq.steps.steps import Steps

ENTRIES_MAX = 256
_ACK = RequestCode.ACK_MESSAGE


def acknowledge(context: CallContext, request: pb.AckMessageRequest) -> Steps[Message]:
    """Acknowledge up to 256 messages; return a status for each, OK if repeated before the handle's time is over."""
    topic, group = _names(context, request.topic, request.group)
    if not request.entries:
        raise ProxyRefusal(pb.BAD_REQUEST, "ack message result is empty")
    if len(request.entries) > ENTRIES_MAX:
        raise ProxyRefusal(
            pb.BAD_REQUEST,
            f"a call has {len(request.entries)} entries; at most {ENTRIES_MAX} are allowed",
        )
    decoded = [_decoded(each.receipt_handle) for each in request.entries]
    receipts = [each for each in decoded if isinstance(each, Receipt)]
    outcomes = iter((yield from context.backend.acknowledge(receipts, topic, group)))
    response = pb.AckMessageResponse()
    for entry, found in zip(request.entries, decoded, strict=True):
        error = next(outcomes) if isinstance(found, Receipt) else found
        response.entries.add(
            message_id=entry.message_id,
            receipt_handle=entry.receipt_handle,
            status=OK if error is None else status_of(_of_handle(error), _ACK),
        )
    response.status.CopyFrom(status_of_entries([each.status for each in response.entries]))
    return response


def _decoded(handle: str) -> Receipt | ProxyRefusal:
    try:
        return decode_handle(handle)[0]
    except ProxyRefusal as error:
        return error


def change(context: CallContext, request: pb.ChangeInvisibleDurationRequest) -> Steps[Message]:
    """Hide a message for the given duration from now on; return its new handle, which replaces the old one."""
    topic, group = _names(context, request.topic, request.group)
    invisible_ms = milliseconds(request.invisible_duration)
    check_invisible(invisible_ms, 0)
    receipt, physical_offset = decode_handle(request.receipt_handle)
    try:
        following = yield from context.backend.change(receipt, topic, group, invisible_ms)
    except RequestError as error:
        raise _of_handle(error) from None
    text = str(following)
    if physical_offset is not None:
        text = encode_handle(following, physical_offset)
    return pb.ChangeInvisibleDurationResponse(status=OK, receipt_handle=text)


def forward(
    context: CallContext, request: pb.ForwardMessageToDeadLetterQueueRequest
) -> Steps[Message]:
    """Store a message as a dead letter of the group, then acknowledge it, even if replicas lack the letter by then.

    A message that is not in the log any more is only acknowledged. For one that is not hidden any more the answer is OK, too, and
    nothing is done: official clients repeat a call that is refused, without a pause, for ever, and their queue stands still meanwhile.
    """
    topic, group = _names(context, request.topic, request.group)
    receipt, physical_offset = decode_handle(request.receipt_handle)
    yield from context.backend.bury(receipt, physical_offset, topic, group)
    return pb.ForwardMessageToDeadLetterQueueResponse(status=OK)


def _names(context: CallContext, topic: pb.Resource, group: pb.Resource) -> tuple[str, str]:
    names = topic_name(topic), group_name(group)
    context.check(
        Right.READER,
        topic_accesses(names[0], Action.SUB),
        group_access(names[1]),
    )
    return names


def _of_handle(error: Exception) -> Exception:
    if isinstance(error, RequestError) and error.code in OF_HANDLES:
        return expired(error.remark)
    return error
