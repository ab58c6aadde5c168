"""Requests PULL_MESSAGE 11 and LITE_PULL_MESSAGE 361: decodes headers and encodes answers."""

from cometmq.broker.pull.pulls import PullAnswer, Pulls
from cometmq.broker.request_caller import RequestCaller
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.pull import PullRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers, Outcome


class PullHandler:
    """Handles PULL_MESSAGE and LITE_PULL_MESSAGE, which it treats alike."""

    def __init__(self, service: Pulls) -> None:
        self._service = service
        self.answers: Answers = {
            RequestCode.PULL_MESSAGE: self.pull,
            RequestCode.LITE_PULL_MESSAGE: self.lite_pull,
        }

    def pull(self, command: Command, peer: Peer) -> Outcome:
        """Answer a pull, or hold it (PULL_MESSAGE 11)."""
        request = decode_fields(PullRequest, command.fields)
        caller = RequestCaller(command, peer, encode)
        return caller.answer_of(self._service.pull(request, caller))

    def lite_pull(self, command: Command, peer: Peer) -> Outcome:
        """Answer a pull of a lite pull consumer of RocketMQ 5.x, or hold it (LITE_PULL_MESSAGE 361)."""
        request = decode_fields(PullRequest, command.fields)
        caller = RequestCaller(command, peer, encode)
        return caller.answer_of(self._service.lite_pull(request, caller))


def encode(result: PullAnswer) -> Answer:
    """Encode the answer to a pull."""
    fields = {
        "suggestWhichBrokerId": str(result.next_broker),
        "nextBeginOffset": str(result.next_offset),
        "minOffset": str(result.min_offset),
        "maxOffset": str(result.max_offset),
        "groupSysFlag": str(result.group_flag),
        "topicSysFlag": str(result.topic_flag),
    }
    return Answer(result.code, result.remark, fields, [*result.records])
