"""Request INVOKE_BROKER_TO_RESET_OFFSET 222, and the notification RESET_CONSUMER_CLIENT_OFFSET 220 of group members."""

from cometmq.broker.admin.resets import GroupResets
from cometmq.broker.parts import Feature, Parts
from cometmq.broker.tables.members import membership, who_may
from cometmq.codec.bodies.queue_offsets import (
    encode_queue_offset_list,
    encode_queue_offsets,
)
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.console import ResetOffsetRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import Language, RequestCode
from cometmq.model.queue import MessageQueue
from cometmq.model.rights import Action, topic_access
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.steps.steps import Steps


class ResetHandler(Feature):
    """Handles resets of offsets, and notifies group members if they must move themselves."""

    def __init__(self, parts: Parts) -> None:
        self._members = parts.members
        self._service = GroupResets(parts)
        self.answers = {RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset}

    def reset(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Reset a group's offsets, or tell members to; answer with the offsets (INVOKE_BROKER_TO_RESET_OFFSET 222)."""
        request = decode_fields(ResetOffsetRequest, command.fields)
        result = yield from self._service.reset(request)
        if result.is_for_members:
            is_listed = command.language == Language.CPP
            self._tell_members(request, result.offsets, is_listed=is_listed)
        return Answer(body=encode_queue_offsets(result.offsets))

    def _tell_members(
        self, request: ResetOffsetRequest, offsets: dict[MessageQueue, int], *, is_listed: bool
    ) -> None:
        members = self._members.consumer_group(request.group)
        if members is None:
            return  # They left meanwhile.
        fields = {
            "topic": request.topic,
            "group": request.group,
            "timestamp": str(request.timestamp),
            "isForce": "true" if request.is_force else "false",
        }
        encode = encode_queue_offset_list if is_listed else encode_queue_offsets
        body = encode(offsets)
        topic = topic_access(request.topic, frozenset({Action.SUB}))
        for member in who_may(members.clients.values(), membership(request.group), topic):
            member.peer.notify(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body)
