"""Dispatchers of a few codes that everybody may send."""

from cometmq.model.rights import Right
from cometmq.net.dispatcher import Dispatcher
from cometmq.net.requests import (
    Answers,
    BatchHandler,
    OwnMachineGate,
    RequestRule,
    RequestTable,
)


def table_of(answers: Answers) -> RequestTable:
    rules = [
        RequestRule(code, Right.ANYBODY, (), is_batch=isinstance(answer, BatchHandler))
        for code, answer in answers.items()
    ]
    return RequestTable(rules, [answers], OwnMachineGate(lambda *_: "refused"))


def answering(answers: Answers) -> Dispatcher:
    return Dispatcher(table_of(answers))
