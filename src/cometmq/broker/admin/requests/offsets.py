"""Requests for offsets of groups (14, 15, 43) and of queues (29, 30, 31, 32)."""

from cometmq.broker.admin.offsets import CommittedOffsets, QueueOffsets
from cometmq.broker.parts import Parts
from cometmq.codec.bodies.consumer_offset import encode_offset_table
from cometmq.codec.fields import decode_fields, encode_fields
from cometmq.codec.headers.offset import (
    QueryConsumerOffset,
    QueueRequest,
    SearchOffset,
    TimestampResponse,
    UpdateConsumerOffset,
)
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers
from cometmq.steps.steps import Steps, elsewhere


class OffsetHandler:
    """Handles requests for the bounds and times of queues, and to read and commit groups' offsets."""

    def __init__(self, parts: Parts) -> None:
        self._committed = CommittedOffsets(parts)
        self._bounds = QueueOffsets(parts.store)
        self._offsets = parts.offsets
        self.answers: Answers = {
            RequestCode.QUERY_CONSUMER_OFFSET: self.query,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.update,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.all,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.search,
            RequestCode.GET_MAX_OFFSET: self.greatest,
            RequestCode.GET_MIN_OFFSET: self.least,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self.earliest_time,
        }

    # --- of consumer groups

    def query(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Answer with a group's committed offset in a queue, 0 if the queue is new, else refuse (QUERY_CONSUMER_OFFSET 14)."""
        request = decode_fields(QueryConsumerOffset, command.fields)
        return _offset((yield from self._committed.find(request)))

    def update(self, command: Command, _peer: Peer) -> Answer:
        """Commit a group's offset, unless consumers must still learn of a reset (UPDATE_CONSUMER_OFFSET 15)."""
        request = decode_fields(UpdateConsumerOffset, command.fields)
        is_kept = self._committed.commit(request)
        return Answer(remark=None if is_kept else "Offset has been previously reset")

    def all(self, _command: Command, _peer: Peer) -> Steps[Answer]:
        """Answer with all offsets of all groups, in fastjson's form (GET_ALL_CONSUMER_OFFSET 43)."""
        table = self._offsets.table()
        return Answer(body=(yield from elsewhere(lambda: encode_offset_table(table))))

    # --- of queues

    def greatest(self, command: Command, _peer: Peer) -> Answer:
        """Answer with the offset after a queue's last readable message (GET_MAX_OFFSET 30)."""
        return _offset(self._bounds.end(decode_fields(QueueRequest, command.fields)))

    def least(self, command: Command, _peer: Peer) -> Answer:
        """Answer with a queue's first offset (GET_MIN_OFFSET 31)."""
        return _offset(self._bounds.beginning(decode_fields(QueueRequest, command.fields)))

    def earliest_time(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Answer with the store time of a queue's first message, -1 without one (GET_EARLIEST_MSG_STORETIME 32)."""
        request = decode_fields(QueueRequest, command.fields)
        time_ms = yield from self._bounds.earliest_ms(request)
        return Answer(fields=encode_fields(TimestampResponse(time_ms)))

    def search(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Answer with a queue's offset at a time (SEARCH_OFFSET_BY_TIMESTAMP 29)."""
        request = decode_fields(SearchOffset, command.fields)
        return _offset((yield from self._bounds.by_time(request)))


def _offset(offset: int) -> Answer:
    return Answer(0, None, {"offset": str(offset)})
