"""Request 1008: the role of this broker changes."""

from collections.abc import Callable

from cometmq.codec.fields import decode_fields, encode_fields
from cometmq.codec.headers.replication import RoleChange, RoleChanged
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps

# Changes the role as wished; the second argument names who asks, for the log.
ChangeRole = Callable[[RoleChange], Steps[RoleChanged]]


class RoleHandler:
    """Handles requests to make this broker the master or a slave while it runs."""

    def __init__(self, change: ChangeRole) -> None:
        self._change = change
        self.answers: Answers = {RequestCode.NOTIFY_BROKER_ROLE_CHANGED: self.change}

    def change(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Make this broker a master or a slave (NOTIFY_BROKER_ROLE_CHANGED 1008); answer when that is done or has failed."""
        wish = decode_fields(RoleChange, command.fields)
        changed = yield from self._change(wish)
        return Answer(fields=encode_fields(changed))
