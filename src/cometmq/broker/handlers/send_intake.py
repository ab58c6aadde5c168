"""The fast path of sends: from a turn's bytes to records and answers, as columns.

Plain sends are taken from the bytes of their connections before they are commands (`kernel.take_sends`), stored with
one write, and answered with one a connection. What is not known at a glance stays where it is: it becomes commands, and
goes the way of `handlers.send`, with the same meaning (docs/design/0046-columns.md).

Next: cometmq.store.appender
"""

from collections.abc import Callable

from cometmq.broker.admission import Admission
from cometmq.broker.counters import Counters
from cometmq.broker.handlers.send_answers import as_late, encode_answers, too_few_replicas
from cometmq.broker.handlers.turn_sends import Sends
from cometmq.broker.lanes import Lanes
from cometmq.codec.remoting import FRAME_SIZE_MAX
from cometmq.kernel import SendBatch, answer_columns, take_sends
from cometmq.net.peer import HEADER_SIZE_MAX, Peer
from cometmq.store.batch import Columns
from cometmq.store.message_store import MessageStore
from cometmq.store.positions import Durability


class SendIntake:
    """Takes plain sends (`net.requests.Intake`).

    Attributes:
        count: how many it has taken that are not stored.
    """

    def __init__(
        self,
        *,
        store: MessageStore,
        lanes: Lanes,
        admission: Admission,
        counters: Counters,
        refuse: Callable[[Sends, Exception], None],
        written: Callable[[], None],
    ) -> None:
        """Nothing is taken.

        Args:
            store: where they go.
            lanes: which queues may be sent to without asking.
            admission: what it says of properties and sizes.
            counters: count them.
            refuse: answers sends that could not be stored, as objects.
            written: called once their answers are written.
        """
        self.count = 0
        self.written = written
        self._store = store
        self._positions = store.positions
        self._straight = lanes.straight
        self._suffix = admission.property_suffix.encode()
        self._body_size_max = admission.body_size_max
        self._counters = counters
        self._refuse = refuse
        self._batch: Columns = SendBatch(self._suffix)
        self._ends: list[tuple[Peer, int]] = []

    def take(self, data: bytes, position: int, peer: Peer, count_max: int) -> int:
        """Take sends of one connection; see `net.requests.Intake`."""
        batch = self._batch
        position = take_sends(
            batch, data, position, count_max, peer.host, self._straight, self._body_size_max,
            FRAME_SIZE_MAX, HEADER_SIZE_MAX,
        )  # fmt: skip
        if batch.count > self.count:
            self.count = batch.count
            self._ends.append((peer, batch.count))
        return position

    def handle(self) -> None:
        """Store what was taken, and answer each connection."""
        batch, ends = self._batch, self._ends
        self._batch, self._ends, self.count = SendBatch(self._suffix), [], 0
        if self._positions.refusal is not None:
            self._refuse(_as_objects(batch, ends), too_few_replicas(self._positions.refusal))
            return
        try:
            self._store.put_columns(batch)
        except Exception as error:  # noqa: BLE001  As net.dispatcher.run_batch.
            self._refuse(_as_objects(batch, ends), error)
            return
        end = batch.end_of(batch.count)
        self._counters.count_put(batch.count, end - batch.start)
        is_confirmed = end <= self._positions.confirmed
        first = 0
        for peer, last in ends:
            answers = answer_columns(batch, first, last)
            if is_confirmed:
                peer.write_at_once(answers)
            else:
                self._answer_confirmed(batch, first, last, answers, peer)
            first = last

    def _answer_confirmed(
        self, batch: Columns, first: int, last: int, answers: bytes, peer: Peer
    ) -> None:
        """Answer when all of a connection's sends are confirmed; one waiter for all."""

        def confirmed(durability: Durability) -> None:
            is_late = durability is not Durability.OK
            peer.write_at_once(
                _late_answers(batch, first, last, durability) if is_late else answers
            )

        self._store.wait_confirmed(batch.end_of(last), confirmed)


def _late_answers(batch: Columns, first: int, last: int, durability: Durability) -> bytes:
    return encode_answers(
        as_late(batch.pending(first, last), durability), batch.results(first, last)
    )


def _as_objects(batch: Columns, ends: list[tuple[Peer, int]]) -> Sends:
    sends = Sends()
    sends.puts, sends.pending = batch.puts(), batch.pending(0, batch.count)
    sends.ends = ends
    return sends
