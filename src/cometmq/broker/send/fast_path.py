"""The fast path of sends: turns bytes that were read together into records and answers, as columns.

Parses simple sends and batch messages directly from the bytes of their connections (`kernel.take_sends`), stores them with
one write, and answers with one write per connection. Other sends are decoded into commands and handled by
`send.requests.sends`, with the same meaning (docs/design/0046-columns.md).
"""

from collections.abc import Callable

from cometmq.broker.parts import Parts
from cometmq.broker.pull.fast_path import PullIntake
from cometmq.broker.send.requests.answers import as_late
from cometmq.broker.send.requests.big_batches import PIECE_COUNT_MAX
from cometmq.broker.send.sends import Sends, too_few_replicas
from cometmq.codec.remoting import FRAME_SIZE_MAX
from cometmq.kernel import (
    KnownSigner,
    SendBatch,
    TurnReads,
    answer_columns,
    answer_reads,
    answers_of,
    encode_answers,
    take_reads,
    take_sends,
)
from cometmq.model.codes import RequestCode
from cometmq.net.peer import HEADER_SIZE_MAX, Peer
from cometmq.net.requests import FrameHandler, Write
from cometmq.store.batch import Columns
from cometmq.store.positions import Durability

SEND_CODES = (
    RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE,
)  # fmt: skip

_PREFIX_SIZE = 8  # Of a frame, before its header.
_END = b'{"code":%d,' % RequestCode.END_TRANSACTION  # All official clients write it like this.

# Per connection: the index after its last send in the batch.
Ends = list[tuple[Peer, int]]


