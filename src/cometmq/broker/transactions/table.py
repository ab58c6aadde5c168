"""The states of transactions and their transitions, without I/O or time.

A transaction has several half messages if a producer's retry stored it again; copies with one unique key are one entry,
and end together. A check replaces them by a new copy. Open transactions are read from the half and op queues
(`transactions.queues`). The outcome of the last ended ones is remembered, to answer repeated ends.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from cometmq.broker.transactions.prepared_messages import TransactionKey

# Each open transaction costs about 540 bytes.
OPEN_MAX = 500_000
# Number of ended transactions whose outcome is remembered.
_ENDED_MAX = 20_000


class OpenTransactionState(StrEnum):
    """The state of an open or ended transaction; the values are texts for users.

    UNSURE, PREPARED, ASKED, COMMITTING, ROLLING_BACK, COMMITTED, ROLLED_BACK or GIVEN_UP.
    """

    UNSURE = "open when the broker started, perhaps committed before"
    PREPARED = "open"
    ASKED = "open, and its producers were asked"
    COMMITTING = "being committed"
    ROLLING_BACK = "being rolled back"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    GIVEN_UP = "discarded after too many checks; resume it first"


class TransactionEvent(StrEnum):
    """An event that changes the state of a transaction; the values describe it.

    NOT_FOUND or FOUND (in the index), STORED_ANEW, ASK, COMMIT, ROLL_BACK, GIVE_UP, WRITTEN or NOT_WRITTEN.
    """

    NOT_FOUND = "the index has no committed message of it"
    FOUND = "the index has its committed message; only the op is missing"
    STORED_ANEW = "its half message was stored again, without a check"
    ASK = "its half message was stored again, with one more check"
    COMMIT = "a producer commits it"
    ROLL_BACK = "a producer rolls it back"
    GIVE_UP = "no producer reported its outcome in time"
    WRITTEN = "its end is in the log"
    NOT_WRITTEN = "its end could not be written"


_S, _E = OpenTransactionState, TransactionEvent

# All other transitions are impossible: no transaction is checked or ended before the index lookup, and the outcome is
# final. A half message that arrives after the end, for example by RESUME_CHECK_HALF_MESSAGE, starts a new transaction.
NEXT: dict[tuple[OpenTransactionState, TransactionEvent], OpenTransactionState] = {
    (_S.UNSURE, _E.NOT_FOUND): _S.PREPARED,
    (_S.UNSURE, _E.FOUND): _S.COMMITTED,
    (_S.PREPARED, _E.STORED_ANEW): _S.PREPARED,
    (_S.PREPARED, _E.ASK): _S.ASKED,
    (_S.PREPARED, _E.COMMIT): _S.COMMITTING,
    (_S.PREPARED, _E.ROLL_BACK): _S.ROLLING_BACK,
    (_S.PREPARED, _E.GIVE_UP): _S.GIVEN_UP,
    (_S.ASKED, _E.STORED_ANEW): _S.ASKED,
    (_S.ASKED, _E.ASK): _S.ASKED,
    (_S.ASKED, _E.COMMIT): _S.COMMITTING,
    (_S.ASKED, _E.ROLL_BACK): _S.ROLLING_BACK,
    (_S.ASKED, _E.GIVE_UP): _S.GIVEN_UP,
    (_S.COMMITTING, _E.WRITTEN): _S.COMMITTED,
    # The number of checks is in the half message, whatever state this returns to.
    (_S.COMMITTING, _E.NOT_WRITTEN): _S.PREPARED,
    (_S.ROLLING_BACK, _E.WRITTEN): _S.ROLLED_BACK,
    (_S.ROLLING_BACK, _E.NOT_WRITTEN): _S.PREPARED,
}
OPEN_STATES = frozenset({_S.UNSURE, _S.PREPARED, _S.ASKED})
END_STATES = frozenset({_S.COMMITTED, _S.ROLLED_BACK, _S.GIVEN_UP})
# The outcome of a transaction, or the one it gets when its end is written.
OUTCOMES = {state: state for state in END_STATES} | {
    _S.COMMITTING: _S.COMMITTED,
    _S.ROLLING_BACK: _S.ROLLED_BACK,
}


class PreparedCopy(NamedTuple):
    """A half message in the half queue.

    Attributes:
        offset: Its offset in the half queue.
        born_ms: When the producer created it, epoch ms.
        stored_ms: When it was stored, epoch ms.
        immunity_seconds: CHECK_IMMUNITY_TIME_IN_SECONDS, or None.
        first_offset: Half offset of the copy that the producer knows, if a Java broker wrote this one for a check.
    """

    offset: int
    key: TransactionKey
    born_ms: int
    stored_ms: int
    immunity_seconds: int | None = None
    first_offset: int | None = None


@dataclass(slots=True, eq=False)
class OpenTransaction:
    """A transaction that is not known to have ended; its times and immunity are as in `PreparedCopy`.

    Attributes:
        offsets: Offsets of its copies in the half queue; producers are asked about the last one.
        stored_ms: When the last copy was stored, epoch ms.
    """

    key: TransactionKey
    offsets: list[int]
    born_ms: int
    stored_ms: int
    immunity_seconds: int | None
    state: OpenTransactionState

    @property
    def offset(self) -> int:
        """Offset in the half queue of the latest copy."""
        return self.offsets[-1]

    @property
    def is_open(self) -> bool:
        """Whether the transaction has neither ended nor begun to end (UNSURE, PREPARED or ASKED)."""
        return self.state in OPEN_STATES


class TransactionTable:
    """The open transactions of a broker, and the outcome of transactions that have ended recently.

    Attributes:
        open: Transactions that are not known to have ended, by key.
        counts: Their number by topic.
        unmarked: Half offsets that have ended but that no op names yet.
        on_full: Called when OPEN_MAX transactions are open, so that no more half messages are accepted.
    """

    def __init__(self, *, next_op: int) -> None:
        """`next_op` is the offset in the op queue at which reading starts."""
        self.open: dict[TransactionKey, OpenTransaction] = {}
        self.counts: Counter[str] = Counter()
        self.unmarked: list[int] = []
        self.on_full: Callable[[], None] = lambda: None
        # A plain dict passes over all that were deleted before it finds the first one.
        self._ended: OrderedDict[TransactionKey, OpenTransactionState] = OrderedDict()
        self._by_offset: dict[int, OpenTransaction] = {}
        self._order: deque[int] = deque()  # Half offsets in order; some have ended.
        self._done: set[int] = set()  # Ended before they were read.
        self._ops: deque[tuple[int, int]] = deque()  # (op offset, largest half offset in it)
        self._next_op = next_op
        self._is_loading = True

    # --- input from the queues

    def feed_op(self, op_offset: int, offsets: list[int]) -> None:
        """Process an op that was read at the start: the half messages at these offsets have ended."""
        assert self._is_loading, "ops are read at the start alone"
        self._done.update(offsets)
        self.op_written(op_offset, offsets)

    def feed(self, copy: PreparedCopy) -> None:
        """Add a half message that was read, in order of offsets, to its transaction or a new one, unless it has ended."""
        offset = copy.offset
        if offset in self._done:
            self._done.discard(offset)
            return
        if copy.first_offset in self._done:
            # A Java broker ended the copy that the producer knows, not this one.
            self.unmarked.append(offset)
            return
        found = self.open.get(copy.key)
        if found is None:
            state = _S.UNSURE if self._is_loading else _S.PREPARED
            found = self.open[copy.key] = OpenTransaction(
                copy.key, [], copy.born_ms, copy.stored_ms, copy.immunity_seconds, state
            )
            self.counts[copy.key.topic] += 1
            if len(self.open) >= OPEN_MAX:
                self.on_full()
        found.stored_ms = copy.stored_ms
        self._track(found, offset)

    def begin_again(self, *, next_op: int) -> None:
        """Forget everything, to read it again after a truncation; transactions that callers hold are no longer open."""
        for transaction in self.open.values():
            transaction.state = _S.GIVEN_UP
        for known in (
            self.open,
            self.counts,
            self.unmarked,
            self._ended,
            self._by_offset,
            self._order,
            self._done,
            self._ops,
        ):
            known.clear()
        self._next_op = next_op
        self._is_loading = True

    def loaded(self) -> None:
        """Note that both queues were read to their ends, so that half messages read later are new."""
        self._done.clear()  # Everything that the ops name has been read.
        self._is_loading = False

    # --- finding

    def find(self, offset: int) -> OpenTransaction | None:
        """Return the transaction in `open` with a copy at this half offset, or None."""
        return self._by_offset.get(offset)

    def outcome(self, key: TransactionKey) -> OpenTransactionState | None:
        """Return the outcome of a transaction, or the one it gets when its end is written; None if open or unknown."""
        found = self.open.get(key)
        return OUTCOMES.get(found.state) if found is not None else self._ended.get(key)

    # --- events

    def on(self, transaction: OpenTransaction, event: TransactionEvent) -> None:
        """Apply an event to a transaction; the caller writes what the log needs."""
        assert self.open.get(transaction.key) is transaction, "it is not known any more"
        following = NEXT.get((transaction.state, event))
        assert following is not None, f"{event} is impossible in {transaction.state}"
        transaction.state = following
        if following in END_STATES:
            del self.open[transaction.key]
            self.counts[transaction.key.topic] -= 1
            if not self.counts[transaction.key.topic]:
                del self.counts[transaction.key.topic]
            self._forget(transaction.offsets)
            self._remember(transaction.key, following)

    def stored_anew(
        self, transaction: OpenTransaction, offset: int, *, stored_ms: int, is_asked: bool
    ) -> None:
        """Note a transaction's new copy, which replaces the earlier ones; if `is_asked`, also that its producer is asked."""
        self.on(transaction, _E.ASK if is_asked else _E.STORED_ANEW)
        self._forget(transaction.offsets)
        transaction.offsets = []
        transaction.stored_ms = stored_ms
        self._done.add(offset)  # Reading skips it, because it is already known.
        self._track(transaction, offset)

    def ended(self, transaction: OpenTransaction, event: TransactionEvent) -> None:
        """Apply an event that ends a transaction without a write of its own; the next op marks it as ended."""
        self.on(transaction, event)
        self.unmarked += transaction.offsets

    def resume(self, key: TransactionKey) -> None:
        """Forget that a transaction was discarded: the caller stores its half message again, for a new transaction."""
        before = self._ended.pop(key, _S.GIVEN_UP)
        assert before is _S.GIVEN_UP, "what has ended stays so"

    def op_written(self, op_offset: int, offsets: Iterable[int]) -> None:
        """Note that an op was written to the op queue."""
        self._next_op = op_offset + 1
        greatest = max(offsets, default=None)
        if greatest is not None:
            self._ops.append((op_offset, greatest))

    def _track(self, transaction: OpenTransaction, offset: int) -> None:
        transaction.offsets.append(offset)
        self._by_offset[offset] = transaction
        self._order.append(offset)

    def _forget(self, offsets: list[int]) -> None:
        for offset in offsets:
            del self._by_offset[offset]

    def _remember(self, key: TransactionKey, state: OpenTransactionState) -> None:
        self._ended.pop(key, None)
        self._ended[key] = state
        if len(self._ended) > _ENDED_MAX:
            self._ended.popitem(last=False)

    # --- positions from which a start reads

    def positions(self, next_half: int) -> tuple[int, int]:
        """Return the half and op offsets from which a start must read; half messages from `next_half` on are unread."""
        order = self._order
        while order and order[0] not in self._by_offset:
            order.popleft()
        half_offset = min(order[0], next_half) if order else next_half
        while self._ops and self._ops[0][1] < half_offset:
            self._ops.popleft()
        return half_offset, self._ops[0][0] if self._ops else self._next_op
