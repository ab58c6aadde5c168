"""The slow path of sends: stores all sends of a read batch with one write, and answers with one write per connection.

Each send passes `admission`, which checks everything and decides what is stored. Simple sends seldom get here, because the
fast path (send.fast_path) handles them with the same meaning.
With SYNC_FLUSH the encoded answers of a connection wait together for the flush. If the flush fails or is late, the same
answers are sent with FLUSH_DISK_TIMEOUT.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from cometmq.broker.counters.counters import Counters
from cometmq.broker.loop.turns import Turns
from cometmq.broker.pull.fast_path import PullIntake
from cometmq.broker.send.admission import Admission, AdmittedSend, AnySend, Sender
from cometmq.broker.send.fast_path import SEND_CODES, Ends, SendIntake
from cometmq.broker.send.requests.answers import (
    Pending,
    as_late,
    as_one,
    encode_answers,
    too_few_replicas,
)
from cometmq.broker.send.requests.big_batches import BigBatches, is_big
from cometmq.broker.tables.lanes import Lanes
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.send import SendRequest, SendRequestV2
from cometmq.codec.remoting import Command, RawCommand
from cometmq.kernel import KERNEL
from cometmq.model.codes import RequestCode
from cometmq.model.errors import RecordIllegal, RequestError, StoreError
from cometmq.model.flags import ONEWAY
from cometmq.net.answer import answer_to_error
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers, BatchHandler, Read
from cometmq.store.appender import Put, PutResult
from cometmq.store.batch import Columns
from cometmq.store.message_store import MessageStore
from cometmq.store.positions import Durability

_SEND_V2 = int(RequestCode.SEND_MESSAGE_V2)


class Sends:
    """The sends of one read batch, grouped by connection.

    Attributes:
        puts: The records to store.
        pending: Per record, the values that its answer needs.
        ends: Per connection with sends: the peer, and the index after its last send.
    """

    __slots__ = ("ends", "pending", "puts")

    def __init__(self) -> None:
        self.puts: list[Put] = []
        self.pending: list[Pending] = []
        self.ends: list[tuple[Peer, int]] = []

    def end(self, peer: Peer) -> None:
        """Note that all sends since the last call are the peer's."""
        count, ends = len(self.puts), self.ends
        if ends and ends[-1][0] is peer:
            ends[-1] = (peer, count)
        elif count > (ends[-1][1] if ends else 0):
            ends.append((peer, count))

    def empty(self) -> "Sends":
        """Move all sends into a new object and return it; this one is empty afterwards."""
        given = Sends()
        given.puts, given.pending, given.ends = self.puts, self.pending, self.ends
        self.puts, self.pending, self.ends = [], [], []
        return given

    def halves(self) -> "tuple[Sends, Sends]":
        """Split the collected sends into two halves, to find a record that cannot be stored."""
        middle = len(self.puts) // 2
        first, second = Sends(), Sends()
        first.puts, first.pending = self.puts[:middle], self.pending[:middle]
        second.puts, second.pending = self.puts[middle:], self.pending[middle:]
        start = 0
        for peer, end in self.ends:
            if start < middle:
                first.ends.append((peer, min(end, middle)))
            if end > middle:
                second.ends.append((peer, end - middle))
            start = end
        return first, second


