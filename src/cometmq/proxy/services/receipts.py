"""AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue: the methods that need a receipt handle.

A handle is good at least for as long as the broker hides its message, even beyond the time in the handle.
Source: AckMessageActivity, ChangeInvisibleDurationActivity and ForwardMessageToDLQActivity of RocketMQ 5.3.x.
"""

from google.protobuf.message import Message

from cometmq.codec.headers.pop import ChangeInvisibleTimeRequest
from cometmq.codec.headers.send import SendBackRequest
from cometmq.codec.receipt import Receipt, real_topic
from cometmq.codec.record import decode_record
from cometmq.model.clock import Clock
from cometmq.model.codes import VERSION, RequestCode, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.rights import Action, Right
from cometmq.net.requests import any_topic
from cometmq.proxy.services.access import group_access, topic_accesses
from cometmq.proxy.services.methods import CallContext
from cometmq.proxy.services.receiving import acknowledge
from cometmq.proxy.services.role_services import RoleServices
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.checks import check_invisible, group_name, milliseconds, topic_name
from cometmq.proxy.v2.receipt_handles import decode_handle, encode_handle, expired
from cometmq.proxy.v2.statuses import OK, ProxyRefusal, status_of, status_of_entries
from cometmq.steps.steps import Steps, elsewhere

ENTRIES_MAX = 256
_ACK = RequestCode.ACK_MESSAGE
# Answers of the broker that mean that a handle is not that of a message which is hidden now.
_OF_HANDLES = (
    ResponseCode.MESSAGE_ILLEGAL, ResponseCode.NO_MESSAGE, ResponseCode.INVALID_PARAMETER,
)  # fmt: skip


class Receipts:
    """Handles calls of AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def acknowledge(
        self, context: CallContext, request: pb.AckMessageRequest
    ) -> pb.AckMessageResponse:
        """Acknowledge up to 256 messages; return a status for each, OK if repeated before the handle's time is over."""
        topic, group = self._names(context, request.topic, request.group)
        if not request.entries:
            raise ProxyRefusal(pb.BAD_REQUEST, "ack message result is empty")
        if len(request.entries) > ENTRIES_MAX:
            raise ProxyRefusal(
                pb.BAD_REQUEST,
                f"a call has {len(request.entries)} entries; at most {ENTRIES_MAX} are allowed",
            )
        response = pb.AckMessageResponse()
        for entry in request.entries:
            response.entries.add(
                message_id=entry.message_id,
                receipt_handle=entry.receipt_handle,
                status=self._acknowledge(context.services, entry.receipt_handle, topic, group),
            )
        response.status.CopyFrom(status_of_entries([each.status for each in response.entries]))
        return response

    def _acknowledge(
        self, services: RoleServices, handle: str, topic: str, group: str
    ) -> pb.Status:
        try:
            receipt, _ = decode_handle(handle, services.parts.settings.broker_name)
            self._check_time(services, receipt, topic, group)
            acknowledge(services, receipt, topic, group)
        except Exception as error:  # noqa: BLE001  The other entries are acknowledged.
            return status_of(_of_handle(error), _ACK)
        return OK

    def change(
        self, context: CallContext, request: pb.ChangeInvisibleDurationRequest
    ) -> pb.ChangeInvisibleDurationResponse:
        """Hide a message for the given duration from now on; return its new handle, which replaces the old one."""
        topic, group = self._names(context, request.topic, request.group)
        invisible_ms = milliseconds(request.invisible_duration)
        check_invisible(invisible_ms, 0)
        services = context.services
        broker_name = services.parts.settings.broker_name
        receipt, physical_offset = decode_handle(request.receipt_handle, broker_name)
        if not self._is_held(services, receipt, topic, group):
            raise expired()
        name = real_topic(topic, group, receipt.kind)
        try:
            changed = services.pop.acks.change_invisible_time(
                ChangeInvisibleTimeRequest(
                    group, name, receipt.queue_id, str(receipt), receipt.queue_offset,
                    invisible_ms,
                )
            )  # fmt: skip
        except RequestError as error:
            raise _of_handle(error) from None
        following = receipt._replace(
            start_offset=receipt.queue_offset,
            pop_time_ms=changed.pop_time_ms,
            invisible_ms=changed.invisible_ms,
            revive_queue=changed.revive_queue,
        )
        text = str(following)
        if physical_offset is not None:
            text = encode_handle(following, physical_offset)
        return pb.ChangeInvisibleDurationResponse(status=OK, receipt_handle=text)

    def forward(
        self, context: CallContext, request: pb.ForwardMessageToDeadLetterQueueRequest
    ) -> Steps[Message]:
        """Store a message as a dead letter of the group, then acknowledge it, even if replicas lack the letter by then.

        A message whose topic was deleted is only acknowledged.
        """
        topic, group = self._names(context, request.topic, request.group)
        services = context.services
        receipt, physical_offset = decode_handle(
            request.receipt_handle, services.parts.settings.broker_name
        )
        if not self._is_held(services, receipt, topic, group):
            raise expired()
        return self._forward(services, receipt, physical_offset, topic, group)

    def _forward(
        self,
        services: RoleServices,
        receipt: Receipt,
        physical_offset: int | None,
        topic: str,
        group: str,
    ) -> Steps[Message]:
        found = yield from _place(services, real_topic(topic, group, receipt.kind), receipt)
        if found is None or physical_offset not in (None, found):
            raise expired("receipt handle is invalid: the message is not in the log any more")
        back = SendBackRequest(found, group, -1, max_reconsume_times=0)
        yield from services.retries.give_back(back, version=VERSION, may=any_topic)
        acknowledge(services, receipt, topic, group)
        return pb.ForwardMessageToDeadLetterQueueResponse(status=OK)

    def _names(
        self, context: CallContext, topic: pb.Resource, group: pb.Resource
    ) -> tuple[str, str]:
        names = topic_name(topic), group_name(group)
        context.check(
            Right.READER,
            topic_accesses(names[0], Action.SUB),
            group_access(names[1]),
        )
        return names

    def _is_held(
        self, services: RoleServices, receipt: Receipt, topic: str, group: str
    ) -> bool:
        """Return whether the message of a handle is still hidden from its group since the pop that the handle names."""
        holding = services.pop.holding
        held = holding.find(receipt, topic, group)
        return held is not None and receipt.queue_offset in holding.offsets(held)

    def _check_time(
        self, services: RoleServices, receipt: Receipt, topic: str, group: str
    ) -> None:
        """Raise ProxyRefusal if the time in a handle is over and its message is not hidden any more."""
        is_late = receipt.pop_time_ms + receipt.invisible_ms <= self._clock.now_ms()
        if is_late and not self._is_held(services, receipt, topic, group):
            raise expired()


def _of_handle(error: Exception) -> Exception:
    if isinstance(error, RequestError) and error.code in _OF_HANDLES:
        return expired(error.remark)
    return error


def _place(services: RoleServices, topic: str, receipt: Receipt) -> Steps[int | None]:
    """Return the physical offset of the message of a handle; None if the broker does not have it any more."""
    found = services.parts.store.get(topic, receipt.queue_id, receipt.queue_offset, max_count=1)
    if found.cold is not None:
        found = yield from elsewhere(found.cold)
    for piece in found.records:
        record = decode_record(piece)
        if record.queue_offset == receipt.queue_offset:
            return record.physical_offset
    return None
