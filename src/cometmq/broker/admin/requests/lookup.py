"""Requests QUERY_MESSAGE 12 and VIEW_MESSAGE_BY_ID 33."""

from cometmq.broker.admin.lookup import MessageLookup
from cometmq.broker.parts import Parts
from cometmq.codec.fields import decode_fields, encode_fields
from cometmq.codec.headers.query import (
    QueryMessageRequest,
    QueryMessageResponse,
    ViewMessageRequest,
)
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.rights import Action, Asker
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers, WithAsker, may_of
from cometmq.steps.steps import Steps


class QueryHandler:
    """Handles requests for messages by key or physical offset."""

    def __init__(self, parts: Parts) -> None:
        unique_count = parts.settings.query_count_unique
        self._lookup = MessageLookup(parts.store, unique_count=unique_count)
        self.answers: Answers = {
            RequestCode.QUERY_MESSAGE: WithAsker(self.query),
            RequestCode.VIEW_MESSAGE_BY_ID: WithAsker(self.view),
        }

    def query(self, command: Command, _peer: Peer, asker: Asker) -> Steps[Answer]:
        """Answer with the records of messages with a key that the asker may see (QUERY_MESSAGE 12)."""
        request = decode_fields(QueryMessageRequest, command.fields)
        found = yield from self._lookup.by_key(request, may_of(asker, Action.SUB, Action.GET))
        header = encode_fields(QueryMessageResponse(found.last_ms, found.last_offset))
        return Answer(fields=header, body=list(found.records))

    def view(self, command: Command, _peer: Peer, asker: Asker) -> Steps[Answer]:
        """Answer with the record at a physical offset if the asker may see it (VIEW_MESSAGE_BY_ID 33)."""
        request = decode_fields(ViewMessageRequest, command.fields)
        may = may_of(asker, Action.GET, shows_messages=True)
        return Answer(body=(yield from self._lookup.by_offset(request, may)))
