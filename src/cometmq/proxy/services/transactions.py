"""EndTransaction and RecallMessage: ends transactions, and cancels timed messages.

Source: EndTransactionActivity, TransactionProcessor and RecallMessageActivity of RocketMQ 5.3.x. Differs: transaction ids
contain the place of the half message (`v2.transaction_ids`), so the proxy remembers nothing; and a call is answered
when the transaction has ended.
"""

from google.protobuf.message import Message

from cometmq.codec.headers.send import RecallRequest
from cometmq.codec.headers.transaction import EndTransaction
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.flags import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from cometmq.model.rights import Action, Right
from cometmq.proxy.services.access import topic_accesses
from cometmq.proxy.services.methods import CallContext
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.checks import topic_name
from cometmq.proxy.v2.statuses import OK, ProxyRefusal
from cometmq.proxy.v2.transaction_ids import TransactionPlace, decode_transaction_id
from cometmq.steps.steps import Steps

_ENDS = {pb.COMMIT: TRANSACTION_COMMIT, pb.ROLLBACK: TRANSACTION_ROLLBACK}
# Answers of the broker that mean that there is no such open transaction, or it has ended otherwise.
_OF_IDS = (ResponseCode.SYSTEM_ERROR, ResponseCode.ILLEGAL_OPERATION)


def end_transaction(context: CallContext, request: pb.EndTransactionRequest) -> Steps[Message]:
    """Commit or roll back a transaction, and answer once that is stored; for any other outcome, only answer OK."""
    topic = topic_name(request.topic)
    context.check(Right.WRITER, topic_accesses(topic, Action.PUB))
    if not request.transaction_id or request.transaction_id.isspace():
        raise ProxyRefusal(pb.INVALID_TRANSACTION_ID, "transaction id cannot be empty")
    place = decode_transaction_id(request.transaction_id)
    if place is None:
        raise _unknown_transaction()
    yield from _check_broker(context, topic, place)
    outcome = _ENDS.get(request.resolution)
    if outcome is None:
        return pb.EndTransactionResponse(status=OK)  # The broker asks again later.
    wanted = EndTransaction(
        topic, place.queue_offset, place.physical_offset, outcome, place.unique_key, topic,
        request.source == pb.SOURCE_SERVER_CHECK, place.unique_key, place.broker_name,
    )  # fmt: skip
    try:
        yield from context.backend.end_transaction(place.broker_name, wanted, context.asker)
    except RequestError as error:
        if error.code in _OF_IDS:
            raise ProxyRefusal(pb.INVALID_TRANSACTION_ID, error.remark) from None
        raise
    return pb.EndTransactionResponse(status=OK)


def _check_broker(context: CallContext, topic: str, place: TransactionPlace) -> Steps[None]:
    try:
        yield from context.backend.broker(topic, place.broker_name)
    except ProxyRefusal as error:
        if error.code == pb.BAD_REQUEST:
            raise _unknown_transaction() from None
        raise


def _unknown_transaction() -> ProxyRefusal:
    return ProxyRefusal(
        pb.INVALID_TRANSACTION_ID,
        "cannot found transaction data: the transaction id is malformed, or of another broker",
    )


def recall_message(context: CallContext, request: pb.RecallMessageRequest) -> Steps[Message]:
    """Cancel a timed message; answer once that is stored, without a check whether the message still waits."""
    topic = topic_name(request.topic)
    context.check(Right.WRITER, topic_accesses(topic, Action.PUB))
    (yield from context.backend.topic(topic)).check_type(pb.DELAY)
    if not request.recall_handle or request.recall_handle.isspace():
        raise ProxyRefusal(pb.BAD_REQUEST, "recall handle is invalid")
    wanted = RecallRequest(topic, request.recall_handle, topic)
    try:
        unique_key = yield from context.backend.recall(wanted, context.client)
    except RequestError as error:
        if error.code == ResponseCode.ILLEGAL_OPERATION:
            raise ProxyRefusal(pb.BAD_REQUEST, error.remark) from None
        raise
    return pb.RecallMessageResponse(status=OK, message_id=unique_key)
