"""CHECK_CLIENT_CONFIG 46: a frame's body to a subscription."""

from collections.abc import Awaitable

from cometmq.broker.parts import Feature, Parts
from cometmq.broker.pull.filters import FilterCheck, Filters
from cometmq.codec.bodies.client_config import decode_client_config
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer


class FilterHandler(Feature):
    """Handles what consumers ask of filters."""

    def __init__(self, parts: Parts) -> None:
        self._check = FilterCheck(Filters(parts.settings, parts.members), parts.turns)
        self.answers = {RequestCode.CHECK_CLIENT_CONFIG: self.check}

    def check(self, command: Command, peer: Peer) -> Answer | Awaitable[Answer]:
        """CHECK_CLIENT_CONFIG 46; without a subscription there is nothing to check."""
        asked = decode_client_config(command.body)
        checking = None if asked is None else self._check.check(asked, peer)
        return Answer() if checking is None else _answer_checked(checking)


async def _answer_checked(checking: Awaitable[None]) -> Answer:
    await checking
    return Answer()