class SendIntake:
    """The fast path for simple sends (`net.requests.Intake`).

    Unless sends must be signed, other requests are offered to the pull fast path, then to further ones.

    Attributes:
        judged: The request codes of sends.
        count: Number of requests accepted since the last `handle`.
        passed_over: Frames before the position that `take` returned that it has not accepted.
        codes: The request codes of sends, and of pulls if there is a fast path for pulls.
        answer_ahead: Answers a pull before other requests that were read with it; see `PullIntake.answer`.
    """

    judged = frozenset(map(int, SEND_CODES))

    def __init__(
        self,
        sends: Sends,
        parts: Parts,
        *,
        refuse: Callable[[Columns, Ends, Exception], None],
        pulls: PullIntake | None = None,
    ) -> None:
        """`refuse` answers sends that could not be stored; `pulls` is the fast path of pulls, if any."""
        self.count = 0
        self.passed_over: list[bytes] = []
        self.codes = frozenset(SEND_CODES) | (frozenset() if pulls is None else pulls.codes)
        self._pulls = pulls
        # A pull gains nothing from being handled together with others, so it is answered at once.
        self.answer_ahead = _nothing if pulls is None else pulls.answer
        self._takers: list[FrameHandler] = []
        self.written = sends.written
        self._store = parts.store
        self._positions = parts.store.positions
        self._straight = parts.lanes.straight
        self._suffix = sends.admission.property_suffix.encode()
        self._limits = (
            sends.admission.body_size_max, FRAME_SIZE_MAX, HEADER_SIZE_MAX, PIECE_COUNT_MAX,
        )  # fmt: skip
        self._counters = parts.counters
        self._refuse = refuse
        self._batch: Columns = SendBatch(self._suffix)
        self._ends: Ends = []
        self._host = sends.host

    def show(self, taker: FrameHandler) -> None:
        """Register a handler for frames that these fast paths do not accept; it gets none if sends must be signed."""
        self._takers.append(taker)

    def take(
        self,
        data: bytes,
        position: int,
        peer: Peer,
        count_max: int,
        signer: KnownSigner | None = None,
    ) -> int:
        """Accept a connection's sends; return the position after what was accepted (`net.requests.Intake`).

        A producer sends half messages and ends of earlier transactions in turns, so ends are passed over.
        If it accepts none, it offers the bytes to other fast paths, unless sends must be signed by `signer`.
        """
        batch, straight, limits = self._batch, self._straight, self._limits
        before = batch.request_count
        end = take_sends(
            batch, data, position, count_max, peer.host, straight, limits, signer
        )  # fmt: skip
        while signer is None and data.startswith(_END, end + _PREFIX_SIZE):
            after = _after_ends(data, end)
            left = count_max - (batch.request_count - before)
            following = take_sends(batch, data, after, left, peer.host, straight, limits, None)
            if following == after:
                break
            self.passed_over.append(data[end:after])
            end = following
        if end > position:
            self.count += batch.request_count - before
            self._ends.append((peer, batch.count))
            peer.sends_alone = signer is None
        elif signer is None:
            return self._take_others(data, position, peer, count_max)
        return end

    def take_reads(self, turn: TurnReads[Peer], count_max: int, size_min: int) -> None:
        """Accept sends of connections that delivered one each (`net.requests.Intake`)."""
        batch = self._batch
        before = batch.request_count
        take_reads(turn, batch, self._ends, count_max, size_min, self._straight, self._limits)
        self.count += batch.request_count - before

    def _take_others(self, data: bytes, position: int, peer: Peer, count_max: int) -> int:
        """Offer frames to other fast paths, which may answer them; return the position after the accepted ones."""
        if not position and self._pulls is not None:
            end, count = self._pulls.take(data, peer, count_max)
            if count:
                self.count += count
                return end
        for taker in self._takers:
            end, count = taker.take_frames(data, position, peer, count_max)
            if count:
                self.count += count
                return end
        return position

    def handle(self) -> bool:
        """Store the accepted sends and answer each connection, maybe later; return False if there were none."""
        self.count = 0
        if self._pulls is not None:
            self._pulls.size = 0
        if not self._ends:
            return False
        batch, ends = self._batch, self._ends
        self._batch, self._ends = SendBatch(self._suffix), []
        began, positions = self._counters.now(), self._positions
        if positions.refusal is not None:
            self._refuse(batch, ends, too_few_replicas(positions.refusal))
            return True
        try:
            end = self._store.put_columns(batch)[0]
        except Exception as error:  # noqa: BLE001  As net.dispatcher.run_batch.
            self._refuse(batch, ends, error)
            return True
        if end <= positions.confirmed:
            answer_reads(batch, ends, self._host)
            self._counters.count_columns(batch, began)
            return True
        first = 0
        for peer, last in ends:
            answers = answer_columns(batch, first, last, self._host)
            self._answer_confirmed(batch, first, last, answers, peer, began)
            first = last
        return True

    def _answer_confirmed(
        self, batch: Columns, first: int, last: int, answers: bytes, peer: Peer, began: float
    ) -> None:
        """Answer a connection once it is known whether all its sends are confirmed; the last one also counts the batch.

        With a separate waiter for counting, a lone producer would look like two waiters, and its next send would not be
        started before the flush (`store.flushing.Flushing.done`).
        """

        def confirmed(durability: Durability) -> None:
            is_late = durability is not Durability.OK
            peer.write_at_once(
                self._late_answers(batch, first, last, durability) if is_late else answers
            )
            if last == batch.count:
                self._counters.count_columns(batch, began)

        self._store.wait_confirmed(batch.end_of(last), confirmed)

    def _late_answers(
        self, batch: Columns, first: int, last: int, durability: Durability
    ) -> bytes:
        pending, results = answers_of(batch, first, last, self._host)
        return encode_answers(as_late(pending, durability), results)


def _after_ends(data: bytes, position: int) -> int:
    """Return the position after the whole frames from `position` on that end transactions."""
    while data.startswith(_END, position + _PREFIX_SIZE):
        end = position + 4 + int.from_bytes(data[position : position + 4])
        if end > len(data):
            break
        position = end
    return position


def _nothing(_data: bytes, _write: Write) -> int:
    return 0
