"""Requests for offsets of groups (14, 15, 43), their resets (222), and for offsets of queues (29, 30, 31, 32)."""

from cometmq.broker.admin.offsets import CommittedOffsets, QueueOffsets
from cometmq.broker.admin.resets import GroupResets
from cometmq.broker.parts import Feature, Parts
from cometmq.broker.tables.members import membership, who_may
from cometmq.codec.bodies.consumer_offset import encode_offset_table
from cometmq.codec.bodies.queue_offsets import (
    encode_queue_offset_list,
    encode_queue_offsets,
)
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.console import ResetOffsetRequest
from cometmq.codec.headers.offset import (
    QueryConsumerOffset,
    QueueRequest,
    SearchOffset,
    TimestampResponse,
    UpdateConsumerOffset,
)
from cometmq.codec.remoting import Command
from cometmq.model.codes import Language, RequestCode
from cometmq.model.queue import MessageQueue
from cometmq.model.rights import Action, topic_access
from cometmq.net.answer import Answer
from cometmq.net.answering import body_elsewhere, by_code, by_fields, header_of
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps

_answer = (
    tuple.__new__
)  # Answer(...) goes through a Python function and takes 1.4 times as long.


def offset_answers(parts: Parts) -> Answers:
    """Return the handlers of requests to read and commit groups' offsets, and for the bounds and times of queues."""
    committed, bounds = CommittedOffsets(parts), QueueOffsets(parts.store)
    return {
        RequestCode.QUERY_CONSUMER_OFFSET: by_fields(
            QueryConsumerOffset, committed.find, _offset
        ),
        RequestCode.UPDATE_CONSUMER_OFFSET: by_fields(
            UpdateConsumerOffset, committed.commit, _committed
        ),
        RequestCode.GET_ALL_CONSUMER_OFFSET: by_code(
            parts.offsets.table, body_elsewhere(encode_offset_table)
        ),
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: by_fields(
            SearchOffset, bounds.by_time, _offset
        ),
        RequestCode.GET_MAX_OFFSET: by_fields(QueueRequest, bounds.end, _offset),
        RequestCode.GET_MIN_OFFSET: by_fields(QueueRequest, bounds.beginning, _offset),
        RequestCode.GET_EARLIEST_MSG_STORETIME: by_fields(
            QueueRequest,
            bounds.earliest_ms,
            lambda time_ms: header_of(TimestampResponse(time_ms)),
        ),
    }


def _offset(offset: int) -> Answer:
    return _answer(Answer, (0, None, {"offset": str(offset)}, b""))


def _committed(is_kept: bool) -> Answer:  # noqa: FBT001  A result, not a wish.
    return Answer(remark=None if is_kept else "Offset has been previously reset")


class ResetHandler(Feature):
    """Handles resets of offsets, and notifies group members if they must move themselves."""

    def __init__(self, parts: Parts) -> None:
        self._members = parts.members
        self._service = GroupResets(parts)
        self.answers = {RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset}

    def reset(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Reset a group's offsets, or notify members to do so; answer with the offsets (222)."""
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
