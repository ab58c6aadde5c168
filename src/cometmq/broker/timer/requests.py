"""Requests RECALL_MESSAGE 370, GET_TIMER_CHECK_POINT 60 and GET_TIMER_METRICS 61."""

from cometmq.broker.timer.feature import Timer
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.send import RecallRequest
from cometmq.codec.remoting import Command
from cometmq.codec.timer_files import encode_check
from cometmq.model import properties as keys_of
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.answering import body_of, by_code
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps


def timer_answers(timer: Timer) -> Answers:
    """Return the handlers of recalls of timed messages, and of requests for the timer's checkpoint and counts."""

    def recall(command: Command, peer: Peer) -> Steps[Answer]:
        request = decode_fields(RecallRequest, command.fields)
        unique_key, region = yield from timer.recall.recall(request, peer.host)
        return Answer(fields={"msgId": unique_key, keys_of.MSG_REGION: region})

    return {
        RequestCode.RECALL_MESSAGE: recall,
        # Both as in the timer's files.
        RequestCode.GET_TIMER_CHECK_POINT: by_code(lambda: timer.check, body_of(encode_check)),
        RequestCode.GET_TIMER_METRICS: by_code(timer.counts_text, body_of(str.encode)),
    }
