"""Requests END_TRANSACTION 37 and RESUME_CHECK_HALF_MESSAGE 323."""

import logging

from cometmq.broker.transactions.feature import Transactions
from cometmq.broker.transactions.queues import PreparedEnd
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.transaction import EndTransaction, ResumeCheck
from cometmq.codec.remoting import RawCommand
from cometmq.model.codes import RequestCode
from cometmq.model.rights import Action, Asker
from cometmq.net.answer import Answer
from cometmq.net.answering import SUCCESS, by_fields
from cometmq.net.requests import Answers, may_of
from cometmq.net.shared_write import SharedWrite
from cometmq.steps.steps import Steps

_log = logging.getLogger(__name__)


def transaction_answers(transactions: Transactions) -> Answers:
    """Return the handlers of the ends of transactions, and of the resumption of checks of a discarded one.

    Unlike RocketMQ, a producer that does not know the outcome is answered, too, unless the request is one-way, so that it
    need not wait for a timeout.
    """
    ends, checks = transactions.ends, transactions.checks

    def prepare(command: RawCommand, asker: Asker) -> Steps[PreparedEnd]:
        request, remark = decode_fields(EndTransaction, command[6]), command[5]
        if remark:
            _log.debug("remark at the end of transaction %s: %s", request.msg_id, remark)
        return ends.prepare(request, may_of(asker, Action.PUB))

    return {
        RequestCode.END_TRANSACTION: SharedWrite(
            prepare,
            ends.store,
            lambda end: Answer(remark=end.remark) if end.remark else SUCCESS,
        ),
        RequestCode.RESUME_CHECK_HALF_MESSAGE: by_fields(
            ResumeCheck, lambda request: checks.resume(request.msg_id or "")
        ),
    }
