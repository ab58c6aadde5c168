"""ACK_MESSAGE 200051, all of a turn at once: the request that pop brings for every message.

Acknowledgements of one pop come one behind the other, and their handles differ in the last word only:
what a handle names is looked up once for such a run, and the run is taken at once. Answers differ in
one number. Whatever names no message of an open check point goes the way of `Acks.ack`, which says
what is wrong with it.

Next: cometmq.broker.pop.acks
"""

from cometmq.broker.pop.acks import Acks
from cometmq.broker.pop.hand_outs import CheckPoint, HandOuts
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.pop import AckRequest
from cometmq.codec.remoting import Command, RawCommand
from cometmq.model.flags import ONEWAY
from cometmq.net.answer import Answer, answer_head
from cometmq.net.dispatcher import run_handler
from cometmq.net.peer import Peer
from cometmq.net.requests import Read, refuse_all

_PREFIX_SIZE = 8
_NUMBER_SIZE_MAX = 11  # Of 32 bits with their sign.
_BEFORE, _, _END = answer_head(Command(0), Answer(), 0)[_PREFIX_SIZE:].partition(b'"opaque":0')
_BEFORE += b'"opaque":'

# What a client says of a message but for its offset: handle, topic, group, queue; all as text.
_Named = tuple[str, str, str, str]


def _start(number_size: int) -> bytes:
    """What is in front of an opaque of so many digits."""
    size = len(_BEFORE) + number_size + len(_END)
    return (4 + size).to_bytes(4) + size.to_bytes(4) + _BEFORE


_STARTS = [_start(size) for size in range(_NUMBER_SIZE_MAX + 1)]


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
        others: list[RawCommand] = []
        answers: list[bytes] = []
        runs: list[tuple[CheckPoint, list[int]]] = []
        run: _Named | None = None
        offsets: tuple[int, ...] = ()
        places: list[int] = []
        for command in commands:
            fields = command[6]
            try:
                named = (
                    fields["extraInfo"].rpartition(" ")[0],
                    fields["topic"], fields["consumerGroup"], fields["queueId"],
                )  # fmt: skip
                if named != run:
                    point = self._find(named)
                    run, offsets, places = named, point.body.offsets, []
                    runs.append((point, places))
                places.append(offsets.index(int(fields["offset"])))
            except (LookupError, ValueError, TypeError, AttributeError):
                others.append(command)  # Not as it should be; the other way says what.
                continue
            if not command[1] & ONEWAY:
                number = b"%d" % command[2]
                answers += (_STARTS[len(number)], number, _END)
        for point, places in runs:
            self._hand_outs.acknowledge_places(point, places)
        if answers:
            peer.write(b"".join(answers))
        for command in others:
            run_handler(self._acknowledge_one, Command(*command), peer)

    def _acknowledge_one(self, command: Command, _peer: Peer) -> Answer:
        self._acks.ack(decode_fields(AckRequest, command.fields))
        return Answer()

    def _find(self, named: _Named) -> CheckPoint:
        """The open check point that a client means.

        Raises:
            LookupError, ValueError: there is none, or it does not mean any.
        """
        handle, topic, group, queue = named
        start, pop_time, _ = handle.split(" ", 2)
        return self._hand_outs[topic, group, int(queue), int(start), int(pop_time)]

    def written(self) -> None:
        """Nothing follows: acknowledgements are put on record by a timer."""
