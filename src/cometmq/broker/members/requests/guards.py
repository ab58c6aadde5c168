"""Requests GET_GROUP_CONFLICTS and GET_QUEUE_LOCKS of this project, for one group or all."""

from cometmq.broker.members.guards import Guards
from cometmq.codec.bodies.conflicts import encode_conflicts
from cometmq.codec.bodies.lock import encode_locks_file
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.client import MaybeGroupRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers


class GuardHandler:
    """Handles requests for conflicts between members of a group and for the holders of queue locks."""

    def __init__(self, guards: Guards) -> None:
        self._guards = guards
        self.answers: Answers = {
            RequestCode.GET_GROUP_CONFLICTS: self.conflicts,
            RequestCode.GET_QUEUE_LOCKS: self.locks,
        }

    def conflicts(self, command: Command, _peer: Peer) -> Answer:
        """Return the contradictions between members of one group or all (GET_GROUP_CONFLICTS)."""
        name = decode_fields(MaybeGroupRequest, command.fields).consumer_group
        return Answer(body=encode_conflicts(self._guards.conflicts(name)))

    def locks(self, command: Command, _peer: Peer) -> Answer:
        """Return the holders of queue locks of one group or all (GET_QUEUE_LOCKS)."""
        name = decode_fields(MaybeGroupRequest, command.fields).consumer_group
        return Answer(body=encode_locks_file(self._guards.locks(name)).encode())
