"""Replies of request-reply (324, 325), and requests 223, 307 and 309 of an administrator to a consumer, relayed by the broker."""

from cometmq.broker.parts import Parts
from cometmq.broker.replies.relay import ClientRelay
from cometmq.broker.replies.replies import Replies
from cometmq.broker.send.admission import AnySend
from cometmq.broker.tables.client_peer import PeerAnswer
from cometmq.codec.bodies.queue_offsets import encode_all_client_offsets
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.console import ClientStatusRequest, DirectRequest, RunningRequest
from cometmq.codec.headers.send import SendRequest, SendRequestV2
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.net.answer import Answer
from cometmq.net.answering import body_of, by_fields
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps


def reply_answers(parts: Parts) -> Answers:
    """Return the handler of the replies of request-reply, which are passed to the producer that waits, and usually stored."""
    replies, settings = Replies(parts), parts.settings

    def reply(command: Command, peer: Peer) -> Steps[Answer]:
        is_long_form = command.code == RequestCode.SEND_REPLY_MESSAGE
        header: type[AnySend] = SendRequest if is_long_form else SendRequestV2
        request: AnySend = decode_fields(header, command.fields)
        result = yield from replies.reply(request, command.body, peer)
        fields = {
            "MSG_REGION": settings.region_id,
            "TRACE_ON": "true" if settings.is_trace_on else "false",
        }
        if result.fault is not None:
            return Answer(ResponseCode.SYSTEM_ERROR, result.fault, fields)
        fields["msgId"] = result.message_id
        fields["queueId"] = str(result.queue_id)
        fields["queueOffset"] = str(result.queue_offset)
        return Answer(fields=fields)

    return {RequestCode.SEND_REPLY_MESSAGE: reply, RequestCode.SEND_REPLY_MESSAGE_V2: reply}


def relay_answers(parts: Parts) -> Answers:
    """Return the handlers of requests that a connected consumer must answer: running state, offsets, consuming a message."""
    relay = ClientRelay(parts)

    def running(command: Command, _peer: Peer) -> Steps[Answer]:
        request = decode_fields(RunningRequest, command.fields)
        return _passed_back((yield from relay.running(request, command.fields)))

    def consume(command: Command, _peer: Peer) -> Steps[Answer]:
        request = decode_fields(DirectRequest, command.fields)
        return _passed_back((yield from relay.consume(request, command.fields)))

    return {
        RequestCode.GET_CONSUMER_RUNNING_INFO: running,
        RequestCode.CONSUME_MESSAGE_DIRECTLY: consume,
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: by_fields(
            ClientStatusRequest, relay.statuses, body_of(encode_all_client_offsets)
        ),
    }


def _passed_back(answer: PeerAnswer) -> Answer:
    return Answer(answer.code, answer.remark, answer.fields, answer.body)
