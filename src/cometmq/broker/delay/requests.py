"""GET_ALL_DELAY_OFFSET 45: how far the delay levels are."""

from cometmq.broker.delay.feature import DelayLevels
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers


class DelayHandler:
    """Handles what is asked of the delay levels."""

    def __init__(self, levels: DelayLevels) -> None:
        self._levels = levels
        self.answers: Answers = {RequestCode.GET_ALL_DELAY_OFFSET: self.offsets}

    def offsets(self, _command: Command, _peer: Peer) -> Answer:
        """GET_ALL_DELAY_OFFSET 45."""
        return Answer(body=self._levels.offsets_text().encode())
