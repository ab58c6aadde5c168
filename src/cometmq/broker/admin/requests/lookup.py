"""Requests QUERY_MESSAGE 12 and VIEW_MESSAGE_BY_ID 33."""

from collections.abc import Awaitable, Callable

from cometmq.broker.admin.lookup import MessageLookup
from cometmq.broker.loop.on_loop import Machines
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


class QueryHandler:
    """Handles requests for single messages."""

    def __init__(self, lookup: MessageLookup, machines: Machines) -> None:
        self._lookup = lookup
        self._machines = machines
        self.answers: Answers = {
            RequestCode.QUERY_MESSAGE: WithAsker(self.query),
            RequestCode.VIEW_MESSAGE_BY_ID: WithAsker(self.view),
        }

    def query(self, command: Command, _peer: Peer, asker: Asker) -> Awaitable[Answer]:
        """Return messages with a key (QUERY_MESSAGE 12)."""
        return self._query(command, may_of(asker, Action.SUB, Action.GET))

    async def _query(self, command: Command, may: Callable[[str], bool]) -> Answer:
        request = decode_fields(QueryMessageRequest, command.fields)
        found = await self._machines.run(self._lookup.by_key(request, may))
        header = encode_fields(QueryMessageResponse(found.last_ms, found.last_offset))
        return Answer(fields=header, body=list(found.records))

    def view(self, command: Command, _peer: Peer, asker: Asker) -> Awaitable[Answer]:
        """Return the message at a physical offset (VIEW_MESSAGE_BY_ID 33)."""
        return self._view(command, may_of(asker, Action.GET, shows_messages=True))

    async def _view(self, command: Command, may: Callable[[str], bool]) -> Answer:
        request = decode_fields(ViewMessageRequest, command.fields)
        return Answer(body=await self._machines.run(self._lookup.by_offset(request, may)))
