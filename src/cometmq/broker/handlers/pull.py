"""PULL_MESSAGE 11 and LITE_PULL_MESSAGE 361: a frame's header to a request, a result to an answer.

Next: cometmq.broker.service.pull
"""

from collections.abc import Awaitable, Callable

from cometmq.broker.service.pull import Outcome, PullResult, Pulls
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.pull import PullRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.dispatcher import run_handler
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers


class PullHandler:
    """Handles pulls of all kinds."""

    def __init__(self, service: Pulls) -> None:
        self._service = service
        self.answers: Answers = {
            RequestCode.PULL_MESSAGE: self.pull,
            RequestCode.LITE_PULL_MESSAGE: self.lite_pull,
        }

    def pull(self, command: Command, peer: Peer) -> Answer | Awaitable[Answer | None] | None:
        """Answer a pull, or hold it."""
        request = decode_fields(PullRequest, command.fields)
        return _answer_of(self._service.pull(request, PullCaller(command, peer)))

    def lite_pull(
        self, command: Command, peer: Peer
    ) -> Answer | Awaitable[Answer | None] | None:
        """Answer a pull of a lite pull consumer of 5.x, or hold it."""
        request = decode_fields(PullRequest, command.fields)
        return _answer_of(self._service.lite_pull(request, PullCaller(command, peer)))


class PullCaller:
    """The connection that a pull came from, and its number there (`service.caller.Caller`)."""

    __slots__ = ("_command", "owner")

    def __init__(self, command: Command, peer: Peer) -> None:
        self._command = command
        self.owner = peer

    @property
    def is_gone(self) -> bool:
        """Whether the connection is closed."""
        return self.owner.is_closed

    def hold(self) -> None:
        """Keep the request's number alone."""
        self._command = self._command.without_content()

    def answer(self, work: Callable[[], Outcome]) -> None:
        """Answer with what `work` gives."""
        run_handler(lambda _command, _peer: _answer_of(work()), self._command, self.owner)


def _answer_of(outcome: Outcome) -> Answer | Awaitable[Answer | None] | None:
    if isinstance(outcome, PullResult):
        return _encode(outcome)
    return None if outcome is None else _answer_later(outcome)


async def _answer_later(outcome: Awaitable[PullResult | None]) -> Answer | None:
    result = await outcome
    return None if result is None else _encode(result)


def _encode(result: PullResult) -> Answer:
    fields = {
        "suggestWhichBrokerId": result.next_broker,
        "nextBeginOffset": str(result.next_offset),
        "minOffset": str(result.min_offset),
        "maxOffset": str(result.max_offset),
        "groupSysFlag": str(result.group_flag),
        "topicSysFlag": str(result.topic_flag),
    }
    return Answer(result.code, result.remark, fields, [*result.records])
