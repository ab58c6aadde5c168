"""ACK_MESSAGE 200051, all of a read at once: the request that pop brings for every message.

One that names an open check point and a message of it needs no other check, and its answer differs
from others in one number. Everything else goes the way of `Acks.ack`, which says what is wrong.

Next: cometmq.broker.pop.acks
"""

from cometmq.broker.pop.acks import Acks
from cometmq.broker.pop.check_points import CheckPoints
from cometmq.codec.remoting import Command, RawCommand
from cometmq.model.flags import ONEWAY
from cometmq.net.answer import Answer, answer_head
from cometmq.net.dispatcher import run_handler
from cometmq.net.peer import Peer

_PREFIX_SIZE = 8
_BEFORE, _, _AFTER = answer_head(Command(0), Answer(), 0)[_PREFIX_SIZE:].partition(
    b'"opaque":0'
)
_START = _BEFORE.decode() + '"opaque":'
_END = _AFTER.decode()


class AckBatch:
    """Handles the acknowledgements of a read."""

    def __init__(self, points: CheckPoints, acks: Acks) -> None:
        """`acks` does what is not plain."""
        self._points = points
        self._acks = acks

    def handle(self, commands: list[RawCommand], peer: Peer) -> None:
        """Take all of them and give their answers to the peer."""
        acknowledge = self._points.acknowledge_one
        answers = []
        for command in commands:
            fields = command[6]
            try:
                words = fields["extraInfo"].split(" ", 2)
                is_done = acknowledge(
                    (
                        fields["topic"], fields["consumerGroup"], int(fields["queueId"]),
                        int(words[0]), int(words[1]),
                    ),
                    int(fields["offset"]),
                )  # fmt: skip
            except (LookupError, ValueError, TypeError, AttributeError):
                is_done = False  # Not as it should be; the other way says what.
            if not is_done:
                run_handler(self._acks.ack, Command(*command), peer)
            elif not command[1] & ONEWAY:
                answers.append(_success(command[2]))
        if answers:
            peer.write(b"".join(answers))

    def written(self) -> None:
        """Nothing follows: acknowledgements are put on record by a timer."""


def _success(opaque: int) -> bytes:
    header = f"{_START}{opaque}{_END}"
    size = len(header)
    return (4 + size).to_bytes(4) + size.to_bytes(4) + header.encode()
