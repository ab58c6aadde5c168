"""Requests RECALL_MESSAGE 370, GET_TIMER_CHECK_POINT 60 and GET_TIMER_METRICS 61."""

from cometmq.broker.timer.feature import Timer
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.recall import RecallRequest
from cometmq.codec.remoting import Command
from cometmq.codec.timer_files import encode_check
from cometmq.model import properties as keys_of
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps


class TimerHandler:
    """Handles recalls of timed messages and requests for the timer's checkpoint and counts."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self.answers: Answers = {
            RequestCode.RECALL_MESSAGE: self.recall,
            RequestCode.GET_TIMER_CHECK_POINT: self.check,
            RequestCode.GET_TIMER_METRICS: self.counts,
        }

    def recall(self, command: Command, peer: Peer) -> Steps[Answer]:
        """Recall a message; the answer has its unique id (RECALL_MESSAGE 370)."""
        request = decode_fields(RecallRequest, command.fields)
        unique_key, region = yield from self._timer.recall.recall(request, peer.host)
        return Answer(fields={"msgId": unique_key, keys_of.MSG_REGION: region})

    def check(self, _command: Command, _peer: Peer) -> Answer:
        """Answer with the timer's last checkpoint, encoded as in its file (GET_TIMER_CHECK_POINT 60)."""
        return Answer(body=encode_check(self._timer.check))

    def counts(self, _command: Command, _peer: Peer) -> Answer:
        """Answer with the number of waiting timed messages per topic, as in timermetrics (GET_TIMER_METRICS 61)."""
        return Answer(body=self._timer.counts_text().encode())
