"""Requests QUERY_ASSIGNMENT 400, and 401 and 402 for request modes: decodes bodies and encodes answers."""

from cometmq.broker.pop.assignment import Assignments
from cometmq.codec.bodies.assignment import (
    decode_assignment_query,
    decode_request_mode,
    encode_assignments,
    encode_request_modes,
)
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps


class AssignmentHandler:
    """Handles the assignment of queues to consumers."""

    def __init__(self, service: Assignments) -> None:
        self._service = service
        self.answers: Answers = {
            RequestCode.QUERY_ASSIGNMENT: self.query,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self.set_mode,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self.all_modes,
        }

    def query(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Answer with the queues that a member shall consume, each with pull or pop; none if unknown (QUERY_ASSIGNMENT)."""
        query = decode_assignment_query(command.body)
        return Answer(body=encode_assignments((yield from self._service.assign(query))))

    def set_mode(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Set whether a group pulls or pops a topic; answer when that is saved or saving has failed (SET_MESSAGE_REQUEST_MODE)."""
        yield from self._service.set_mode(decode_request_mode(command.body))
        return Answer()

    def all_modes(self, _command: Command, _peer: Peer) -> Answer:
        """Answer with all groups' request modes (pull or pop) as a JSON body; slaves ask for them."""
        modes = self._service.all_modes()
        return Answer(body=encode_request_modes(modes, pretty=False).encode())
