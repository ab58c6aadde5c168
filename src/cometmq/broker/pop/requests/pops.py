"""Requests of pop: pops, notifications, peeks and more, but no single acknowledgements (pop.requests.ack_batches)."""

from cometmq.broker.pop.acks import Acks
from cometmq.broker.pop.peeking import Peeking
from cometmq.broker.pop.popping import NoticeResult, Popping, PopResult
from cometmq.broker.request_caller import RequestCaller
from cometmq.codec.bodies.batch_ack import decode_batch_ack
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.pop import (
    ChangeInvisibleTimeRequest,
    NotificationRequest,
    PeekRequest,
    PollingInfoRequest,
    PopRequest,
)
from cometmq.codec.receipt import encode_offsets, encode_starts
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers, Outcome
from cometmq.steps.steps import Steps


class PopHandler:
    """Handles pops, peeks, batch acknowledgements, changes of the invisible time and others."""

    def __init__(self, popping: Popping, peeking: Peeking, acks: Acks) -> None:
        self._popping = popping
        self._peeking = peeking
        self._acks = acks
        self.answers: Answers = {
            RequestCode.POP_MESSAGE: self.pop,
            RequestCode.NOTIFICATION: self.notification,
            RequestCode.POLLING_INFO: self.polling,
            RequestCode.PEEK_MESSAGE: self.peek,
            RequestCode.BATCH_ACK_MESSAGE: self.batch_ack,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: self.change_invisible_time,
            RequestCode.POP_ROLLBACK: self.keep_files,
        }

    def pop(self, command: Command, peer: Peer) -> Outcome:
        """Answer a pop, or hold it (POP_MESSAGE 200050)."""
        request = decode_fields(PopRequest, command.fields)
        caller = RequestCaller(command, peer, _encode_pop)
        return caller.answer_of(self._popping.pop(request, caller))

    def notification(self, command: Command, peer: Peer) -> Outcome:
        """Answer whether there may be a message to pop, at once or after waiting for one (NOTIFICATION 200054)."""
        request = decode_fields(NotificationRequest, command.fields)
        caller = RequestCaller(command, peer, _encode_notice)
        return caller.answer_of(self._popping.notification(request, caller))

    def polling(self, command: Command, _peer: Peer) -> Answer:
        """Answer how many pops and notifications of a group wait for this queue, or (-1) for any (POLLING_INFO 200055)."""
        request = decode_fields(PollingInfoRequest, command.fields)
        return Answer(fields={"pollingNum": str(self._popping.polling(request))})

    def peek(self, command: Command, _peer: Peer) -> Steps[Answer]:
        """Answer a peek with messages, or with PULL_NOT_FOUND if it finds none (PEEK_MESSAGE 200052)."""
        request = decode_fields(PeekRequest, command.fields)
        result = yield from self._peeking.peek(request)
        fields = {
            "popTime": "0",
            "invisibleTime": "0",
            "reviveQid": "0",
            "restNum": str(result.left),
        }
        return Answer(result.code, result.remark, fields, result.records)

    def batch_ack(self, command: Command, _peer: Peer) -> Answer:
        """Acknowledge the popped messages in the body (BATCH_ACK_MESSAGE 200151); an empty body is refused."""
        self._acks.batch_ack(decode_batch_ack(command.body) if command.body else [])
        return Answer()

    def change_invisible_time(self, command: Command, _peer: Peer) -> Answer:
        """Change when a message is delivered again (CHANGE_MESSAGE_INVISIBLETIME 200053)."""
        request = decode_fields(ChangeInvisibleTimeRequest, command.fields)
        changed = self._acks.change_invisible_time(request)
        return Answer(
            fields={
                "popTime": str(changed.pop_time_ms),
                "invisibleTime": str(changed.invisible_ms),
                "reviveQid": str(changed.revive_queue),
            }
        )

    def keep_files(self, _command: Command, _peer: Peer) -> Answer:
        """Do nothing (POP_ROLLBACK 200056): it asks to move pop records out of RocksDB, which this broker does not use."""
        return Answer()


def _encode_pop(result: PopResult) -> Answer:
    fields = {
        "popTime": str(result.pop_time_ms),
        "invisibleTime": str(result.invisible_ms),
        "reviveQid": str(result.revive_queue),
        "restNum": str(result.left),
        "startOffsetInfo": encode_starts(result.starts),
        "msgOffsetInfo": encode_offsets(result.offsets),
    }
    if result.order_counts is not None:
        fields["orderCountInfo"] = ";".join(
            f"{kind} {place} {count}" for kind, place, count in result.order_counts
        )
    return Answer(result.code, result.remark, fields, result.records)


def _encode_notice(result: NoticeResult) -> Answer:
    return Answer(
        fields={
            "hasMsg": "true" if result.has_message else "false",
            "pollingFull": "true" if result.is_full else "false",
        }
    )
