"""Requests END_TRANSACTION 37 and RESUME_CHECK_HALF_MESSAGE 323."""

from cometmq.broker.transactions.feature import Transactions
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.transaction import EndTransaction, ResumeCheck
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.rights import Action, Asker
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers, WithAsker, may_of
from cometmq.steps.steps import Steps


class TransactionHandler:
    """Handles the ends of transactions and the resumption of checks of a half message."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self.answers: Answers = {
            RequestCode.END_TRANSACTION: WithAsker(self.end),
            RequestCode.RESUME_CHECK_HALF_MESSAGE: self.resume,
        }

    def end(self, command: Command, _peer: Peer, asker: Asker) -> Steps[Answer]:
        """End a transaction (END_TRANSACTION 37).

        Unlike RocketMQ, it also answers a producer that does not know the outcome, unless the request is one-way, so
        that the producer need not wait for a timeout.
        """
        request = decode_fields(EndTransaction, command.fields)
        may = may_of(asker, Action.PUB)
        remark = yield from self._transactions.end(request, command.remark, may)
        return Answer(remark=remark)

    def resume(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Reopen a discarded transaction, so that it is checked again (RESUME_CHECK_HALF_MESSAGE 323)."""
        message_id = decode_fields(ResumeCheck, command.fields).msg_id or ""
        yield from self._transactions.resume(message_id)
        return Answer()
