"""Request CONSUMER_SEND_MSG_BACK 36: decodes its header and answers."""

from cometmq.broker.parts import Feature, Parts
from cometmq.broker.retry.retries import Retries, ReturnedMessage
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.send import SendBackRequest
from cometmq.codec.remoting import RawCommand
from cometmq.model.codes import RequestCode
from cometmq.model.rights import Action, Asker
from cometmq.net.requests import may_of
from cometmq.net.shared_write import SharedWrite
from cometmq.steps.steps import Steps


class RetryHandler(Feature):
    """Handles messages that a consumer sends back.

    Attributes:
        retries: The service that stores them again.
    """

    def __init__(self, parts: Parts) -> None:
        self.retries = Retries(parts)
        self.answers = {
            RequestCode.CONSUMER_SEND_MSG_BACK: SharedWrite(self._prepare, self.retries.store)
        }

    def _prepare(self, command: RawCommand, asker: Asker) -> Steps[ReturnedMessage]:
        request, version = decode_fields(SendBackRequest, command[6]), command[4]
        may = may_of(asker, Action.SUB)
        return self.retries.prepare(request, version=version, may=may)
