"""Requests for topics (17, 18, 21, 215, 305, 351)."""

from collections.abc import Callable

from cometmq.broker.admin.topics import TopicAdministration
from cometmq.broker.parts import Parts
from cometmq.broker.replication.copy_mark import LOG_END
from cometmq.codec.bodies.topic_config import (
    decode_topic_configs,
    encode_topic_config,
    encode_topic_table,
)
from cometmq.codec.bodies.topic_list import encode_topic_list
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.topic import CreateTopic, TopicRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps, elsewhere


class TopicHandler:
    """Handles requests to read, create, change and delete topics."""

    def __init__(self, parts: Parts, *, announce: Callable[[], Steps[None]]) -> None:
        """`announce` registers changes at the nameservers, see `TopicAdministration`."""
        self._store = parts.store
        self._administration = TopicAdministration(parts, announce=announce)
        self._topics = parts.topics
        self.answers: Answers = {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.create,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self.create_many,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete,
            RequestCode.GET_ALL_TOPIC_CONFIG: self.all,
            RequestCode.GET_TOPIC_CONFIG: self.get,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self.system,
        }

    def create(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Create or change a topic (UPDATE_AND_CREATE_TOPIC 17)."""
        yield from self._administration.change(decode_fields(CreateTopic, command.fields))
        return Answer()

    def create_many(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Create or change topics (UPDATE_AND_CREATE_TOPIC_LIST 18)."""
        yield from self._administration.change_many(decode_topic_configs(command.body))
        return Answer()

    def delete(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Delete a topic (DELETE_TOPIC_IN_BROKER 215)."""
        name = decode_fields(TopicRequest, command.fields).topic
        yield from self._administration.delete(name)
        return Answer()

    def all(self, _command: Command, _peer: Peer) -> Steps[Answer]:
        """Answer with all topics as JSON (GET_ALL_TOPIC_CONFIG 21), and for slaves with the end of the log they are known to."""
        table, fields = self._topics.table(), {LOG_END: str(self._store.max_offset)}
        body = yield from elsewhere(lambda: encode_topic_table(table))
        return Answer(fields=fields, body=body)

    def get(self, command: Command, _peer: Peer) -> Answer:
        """Answer with the configuration of a topic as JSON (GET_TOPIC_CONFIG 351)."""
        name = decode_fields(TopicRequest, command.fields).topic
        return Answer(body=encode_topic_config(self._administration.find(name)))

    def system(self, _command: Command, _peer: Peer) -> Answer:
        """Answer with the names of the system topics as JSON (GET_SYSTEM_TOPIC_LIST_FROM_BROKER 305)."""
        return Answer(body=encode_topic_list(self._topics.system_names()))
