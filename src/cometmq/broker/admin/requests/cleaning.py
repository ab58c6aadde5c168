"""Requests DELETE_EXPIRED_COMMITLOG 329, CLEAN_UNUSED_TOPIC 316 and CLEAN_EXPIRED_CONSUMEQUEUE 306."""

from cometmq.broker.admin.cleaning import Cleaning
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers


class CleaningHandler:
    """Handles requests to delete expired files, queues of missing topics, and empty superfluous queues."""

    def __init__(self, cleaning: Cleaning) -> None:
        self._cleaning = cleaning
        self.answers: Answers = {
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self.clean_queues,
            RequestCode.CLEAN_UNUSED_TOPIC: self.clean_topics,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self.delete_expired,
        }

    def delete_expired(self, _command: Command, _peer: Peer) -> Answer:
        """Let the background job delete expired files (DELETE_EXPIRED_COMMITLOG 329)."""
        self._cleaning.delete_expired()
        return Answer()

    def clean_topics(self, _command: Command, _peer: Peer) -> Answer:
        """Delete the queues, except light ones, of users' topics that do not exist (CLEAN_UNUSED_TOPIC 316)."""
        self._cleaning.clean_topics()
        return Answer()

    def clean_queues(self, _command: Command, _peer: Peer) -> Answer:
        """Delete empty queues beyond their topic's number, not of SCHEDULE_TOPIC_XXXX (CLEAN_EXPIRED_CONSUMEQUEUE 306)."""
        self._cleaning.clean_queues()
        return Answer()
