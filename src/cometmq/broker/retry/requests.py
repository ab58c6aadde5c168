"""Request CONSUMER_SEND_MSG_BACK 36: decodes its header and answers."""

from cometmq.broker.parts import Feature, Parts
from cometmq.broker.retry.retries import Retries
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.send import SendBackRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.rights import Action, Asker
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import WithAsker, may_of
from cometmq.steps.steps import Steps


class RetryHandler(Feature):
    """Handles messages that a consumer sends back.

    Attributes:
        retries: The service that stores them again.
    """

    def __init__(self, parts: Parts) -> None:
        self.retries = Retries(parts)
        self.answers = {RequestCode.CONSUMER_SEND_MSG_BACK: WithAsker(self.give_back)}

    def give_back(self, command: Command, _peer: Peer, asker: Asker) -> Steps[Answer]:
        """Store a message again, as retry or dead letter, unless its topic was deleted (CONSUMER_SEND_MSG_BACK 36)."""
        request = decode_fields(SendBackRequest, command.fields)
        may = may_of(asker, Action.SUB)
        yield from self.retries.give_back(request, version=command.version, may=may)
        return Answer()
