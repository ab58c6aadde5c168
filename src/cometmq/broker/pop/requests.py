"""Requests of pop: pops, acknowledgements, notifications, peeks (200050 to 200056, 200151), and request modes (400 to 402).

Acknowledgements of one pop usually arrive together, and their handles differ in the last word only. The kernel splits
them into such runs, so a check point is looked up once per run, and the answers differ in one number. The compiled
kernel handles those at the start of a connection's bytes without decoding them as commands. Any that is unusual or does
not match an open check point is left to `Acks.ack`.
"""

from cometmq.broker.pop.acks import Acks, ChangedTime
from cometmq.broker.pop.assignment import Assignments
from cometmq.broker.pop.check_points import CheckPoint, CheckPointTable
from cometmq.broker.pop.holding import Holding
from cometmq.broker.pop.peeking import Peeking, PeekResult
from cometmq.broker.pop.popping import NoticeResult, Popping, PopResult
from cometmq.broker.request_caller import by_caller
from cometmq.codec.bodies.assignment import (
    decode_assignment_query,
    decode_request_mode,
    encode_assignments,
    encode_request_modes,
)
from cometmq.codec.bodies.batch_ack import decode_batch_ack
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.pop import (
    AckRequest,
    ChangedTimeResponse,
    ChangeInvisibleTimeRequest,
    NotificationRequest,
    PeekRequest,
    PollingInfoRequest,
    PopRequest,
)
from cometmq.codec.receipt import encode_offsets, encode_starts
from cometmq.codec.remoting import Command, RawCommand
from cometmq.kernel import plain_acks, take_acks
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer, answer_head, answer_to_error
from cometmq.net.answering import body_of, by_body, by_code, by_fields, header_of
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers, Read, refuse_all


def pop_answers(popping: Popping, peeking: Peeking, acks: Acks, holding: Holding) -> Answers:
    """Return the handlers of pops, peeks, batch acknowledgements, changes of the invisible time and others."""

    def change(request: ChangeInvisibleTimeRequest) -> ChangedTime:
        if request.keeps_handle:
            return holding.keep(request)
        return acks.change_invisible_time(request)

    return {
        RequestCode.POP_MESSAGE: by_caller(PopRequest, popping.pop, _encode_pop),
        RequestCode.NOTIFICATION: by_caller(
            NotificationRequest, popping.notification, _encode_notice
        ),
        RequestCode.POLLING_INFO: by_fields(
            PollingInfoRequest,
            popping.polling,
            lambda waiting: Answer(fields={"pollingNum": str(waiting)}),
        ),
        RequestCode.PEEK_MESSAGE: by_fields(PeekRequest, peeking.peek, _encode_peek),
        RequestCode.BATCH_ACK_MESSAGE: by_body(
            lambda body: decode_batch_ack(body) if body else [], acks.batch_ack
        ),
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME: by_fields(
            ChangeInvisibleTimeRequest,
            change,
            lambda changed: header_of(ChangedTimeResponse(*changed)),
        ),
        # It asks to move pop records out of RocksDB, which this broker does not use.
        RequestCode.POP_ROLLBACK: by_code(lambda: None),
    }


def _encode_peek(result: PeekResult) -> Answer:
    fields = {
        "popTime": "0",
        "invisibleTime": "0",
        "reviveQid": "0",
        "restNum": str(result.left),
    }
    return Answer(result.code, result.remark, fields, result.records)


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


_PREFIX_SIZE = 8
_BEFORE, _, _END = answer_head(Command(0), Answer(), 0)[_PREFIX_SIZE:].partition(b'"opaque":0')
_BEFORE += b'"opaque":'
_BEGIN = b'{"code":%d,' % RequestCode.ACK_MESSAGE  # All official clients write it like this.


class AckBatch:
    """The handler of ACK_MESSAGE requests; it handles together those that were read from a connection at once."""

    def __init__(self, check_points: CheckPointTable, acks: Acks) -> None:
        """`acks` handles the acknowledgements that need the slow path."""
        self._check_points = check_points
        self._acks = acks

    def handle(self, reads: list[Read]) -> None:
        """Handle ACK_MESSAGE requests, by connection; answer each that is not one-way, with success or an error."""
        for peer, commands in reads:
            try:
                self._acknowledge(commands, peer)
            except Exception as error:  # noqa: BLE001  As net.dispatcher: other requests are not lost.
                refuse_all(commands, peer, error)

    def take_frames(
        self, data: bytes, position: int, peer: Peer, count_max: int
    ) -> tuple[int, int]:
        """Handle ACK_MESSAGE frames from `position` up to an unusual one; return the end of these and their count."""
        if not data.startswith(_BEGIN, position + _PREFIX_SIZE):
            return position, 0
        named = _Named(self._check_points)
        end, count, marks, answers = take_acks(
            data, position, count_max, named.find, _BEFORE, _END
        )
        self._mark(named.points, marks)
        if answers:
            peer.write_at_once(answers)
        return end, count

    def _mark(self, points: list[CheckPoint], marks: list[int]) -> None:
        for point, bits in zip(points, marks, strict=True):
            self._check_points.acknowledge_bits(point, bits)
            self._acks.counted(point.body.topic, point.body.group, bits.bit_count())

    def _acknowledge(self, commands: list[RawCommand], peer: Peer) -> None:
        named = _Named(self._check_points)
        marks, answers, others = plain_acks(commands, named.find, _BEFORE, _END)
        self._mark(named.points, marks)
        if answers:
            peer.write(answers)
        for command in others:
            peer.answer(command, self._acknowledge_one(command))

    def _acknowledge_one(self, command: RawCommand) -> Answer:
        try:
            self._acks.ack(decode_fields(AckRequest, command[6]))
        except Exception as error:  # noqa: BLE001  As above.
            return answer_to_error(error, command[0])
        return Answer()

    def written(self) -> None:
        """Do nothing: a background job records the acknowledgements."""


class _Named:
    """The check points named by acknowledgements of one connection that are handled together, in order."""

    def __init__(self, check_points: CheckPointTable) -> None:
        self.points: list[CheckPoint] = []
        self._check_points = check_points

    def find(self, handle: str, topic: str, group: str, queue: str) -> tuple[int, ...] | None:
        """Append the open check point that a handle names to `points`, and return its messages' queue offsets.

        Only the first two words of the handle are used. Returns None if there is no such check point, one of its messages
        has a new handle, or the handle is malformed.
        """
        try:
            start, pop_time, _ = handle.split(" ", 2)
            point = self._check_points[topic, group, int(queue), int(start), int(pop_time)]
        except (LookupError, ValueError):
            return None  # Malformed; the slow path reports the error.
        if point.has_replaced:
            return None  # One of its messages has a new handle.
        self.points.append(point)
        return point.body.offsets


def assignment_answers(service: Assignments) -> Answers:
    """Return the handlers of requests for the assignment of queues to consumers, and for the request modes of groups."""
    return {
        RequestCode.QUERY_ASSIGNMENT: by_body(
            decode_assignment_query, service.assign, body_of(encode_assignments)
        ),
        RequestCode.SET_MESSAGE_REQUEST_MODE: by_body(decode_request_mode, service.set_mode),
        RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: by_code(
            service.all_modes,
            lambda modes: Answer(body=encode_request_modes(modes, pretty=False).encode()),
        ),
    }
