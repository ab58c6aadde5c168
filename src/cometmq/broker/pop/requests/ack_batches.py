"""ACK_MESSAGE 200051, all of a turn at once: the request that pop brings for every message.

Acknowledgements of one pop come one behind the other, and their handles differ in the last word only: the kernel
splits a turn's into such runs, what a run names is looked up once, and it is taken at once. Answers differ in
one number. What comes in front of all else of its connection is done before it is a command. Whatever names no message of an open check point goes the way of `Acks.ack`, which says
what is wrong with it.
"""

from cometmq.broker.pop.acks import Acks
from cometmq.broker.pop.check_points import CheckPoint, CheckPointTable
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.pop import AckRequest
from cometmq.codec.remoting import Command, RawCommand
from cometmq.kernel import plain_acks, take_acks
from cometmq.model.codes import RequestCode
from cometmq.net.answer import Answer, answer_head
from cometmq.net.dispatcher import run_handler
from cometmq.net.peer import Peer
from cometmq.net.requests import Read, refuse_all

_PREFIX_SIZE = 8
_BEFORE, _, _END = answer_head(Command(0), Answer(), 0)[_PREFIX_SIZE:].partition(b'"opaque":0')
_BEFORE += b'"opaque":'
_BEGIN = b'{"code":%d,' % RequestCode.ACK_MESSAGE  # As all official clients write it.


class AckBatch:
    """Handles the acknowledgements of a turn."""

    def __init__(self, check_points: CheckPointTable, acks: Acks) -> None:
        """`acks` does what is not plain."""
        self._check_points = check_points
        self._acks = acks

    def handle(self, reads: list[Read]) -> None:
        """Acknowledge all of them and give their answers to the peers."""
        for peer, commands in reads:
            try:
                self._acknowledge(commands, peer)
            except Exception as error:  # noqa: BLE001  As net.dispatcher.run_handler: it loses itself alone.
                refuse_all(commands, peer, error)

    def take_frames(
        self, data: bytes, position: int, peer: Peer, count_max: int
    ) -> tuple[int, int]:
        """Acknowledge as far as it is plain; see `net.requests.FrameHandler`."""
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
            run_handler(self._acknowledge_one, Command(*command), peer)

    def _acknowledge_one(self, command: Command, _peer: Peer) -> Answer:
        self._acks.ack(decode_fields(AckRequest, command.fields))
        return Answer()

    def written(self) -> None:
        """Nothing follows: acknowledgements are put on record by a timer."""


class _Named:
    """The check points that a turn's acknowledgements of one connection name, one after the other."""

    def __init__(self, check_points: CheckPointTable) -> None:
        self.points: list[CheckPoint] = []
        self._check_points = check_points

    def find(self, handle: str, topic: str, group: str, queue: str) -> tuple[int, ...] | None:
        """The queue offsets of the check point that a handle names without its last word; None where there is none."""
        try:
            start, pop_time, _ = handle.split(" ", 2)
            point = self._check_points[topic, group, int(queue), int(start), int(pop_time)]
        except (LookupError, ValueError):
            return None  # Not as it should be; the other way says what.
        if point.has_replaced:
            return None  # One of its messages has another handle.
        self.points.append(point)
        return point.body.offsets
