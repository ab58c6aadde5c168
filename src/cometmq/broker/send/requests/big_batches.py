"""Stores batches of very many messages in pieces, so that other requests are served in between.

A batch of 4 MB may have 170,000 messages at some microseconds each: stored at once, it would block all clients for a
second. The whole batch is cut into messages before any is stored, so nothing of a batch that cannot be cut is stored.
Other messages may be stored between its pieces. If a piece cannot be stored, the batch is refused although the earlier
pieces are stored; for the producer this is as if the answer had been lost.
"""

from collections.abc import Callable
from functools import partial
from itertools import islice, pairwise

from cometmq.broker.parts import Parts
from cometmq.broker.send.admission import Admission, AdmittedSend
from cometmq.broker.send.requests.answers import PeerAnswers
from cometmq.broker.send.sends import Sends
from cometmq.codec.batch import BATCH_ITEM_SIZE_MIN, cut_batch
from cometmq.codec.fields import TRUE
from cometmq.codec.remoting import Command, RawCommand
from cometmq.kernel import ids_of
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CodecError, RequestError
from cometmq.model.flags import ONEWAY
from cometmq.net.peer import Peer
from cometmq.steps.peer_bounds import PeerBounds
from cometmq.steps.steps import Steps, turn_end
from cometmq.store.appender import PutResult

PIECE_COUNT_MAX = 1_024  # Messages per piece; one piece takes 5 ms.
# Pieces that are parsed in one go, 16,384 messages, before anything is stored.
_LOOK_PIECES = 16
# Limits in bytes for batches in progress: of one connection, and of all.
PEER_SIZE_MAX, SIZE_MAX = 32 << 20, 48 << 20
_PEER_COUNT_MAX = 64

_SEND_BATCH = int(RequestCode.SEND_BATCH_MESSAGE)

# Decodes and checks a send.
Admit = Callable[[Admission, RawCommand, Peer], AdmittedSend]


def is_big(command: RawCommand) -> bool:
    """Return whether a send is a batch of more than 1,024 messages; False if it cannot be cut into messages."""
    body = command[7]
    if len(body) <= PIECE_COUNT_MAX * BATCH_ITEM_SIZE_MIN:
        return False
    # As the header's truth values are read: in any case, and also unquoted.
    flags = [str(command[6].get(name)).lower() for name in ("m", "batch")]
    if command[0] != _SEND_BATCH and TRUE.isdisjoint(flags):
        return False
    try:
        return next(cut_batch(body, PIECE_COUNT_MAX)) < len(body)
    except CodecError:
        return False  # The slow path reports the error.


class BigBatches:
    """Stores large batches, at most one piece of each per loop iteration."""

    def __init__(self, parts: Parts, sends: Sends, admit: Admit) -> None:
        self._turns = parts.turns
        self._counters = parts.counters
        self._sends = sends
        self._admit = admit
        self._bounds = PeerBounds(
            peer_count_max=_PEER_COUNT_MAX, peer_size_max=PEER_SIZE_MAX, size_max=SIZE_MAX
        )

    def begin(self, command: RawCommand, peer: Peer) -> None:
        """Start to store a batch in pieces; unless it is oneway, it is answered after the last piece or a failure."""
        peer.dispatcher.run(lambda *_: self._store(command, peer), Command(*command), peer)

    def _store(self, command: RawCommand, peer: Peer) -> Steps[None]:
        size = len(command[7])
        if not self._bounds.take(peer, size):
            self._counters.refused("large_batches")
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                "[REJECTREQUEST]system busy: too many bytes of large batches are being stored; try again later",
            )
        try:
            yield from self._store_pieces(command, peer)
        finally:
            self._bounds.give_back(peer, size)

    def _store_pieces(self, command: RawCommand, peer: Peer) -> Steps[None]:
        body, found = command[7], cut_batch(command[7], PIECE_COUNT_MAX)
        cuts = [0]
        try:
            while cuts[-1] < len(body):
                yield from self._in_turn(peer, lambda: cuts.extend(islice(found, _LOOK_PIECES)))
        except CodecError as error:
            raise RequestError(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
        ids: list[str] = []
        stored: list[tuple[list[PutResult], AdmittedSend]] = []

        def store(start: int, end: int) -> None:
            piece = (*command[:7], body[start:end], command[8])
            admitted = self._admit(self._sends.admission, piece, peer)
            stored.append((self._sends.put_piece(admitted), admitted))

        for start, end in pairwise(cuts):
            yield from self._in_turn(peer, partial(store, start, end))
            results, _ = stored[-1]
            ids.append(ids_of(results[: None if end < len(body) else -1], self._sends.host))
            del stored[1:-1]  # The answer needs only the first and the last piece.
        first, admitted = stored[0]
        last, _ = stored[-1]
        answer = None
        if not command[1] & ONEWAY:
            answer = (admitted.answer_start or "") + "".join(ids)
        one = (command[2], answer, admitted.transaction_id)
        answers = PeerAnswers(peer, self._sends.host)
        self._sends.finish(admitted, one, [(first[0][0], *last[-1][1:])], answers)

    def _in_turn(self, peer: Peer, work: Callable[[], None]) -> Steps[None]:
        yield from self._turns.run(peer, work, 0)
        yield from turn_end()
