"""Requests 223, 307 and 309 of an administrator to a consumer, relayed by the broker."""

from cometmq.broker.parts import Feature, Parts
from cometmq.broker.replies.relay import ClientRelay
from cometmq.broker.tables.client_peer import PeerAnswer
from cometmq.codec.bodies.queue_offsets import encode_all_client_offsets
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.console import ClientStatusRequest, DirectRequest, RunningRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.steps.steps import Steps


class RelayHandler(Feature):
    """Handles requests that a connected consumer must answer: running state, offsets, consuming a message directly."""

    def __init__(self, parts: Parts) -> None:
        self._relay = ClientRelay(parts)
        self.answers = {
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self.statuses,
        }

    def running(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Ask a consumer for its running info, and return its answer (GET_CONSUMER_RUNNING_INFO 307)."""
        request = decode_fields(RunningRequest, command.fields)
        return _passed_back((yield from self._relay.running(request, command.fields)))

    def consume(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Let a consumer consume a message, and return its answer (CONSUME_MESSAGE_DIRECTLY 309)."""
        request = decode_fields(DirectRequest, command.fields)
        return _passed_back((yield from self._relay.consume(request, command.fields)))

    def statuses(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Return the offsets in the memory of the members that return them (INVOKE_BROKER_TO_GET_CONSUMER_STATUS 223)."""
        request = decode_fields(ClientStatusRequest, command.fields)
        tables = yield from self._relay.statuses(request)
        return Answer(body=encode_all_client_offsets(tables))


def _passed_back(answer: PeerAnswer) -> Answer:
    return Answer(answer.code, answer.remark, answer.fields, answer.body)
