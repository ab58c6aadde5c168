"""The requests that a slave refuses because of its role, and the codes and remarks of the refusals.

Sends get SERVICE_NOT_AVAILABLE, which clients retry at another broker; a Java slave of 5.x answers SYSTEM_BUSY, which
clients of 4.9 do not retry. Changes of topics or groups are refused with Java's text.
"""

from collections.abc import Callable, Iterable, Mapping

from cometmq.broker.refusals import refusing
from cometmq.broker.tables.replication_state import SLAVE_REMARK
from cometmq.broker.tables.table_copies import SLAVE_ID, TABLES, TableCopies
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode as Code
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.text import as_given
from cometmq.net.peer import Peer
from cometmq.net.requests import (
    Answers,
    AnyHandler,
    BatchHandler,
    Handler,
    Outcome,
    Read,
    WithAsker,
    refuse_all,
)

# Text of AdminBrokerProcessor.validateSlave of RocketMQ 5.3.3.
_NO_CHANGES = "Can't modify topic or subscription group from slave broker, please execute it from master broker."
_NO_READS = (
    "[REJECTREQUEST]system busy, start flow control for a while"  # RocketMQ's text, too.
)

_SENDS = (ResponseCode.SERVICE_NOT_AVAILABLE, SLAVE_REMARK)
_CHANGES = (ResponseCode.SYSTEM_ERROR, _NO_CHANGES)
_ENDS = (
    ResponseCode.SLAVE_NOT_AVAILABLE,
    "this broker is a slave: ask its master, which keeps transactions and timed messages",
)
_POPS = (
    ResponseCode.SERVICE_NOT_AVAILABLE,
    "this broker is a slave and does not support pop consumption, which only its master does; pull from it instead",
)

REFUSED: Mapping[int, tuple[int, str]] = {
    Code.SEND_MESSAGE: _SENDS,
    Code.SEND_MESSAGE_V2: _SENDS,
    Code.SEND_BATCH_MESSAGE: _SENDS,
    Code.SEND_REPLY_MESSAGE: _SENDS,
    Code.SEND_REPLY_MESSAGE_V2: _SENDS,
    Code.CONSUMER_SEND_MSG_BACK: _SENDS,
    Code.END_TRANSACTION: _ENDS,
    Code.RESUME_CHECK_HALF_MESSAGE: _ENDS,
    Code.RECALL_MESSAGE: _ENDS,
    Code.POP_MESSAGE: _POPS,
    Code.PEEK_MESSAGE: _POPS,
    Code.NOTIFICATION: _POPS,
    Code.POLLING_INFO: _POPS,
    Code.ACK_MESSAGE: _POPS,
    Code.BATCH_ACK_MESSAGE: _POPS,
    Code.CHANGE_MESSAGE_INVISIBLETIME: _POPS,
    Code.POP_ROLLBACK: _POPS,
    Code.UPDATE_AND_CREATE_TOPIC: _CHANGES,
    Code.UPDATE_AND_CREATE_TOPIC_LIST: _CHANGES,
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: _CHANGES,
    Code.DELETE_TOPIC_IN_BROKER: _CHANGES,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _CHANGES,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _CHANGES,
    Code.DELETE_SUBSCRIPTIONGROUP: _CHANGES,
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: _CHANGES,
    Code.SET_MESSAGE_REQUEST_MODE: _CHANGES,
    Code.CLONE_GROUP_OFFSET: _CHANGES,
    Code.INVOKE_BROKER_TO_RESET_OFFSET: _CHANGES,
}
# Also refused unless slaveReadEnable is true.
UNREAD: Mapping[int, tuple[int, str]] = {
    Code.PULL_MESSAGE: (ResponseCode.SYSTEM_BUSY, _NO_READS),
    Code.LITE_PULL_MESSAGE: (ResponseCode.SYSTEM_BUSY, _NO_READS),
}


def slave_answers(answers: Iterable[Answers], *, is_read: bool) -> list[Answers]:
    """Return a master's handlers with refusals in place of those that a slave refuses; `is_read` is slaveReadEnable."""
    refused = REFUSED if is_read else {**REFUSED, **UNREAD}
    batches = {refusal: _RefusedBatch(*refusal) for refusal in set(refused.values())}
    single = {refusal: refusing(*refusal) for refusal in set(refused.values())}

    def instead(code: int, answer: AnyHandler) -> AnyHandler:
        refusal = refused.get(code)
        if refusal is None:
            return answer
        return batches[refusal] if isinstance(answer, BatchHandler) else single[refusal]

    return [{code: instead(code, answer) for code, answer in part.items()} for part in answers]


# Header field with the term of a member of a group that elects its leader, in its requests for tables.
GROUP_TERM = "groupTerm"
_OF_TERM = (
    *TABLES,
    Code.GET_ALL_DELAY_OFFSET,
    Code.GET_TIMER_METRICS,
    Code.GET_TIMER_CHECK_POINT,
    Code.GET_BROKER_RUNTIME_INFO,
)


class _RefusedBatch(BatchHandler):
    """A handler that refuses requests of one kind, sends or acknowledgements, one or several that were read together."""

    def __init__(self, code: int, remark: str) -> None:
        self._error = RequestError(code, remark)

    def handle(self, reads: list[Read]) -> None:
        for peer, commands in reads:
            refuse_all(commands, peer, self._error)

    def written(self) -> None:
        """Do nothing, because nothing was stored."""


def noting_slaves(answers: Answers, copies: TableCopies) -> Answers:
    """Return a master's handlers, which also tell `copies` which slaves request tables, if they send their id."""
    return _wrapped(answers, TABLES, lambda handler: _noting(handler, copies))


def _wrapped(
    answers: Answers, codes: Iterable[int], wrap: Callable[[Handler], Handler]
) -> Answers:
    wrapped: dict[int, AnyHandler] = dict(answers)
    for code in codes:
        handler = answers.get(code)
        if handler is not None:
            assert not isinstance(handler, WithAsker | BatchHandler)
            wrapped[code] = wrap(handler)
    return wrapped


def _noting(handler: Handler, copies: TableCopies) -> Handler:
    def note(command: Command, peer: Peer) -> Outcome:
        slave = command.fields.get(SLAVE_ID)
        if slave is not None:
            copies.asked(command.code, slave, peer)
        return handler(command, peer)

    return note


def of_term(answers: Answers, leads: Callable[[str], bool]) -> Answers:
    """Return handlers of tables that refuse a slave in a group with elections, unless this broker `leads` the slave's term.

    The slave deletes topics that the table lacks. The table of a master of another term may lack topics whose messages
    the slave has.
    """
    return _wrapped(answers, _OF_TERM, lambda handler: _of_term(handler, leads))


def _of_term(handler: Handler, leads: Callable[[str], bool]) -> Handler:
    def check(command: Command, peer: Peer) -> Outcome:
        term = command.fields.get(GROUP_TERM)
        if term is None or leads(term):
            return handler(command, peer)
        raise RequestError(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            f"this broker does not lead its group in term {as_given(term, 20)}; ask the leader",
        )

    return check
