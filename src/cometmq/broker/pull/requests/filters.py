"""Request CHECK_CLIENT_CONFIG 46: decodes a subscription and checks it."""

from cometmq.broker.parts import Feature, Parts
from cometmq.broker.pull.filters import FilterCheck, Filters
from cometmq.codec.bodies.client_config import decode_client_config
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.steps.steps import Steps


class FilterHandler(Feature):
    """Handles the check of a client's subscription."""

    def __init__(self, parts: Parts) -> None:
        self._check = FilterCheck(Filters(parts.settings, parts.members), parts.turns)
        self.answers = {RequestCode.CHECK_CLIENT_CONFIG: self.check}

    def check(self, command: Command, peer: Peer) -> Steps[Answer]:
        """Check a consumer's subscription (CHECK_CLIENT_CONFIG 46); a request without one passes."""
        asked = decode_client_config(command.body)
        if asked is not None:
            yield from self._check.check(asked, peer)
        return Answer()
