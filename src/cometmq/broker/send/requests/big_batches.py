"""Batches of very many messages: stored a piece at a time, so that others are served between the pieces.

A batch of 4 MB may hold 170,000 messages, and each costs some microseconds: as one piece it would
keep everybody waiting for a second. It is looked through before anything of it is stored, so that
one which cannot be read leaves nothing. Its pieces may have other messages between them. When one
cannot be stored the batch is refused although those before it are there, as if the answer were lost.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import islice, pairwise

from cometmq.broker.loop.peer_bounds import PeerBounds
from cometmq.broker.loop.turns import Turns
from cometmq.broker.send.admission import AdmittedSend
from cometmq.broker.send.requests.answers import Pending, ids_of
from cometmq.codec.batch import BATCH_ITEM_SIZE_MIN, cut_batch
from cometmq.codec.remoting import RawCommand
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CodecError, RequestError
from cometmq.model.flags import ONEWAY
from cometmq.net.answer import answer_to_error
from cometmq.net.peer import Peer
from cometmq.store.appender import PutResult

PIECE_COUNT_MAX = 1_024  # Messages of a piece; they take 5 ms.
_LOOK_PIECES = 16  # In a turn: 16,384 messages, before anything is stored.
# Of those that are under way, bytes.
PEER_SIZE_MAX, SIZE_MAX = 32 << 20, 48 << 20
_PEER_COUNT_MAX = 64

_SEND_BATCH = int(RequestCode.SEND_BATCH_MESSAGE)

# Stores the batch of a command; its records' places, and what was admitted.
StorePiece = Callable[[RawCommand, Peer], tuple[list[PutResult], AdmittedSend]]
# Answers a batch: what was admitted, its answer so far, the place of its last record, the peer.
Finish = Callable[[AdmittedSend, Pending, list[PutResult], Peer], None]


def is_big(command: RawCommand) -> bool:
    """Whether a send is a batch that is better stored in pieces."""
    body = command[7]
    if len(body) <= PIECE_COUNT_MAX * BATCH_ITEM_SIZE_MIN:
        return False
    fields = command[6]
    if command[0] != _SEND_BATCH and "true" not in (fields.get("m"), fields.get("batch")):
        return False
    try:
        return next(cut_batch(body, PIECE_COUNT_MAX)) < len(body)
    except CodecError:
        return False  # The plain way says what is wrong with it.


class BigBatches:
    """The large batches that are being stored, a piece in each turn of the loop."""

    def __init__(
        self, turns: Turns, host: str, *, store_piece: StorePiece, finish: Finish
    ) -> None:
        """`host` is the store host as message ids have it."""
        self._turns = turns
        self._host = host
        self._store_piece = store_piece
        self._finish = finish
        self._bounds = PeerBounds(
            peer_count_max=_PEER_COUNT_MAX, peer_size_max=PEER_SIZE_MAX, size_max=SIZE_MAX
        )

    def begin(self, command: RawCommand, peer: Peer) -> None:
        """Store a batch in the next turns of the loop, and answer it.

        Raises:
            RequestError: SYSTEM_BUSY, too many of them are under way.
        """
        size = len(command[7])
        if not self._bounds.take(peer, size):
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                "[REJECTREQUEST]system busy: too many bytes of large batches are under way; wait for them",
            )
        task = peer.tasks.spawn(self._store(command, peer), "batch")
        task.add_done_callback(lambda _task: self._bounds.give_back(peer, size))

    async def _store(self, command: RawCommand, peer: Peer) -> None:
        try:
            await self._store_pieces(command, peer)
        except Exception as error:  # noqa: BLE001  As net.dispatcher.run_handler.
            peer.answer(command, answer_to_error(error, command))

    async def _store_pieces(self, command: RawCommand, peer: Peer) -> None:
        body, found = command[7], cut_batch(command[7], PIECE_COUNT_MAX)
        cuts = [0]
        try:
            while cuts[-1] < len(body):
                await self._in_turn(peer, lambda: cuts.extend(islice(found, _LOOK_PIECES)))
        except CodecError as error:
            raise RequestError(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
        ids: list[str] = []
        stored: list[tuple[list[PutResult], AdmittedSend]] = []

        def store(start: int, end: int) -> None:
            piece = (*command[:7], body[start:end], command[8])
            stored.append(self._store_piece(piece, peer))

        for start, end in pairwise(cuts):
            await self._in_turn(peer, partial(store, start, end))
            results, _ = stored[-1]
            ids.append(ids_of(results[: None if end < len(body) else -1], self._host))
            del stored[1:-1]  # The first one and the last one say the rest.
        first, admitted = stored[0]
        last, _ = stored[-1]
        answer = None
        if not command[1] & ONEWAY:
            answer = (admitted.answer_start or "") + "".join(ids)
        one = (command[2], answer, admitted.transaction_id)
        self._finish(admitted, one, [(first[0][0], *last[-1][1:])], peer)

    async def _in_turn(self, peer: Peer, work: Callable[[], None]) -> None:
        waits = self._turns.run(peer, work, 0)
        if isinstance(waits, Awaitable):
            await waits
        else:
            await asyncio.sleep(0)
