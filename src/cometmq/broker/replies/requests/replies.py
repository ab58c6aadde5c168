"""Requests SEND_REPLY_MESSAGE 324 and SEND_REPLY_MESSAGE_V2 325."""

from cometmq.broker.parts import Feature, Parts
from cometmq.broker.replies.replies import Replies
from cometmq.broker.send.admission import AnySend
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.send import SendRequest, SendRequestV2
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.steps.steps import Steps


class ReplyHandler(Feature):
    """Handles the replies of request-reply, which it passes to the producer that waits."""

    def __init__(self, parts: Parts) -> None:
        self._settings = parts.settings
        self._replies = Replies(parts)
        self.answers = {
            RequestCode.SEND_REPLY_MESSAGE: self.reply,
            RequestCode.SEND_REPLY_MESSAGE_V2: self.reply,
        }

    def reply(self, command: Command, peer: Peer) -> Steps[Answer]:
        """Deliver a reply to its requester and usually store it (324, 325); answer SYSTEM_ERROR if the delivery fails."""
        is_long_form = command.code == RequestCode.SEND_REPLY_MESSAGE
        header: type[AnySend] = SendRequest if is_long_form else SendRequestV2
        request: AnySend = decode_fields(header, command.fields)
        result = yield from self._replies.reply(request, command.body, peer)
        fields = {
            "MSG_REGION": self._settings.region_id,
            "TRACE_ON": "true" if self._settings.is_trace_on else "false",
        }
        if result.fault is not None:
            return Answer(ResponseCode.SYSTEM_ERROR, result.fault, fields)
        fields["msgId"] = result.message_id
        fields["queueId"] = str(result.queue_id)
        fields["queueOffset"] = str(result.queue_offset)
        return Answer(fields=fields)
