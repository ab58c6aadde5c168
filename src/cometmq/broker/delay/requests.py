"""Request GET_ALL_DELAY_OFFSET 45: returns the delivered offsets of the delay levels."""

from cometmq.broker.delay.feature import DelayLevels
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers


class DelayHandler:
    """Handles the request for the delivered offsets."""

    def __init__(self, levels: DelayLevels) -> None:
        self._levels = levels
        self.answers: Answers = {RequestCode.GET_ALL_DELAY_OFFSET: self.offsets}

    def offsets(self, _command: Command, _peer: Peer) -> Answer:
        """Answer with the next offset to deliver of each delay level, as in delayOffset.json (GET_ALL_DELAY_OFFSET 45)."""
        return Answer(body=self._levels.offsets_text().encode())
