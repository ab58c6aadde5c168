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


def lookup_answers(parts: Parts) -> Answers:
    """Return the handlers of requests for messages by key or physical offset, which show only those that the asker may see."""
    lookup = MessageLookup(parts.store, unique_count=parts.settings.query_count_unique)

    def query(command: Command, _peer: Peer, asker: Asker) -> Steps[Answer]:
        request = decode_fields(QueryMessageRequest, command.fields)
        found = yield from lookup.by_key(request, may_of(asker, Action.SUB, Action.GET))
        header = encode_fields(QueryMessageResponse(found.last_ms, found.last_offset))
        return Answer(fields=header, body=list(found.records))

    def view(command: Command, _peer: Peer, asker: Asker) -> Steps[Answer]:
        request = decode_fields(ViewMessageRequest, command.fields)
        may = may_of(asker, Action.GET, shows_messages=True)
        return Answer(body=(yield from lookup.by_offset(request, may)))

    return {
        RequestCode.QUERY_MESSAGE: WithAsker(query),
        RequestCode.VIEW_MESSAGE_BY_ID: WithAsker(view),
    }
