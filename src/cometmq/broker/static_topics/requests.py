"""Request UPDATE_AND_CREATE_STATIC_TOPIC 513, which is refused."""

from cometmq.broker.static_topics.static_topics import StaticTopics
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers


class StaticTopicHandler:
    """Handles the request to create a static topic."""

    def __init__(self, static_topics: StaticTopics) -> None:
        self._static_topics = static_topics
        self.answers: Answers = {RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC: self.create}

    def create(self, _command: Command, _peer: Peer) -> Answer:
        """Refuse to create a static topic (UPDATE_AND_CREATE_STATIC_TOPIC 513)."""
        self._static_topics.create()
