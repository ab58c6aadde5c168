"""Answers the sends of a connection: encodes the answers to sends that were read together.

The JSON headers of these answers differ in few values. They are therefore assembled from prepared text
such as `Lane.answer_start`, by `kernel.encode_answers`.
"""

from cometmq.codec.remoting import Command
from cometmq.kernel import as_one, encode_answers
from cometmq.kernel.rows import Pending, PutResult
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.net.answer import answer_to_error
from cometmq.net.peer import Peer
from cometmq.store.positions import Durability

_SEND_V2 = int(RequestCode.SEND_MESSAGE_V2)
# Every header starts like this. For an unconfirmed message this start is replaced by one with another code.
_CODE_SIZE = len('{"code":0')
DURABILITY_CODES = {
    Durability.OK: ResponseCode.SUCCESS,
    Durability.DISK_LATE: ResponseCode.FLUSH_DISK_TIMEOUT,
    Durability.REPLICA_LATE: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    Durability.NO_REPLICA: ResponseCode.SLAVE_NOT_AVAILABLE,
    Durability.NOT_COMMITTED: ResponseCode.SERVICE_NOT_AVAILABLE,
}


class PeerAnswers:
    """Answers the sends of a connection (`send.sends.SendCaller`); each send is represented by the data for its answer."""

    __slots__ = ("_host", "_peer")

    def __init__(self, peer: Peer, host: str) -> None:
        """`host` is the broker's host in the format of message ids."""
        self._peer = peer
        self._host = host

    def stored(
        self,
        sends: list[Pending],
        results: list[PutResult],
        durability: Durability,
        *,
        has_waited: bool,
    ) -> None:
        """Answer stored sends: at once if they have waited, otherwise together with other answers to the client."""
        if len(results) > len(sends):
            sends, results = as_one(sends[0], results, self._host)
        if durability is not Durability.OK:
            sends = as_late(sends, durability)
        answers = encode_answers(sends, results)
        if has_waited:
            self._peer.write_at_once(answers)
        else:
            self._peer.write(answers)

    def refused(self, sends: list[Pending], error: BaseException) -> None:
        """Answer refused sends with the error; oneway sends get no answer."""
        for opaque, start, _ in sends:
            if start is not None:
                command = Command(_SEND_V2, opaque=opaque)
                self._peer.answer(command, answer_to_error(error, _SEND_V2))


def as_late(pending: list[Pending], durability: Durability) -> list[Pending]:
    """Return the answers of stored but unconfirmed sends with the code that says why they are unconfirmed."""
    late_start = f'{{"code":{DURABILITY_CODES[durability]:d}'
    return [
        (opaque, None if start is None else late_start + start[_CODE_SIZE:], key)
        for opaque, start, key in pending
    ]