class SendHandler(BatchHandler):
    """Handles SEND_MESSAGE 10, SEND_MESSAGE_V2 310 and SEND_BATCH_MESSAGE 320."""

    def __init__(
        self,
        *,
        store: MessageStore,
        lanes: Lanes,
        admission: Admission,
        counters: Counters,
        turns: Turns,
        on_written: Callable[[], None],
        pulls: PullIntake | None = None,
    ) -> None:
        """`on_written` is called after each read batch, because a flush may be due (broker.loop.flusher).

        `pulls` is the fast path of pulls, which the fast path of sends offers other requests.
        """
        self._store = store
        self._admission = admission
        self._counters = counters
        self._on_written = on_written
        self._host = store.store_host.hex().upper()
        self._positions = store.positions
        self._big_batches = BigBatches(
            turns, self._host, store_piece=self._store_piece, finish=self._finish
        )
        self.intake: SendIntake | None = None
        # Without the compiled kernel there is no fast path. It cannot write records with a CRC property either.
        if KERNEL == "fast" and not store.settings.append_property_crc:
            self.intake = SendIntake(
                store=store,
                lanes=lanes,
                admission=admission,
                counters=counters,
                refuse=self._refuse_taken,
                written=self.written,
                pulls=pulls,
            )
        self.answers: Answers = dict.fromkeys(SEND_CODES, self)

    def handle(self, reads: list[Read]) -> None:
        """Store the messages of a read batch with one write, and answer each connection."""
        sends = Sends()
        for peer, commands in reads:
            self._gather(commands, peer, sends)
        self._store_and_answer(sends)

    def _gather(self, commands: list[RawCommand], peer: Peer, sends: Sends) -> None:
        """Add the sends of one connection; a send that must be stored apart is stored at once, after those before it."""
        for command in commands:
            self._gather_one(command, peer, sends)
        sends.end(peer)

    def written(self) -> None:
        """Dispatch the stored messages to consumers, now that the answers have been written."""
        self._store.dispatch_pending()
        self._on_written()

    # --- one send

    def _gather_one(self, command: RawCommand, peer: Peer, sends: Sends) -> None:
        try:
            if is_big(command):
                # The sends collected so far come first.
                sends.end(peer)
                self._store_and_answer(sends.empty())
                self._big_batches.begin(command, peer)
                return
            admitted = admit(self._admission, command, peer)
        except Exception as error:  # noqa: BLE001  As net.dispatcher.run_handler: other requests are not lost.
            peer.answer(command, answer_to_error(error, command))
            return
        one = (
            command[2],
            None if command[1] & ONEWAY else admitted.answer_start,
            admitted.transaction_id,
        )
        if admitted.is_ordinary:
            sends.puts.append(admitted.puts[0])
            sends.pending.append(one)
            return
        # The sends collected so far come first.
        sends.end(peer)
        self._store_and_answer(sends.empty())
        self._store_apart(admitted, one, peer)

    def _store_piece(
        self, command: RawCommand, peer: Peer
    ) -> tuple[list[PutResult], AdmittedSend]:
        """Store a piece of a large batch and dispatch it to consumers."""
        admitted = admit(self._admission, command, peer)
        self._check_replicas(admitted)
        began = self._counters.now()
        try:
            results = self._store.put_batch(admitted.puts)
        except StoreError:
            self._counters.count_put_failed(1)
            raise
        self._counters.count_sends(admitted.puts, results, began)
        self.written()
        return results, admitted

    def _check_replicas(self, admitted: AdmittedSend) -> None:
        """Refuse a send if too few replicas are in sync (minInSyncReplicas).

        Raises:
            RequestError: The send is refused, and none of it is stored.
        """
        if self._positions.refusal is not None and admitted.is_flush_awaited:
            raise too_few_replicas(self._positions.refusal)

    def _store_apart(self, admitted: AdmittedSend, one: Pending, peer: Peer) -> None:
        """Store a batch, a message that awaits no flush, or a send to a new topic."""
        put = self._store.put_batch if admitted.is_batch else self._store.put_many
        began = self._counters.now()
        try:
            self._check_replicas(admitted)
            results = put(admitted.puts)
        except (StoreError, RequestError) as error:
            self._refuse([one], error, peer)
            return
        self._counters.count_sends(admitted.puts, results, began)
        (answered,), last = as_one(one, results, self._host)
        self._finish(admitted, answered, last, peer)

    def _finish(
        self, admitted: AdmittedSend, one: Pending, last: list[PutResult], peer: Peer
    ) -> None:
        """Answer a send that was stored apart, after its topic is on disk and, if wanted, its messages are confirmed."""

        def saved(saving: "asyncio.Future[None] | None") -> None:
            error = saving.exception() if saving is not None else None
            if error is not None:
                self._refuse([one], error, peer)
            elif admitted.is_flush_awaited and _end_of(last) > self._positions.confirmed:
                self._answer_confirmed([one], last, peer, _nothing)
            else:
                peer.write(encode_answers([one], last))

        if admitted.saving is None:
            saved(None)
        else:
            # A producer that gets an answer for a new topic must find the topic again after a power failure.
            admitted.saving.add_done_callback(saved)

    # --- storing and answering

    def _refuse_taken(self, batch: Columns, ends: Ends, error: Exception) -> None:
        """Answer the fast path's sends that could not be stored; if one record is illegal, the others are stored."""
        start, puts, sends = 0, batch.puts(), Sends()
        for peer, end in ends:
            pending = batch.pending(start, end)
            if not isinstance(error, RecordIllegal):
                self._refuse(pending, error, peer)
                pending = []
            for one, (first, count) in zip(pending, batch.requests(start, end), strict=False):
                if count == 1:
                    sends.puts.append(puts[first])
                    sends.pending.append(one)
                    continue
                sends.end(peer)
                self._store_and_answer(sends.empty())
                together = puts[first : first + count]
                self._store_apart(AdmittedSend(together, "", one[2], is_batch=True), one, peer)
            sends.end(peer)
            start = end
        self._store_and_answer(sends)

    def _store_and_answer(self, sends: Sends) -> None:
        puts = sends.puts
        if not puts:
            return
        if self._positions.refusal is not None:
            self._refuse_sends(sends, too_few_replicas(self._positions.refusal))
            return
        began = self._counters.now()
        try:
            results = self._store.put_many(puts)
        except RecordIllegal as error:
            if len(puts) == 1:
                self._refuse_sends(sends, error)
                return
            # One record is too long for the store, and nothing was written: try each half separately.
            for half in sends.halves():
                self._store_and_answer(half)
            return
        except StoreError as error:
            self._refuse_sends(sends, error)
            return
        self._answer_all(sends, results, began)

    def _answer_all(self, sends: Sends, results: list[PutResult], began: float) -> None:
        """Answer each connection, at once or when all of its messages are confirmed."""
        behind, puts = _end_of(results), sends.puts
        is_confirmed = behind <= self._positions.confirmed
        start = 0
        for peer, end in sends.ends:
            pending, stored = sends.pending, results
            if end - start < len(results):
                pending, stored = pending[start:end], results[start:end]
            if is_confirmed:
                peer.write(encode_answers(pending, stored))
            else:
                # As on the fast path, the last waiter also counts: a lone producer must be a single waiter.
                and_then = _nothing
                if end == len(results):
                    and_then = partial(self._counters.count_sends, puts, results, began)
                self._answer_confirmed(pending, stored, peer, and_then)
            start = end
        if is_confirmed:
            self._counters.count_sends(puts, results, began)

    def _answer_confirmed(
        self,
        pending: list[Pending],
        results: list[PutResult],
        peer: Peer,
        and_then: Callable[[], None],
    ) -> None:
        """Answer when all of these messages are confirmed, with one waiter for all."""
        answers = encode_answers(pending, results)

        def confirmed(durability: Durability) -> None:
            is_late = durability is not Durability.OK
            peer.write_at_once(
                encode_answers(as_late(pending, durability), results) if is_late else answers
            )
            and_then()

        self._store.wait_confirmed(_end_of(results), confirmed)

    def _refuse_sends(self, sends: Sends, error: BaseException) -> None:
        start = 0
        for peer, end in sends.ends:
            self._refuse(sends.pending[start:end], error, peer)
            start = end

    def _refuse(self, pending: list[Pending], error: BaseException, peer: Peer) -> None:
        self._counters.count_put_failed(len(pending))
        for opaque, start, _ in pending:
            if start is not None:
                command = Command(_SEND_V2, opaque=opaque)
                peer.answer(command, answer_to_error(error, command))


def admit(admission: Admission, command: RawCommand, sender: Sender) -> AdmittedSend:
    """Decode a send's header and check the send.

    Raises:
        RequestError: The send is refused; the code says why.
        CodecError: The header, batch or properties cannot be decoded.
    """
    code, fields, body = command[0], command[6], command[7]
    header: type[AnySend] = SendRequest if code == RequestCode.SEND_MESSAGE else SendRequestV2
    request: AnySend = decode_fields(header, fields)
    is_batch = code == RequestCode.SEND_BATCH_MESSAGE
    return admission.admit(request, body, sender, is_batch=is_batch)


def _nothing() -> None:
    """Do nothing."""


def _end_of(results: list[PutResult]) -> int:
    _, physical_offset, size = results[-1]
    return physical_offset + size
