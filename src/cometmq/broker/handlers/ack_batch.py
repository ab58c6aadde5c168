"""ACK_MESSAGE 200051, all of a turn at once: the request that pop brings for every message.

Acknowledgements of one pop come one behind the other, and their handles differ in the last word only: the kernel
splits a turn's into such runs, what a run names is looked up once, and it is taken at once. Answers differ in
one number. Whatever names no message of an open check point goes the way of `Acks.ack`, which says
what is wrong with it.

Next: cometmq.kernel.acks
"""

from cometmq.broker.pop.acks import Acks
from cometmq.broker.pop.hand_outs import CheckPoint, HandOuts
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.pop import AckRequest
from cometmq.codec.remoting import Command, RawCommand
from cometmq.kernel import plain_acks
from cometmq.net.answer import Answer, answer_head
from cometmq.net.dispatcher import run_handler
from cometmq.net.peer import Peer
from cometmq.net.requests import Read, refuse_all

_PREFIX_SIZE = 8
_BEFORE, _, _END = answer_head(Command(0), Answer(), 0)[_PREFIX_SIZE:].partition(b'"opaque":0')
_BEFORE += b'"opaque":'


class AckBatch:
    """Handles the acknowledgements of a turn."""

    def __init__(self, hand_outs: HandOuts, acks: Acks) -> None:
        """`acks` does what is not plain."""
        self._hand_outs = hand_outs
        self._acks = acks

    def handle(self, reads: list[Read]) -> None:
        """Acknowledge all of them and give their answers to the peers."""
        for peer, commands in reads:
            try:
                self._acknowledge(commands, peer)
            except Exception as error:  # noqa: BLE001  As net.dispatcher.run_handler: it loses itself alone.
                refuse_all(commands, peer, error)

    def _acknowledge(self, commands: list[RawCommand], peer: Peer) -> None:
        points: list[CheckPoint] = []

        def find(handle: str, topic: str, group: str, queue: str) -> tuple[int, ...] | None:
            try:
                start, pop_time, _ = handle.split(" ", 2)
                point = self._hand_outs[topic, group, int(queue), int(start), int(pop_time)]
            except (LookupError, ValueError):
                return None  # Not as it should be; the other way says what.
            points.append(point)
            return point.body.offsets

        marks, answers, others = plain_acks(commands, find, _BEFORE, _END)
        for point, bits in zip(points, marks, strict=True):
            self._hand_outs.acknowledge_bits(point, bits)
            self._acks.counted(point.body.topic, point.body.group, bits.bit_count())
        if answers:
            peer.write(answers)
        for command in others:
            run_handler(self._acknowledge_one, Command(*command), peer)

    def _acknowledge_one(self, command: Command, _peer: Peer) -> Answer:
        self._acks.ack(decode_fields(AckRequest, command.fields))
        return Answer()

    def written(self) -> None:
        """Nothing follows: acknowledgements are put on record by a timer."""
