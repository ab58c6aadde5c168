"""Requests END_TRANSACTION 37 and RESUME_CHECK_HALF_MESSAGE 323."""

from cometmq.broker.transactions.feature import Transactions
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.transaction import EndTransaction, ResumeCheck
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.rights import Action, Asker
from cometmq.net.answer import Answer
from cometmq.net.answering import by_fields
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers, WithAsker, may_of
from cometmq.steps.steps import Steps


def transaction_answers(transactions: Transactions) -> Answers:
    """Return the handlers of the ends of transactions, and of the resumption of checks of a discarded one.

    Unlike RocketMQ, a producer that does not know the outcome is answered, too, unless the request is one-way, so that it
    need not wait for a timeout.
    """

    def end(command: Command, _peer: Peer, asker: Asker) -> Steps[Answer]:
        request = decode_fields(EndTransaction, command.fields)
        may = may_of(asker, Action.PUB)
        return Answer(remark=(yield from transactions.end(request, command.remark, may)))

    return {
        RequestCode.END_TRANSACTION: WithAsker(end),
        RequestCode.RESUME_CHECK_HALF_MESSAGE: by_fields(
            ResumeCheck, lambda request: transactions.resume(request.msg_id or "")
        ),
    }
