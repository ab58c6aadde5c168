"""The states of transactions, and what leads from one to the next; no reading, writing or time in here.

A half message that a producer's retry or a check stored again is the same transaction: its copies are one entry, and
end together. What is open is made from the half and op queues at the start and kept by reading on
(`transactions.queues`); what has ended is remembered for a while, to answer a second end of it.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from cometmq.broker.transactions.prepared_messages import TransactionKey

# Each open transaction costs about 540 bytes.
OPEN_MAX = 500_000
# What became of transactions is remembered of so many.
_ENDED_MAX = 20_000


class OpenTransactionState(Enum):
    """The state of a transaction; the words are for people."""

    UNSURE = "open when the broker started, perhaps committed before"
    PREPARED = "open"
    ASKED = "open, and its producers were asked"
    COMMITTING = "being committed"
    ROLLING_BACK = "being rolled back"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    GIVEN_UP = "discarded after too many checks; resume it first"


class TransactionEvent(Enum):
    """An event that changes the state of a transaction."""

    NOT_FOUND = "the index has no committed message of it"
    FOUND = "the index has its committed message; only the op is missing"
    STORED_ANEW = "its half message was stored once more, not counted as a check"
    ASK = "its half message was stored once more with a check more"
    COMMIT = "a producer says that it counts"
    ROLL_BACK = "a producer says that it does not"
    GIVE_UP = "nobody knew of it for too long"
    WRITTEN = "its end is in the log"
    NOT_WRITTEN = "its end could not be written"


_S, _E = OpenTransactionState, TransactionEvent

# What is not here cannot happen: nothing is asked about or ended before the index was looked into, and
# what has ended stays so. A half message that comes after its end begins anew, and RESUME_CHECK_HALF_MESSAGE
# stores such a half message.
NEXT: dict[tuple[OpenTransactionState, TransactionEvent], OpenTransactionState] = {
    (_S.UNSURE, _E.NOT_FOUND): _S.PREPARED,
    (_S.UNSURE, _E.FOUND): _S.COMMITTING,
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
    # How often it was asked about stands in its half message, whatever this says.
    (_S.COMMITTING, _E.NOT_WRITTEN): _S.PREPARED,
    (_S.ROLLING_BACK, _E.WRITTEN): _S.ROLLED_BACK,
    (_S.ROLLING_BACK, _E.NOT_WRITTEN): _S.PREPARED,
}
OPEN_STATES = frozenset({_S.UNSURE, _S.PREPARED, _S.ASKED})
END_STATES = frozenset({_S.COMMITTED, _S.ROLLED_BACK, _S.GIVEN_UP})
# What a transaction is, or will be when its end is in the log.
OUTCOMES = {state: state for state in END_STATES} | {
    _S.COMMITTING: _S.COMMITTED,
    _S.ROLLING_BACK: _S.ROLLED_BACK,
}


class PreparedCopy(NamedTuple):
    """A half message as it lies in the half queue.

    Attributes:
        offset: in the half queue.
        key: its transaction.
        born_ms: when the producer made it.
        stored_ms: when it was stored.
        immunity_seconds: CHECK_IMMUNITY_TIME_IN_SECONDS, or None.
        first_offset: offset of the copy that the producer knows, where a Java broker wrote this one.
    """

    offset: int
    key: TransactionKey
    born_ms: int
    stored_ms: int
    immunity_seconds: int | None = None
    first_offset: int | None = None


@dataclass(slots=True, eq=False)
class OpenTransaction:
    """A transaction that has not ended in the log.

    Attributes:
        key: which.
        offsets: of its copies in the half queue; the last one is what producers are asked about.
        born_ms: when the producer made it.
        stored_ms: when the last copy was stored.
        immunity_seconds: CHECK_IMMUNITY_TIME_IN_SECONDS, or None.
        state: where it stands.
    """

    key: TransactionKey
    offsets: list[int]
    born_ms: int
    stored_ms: int
    immunity_seconds: int | None
    state: OpenTransactionState

    @property
    def offset(self) -> int:
        """Half offset of the copy that counts."""
        return self.offsets[-1]

    @property
    def is_open(self) -> bool:
        """Whether the transaction can be ended and asked about."""
        return self.state in OPEN_STATES


class TransactionTable:
    """The transactions of a broker.

    Attributes:
        open: those that have not ended in the log, by key.
        unmarked: half offsets that are done and stand in no op yet.
    """

    def __init__(self, *, next_op: int) -> None:
        """`next_op`: the op offset at which reading begins."""
        self.open: dict[TransactionKey, OpenTransaction] = {}
        self.unmarked: list[int] = []
        self._ended: dict[TransactionKey, OpenTransactionState] = {}
        self._by_offset: dict[int, OpenTransaction] = {}
        self._order: deque[int] = deque()  # Half offsets as they came; some are done by now.
        self._done: set[int] = set()  # Done before they were read.
        self._ops: deque[tuple[int, int]] = deque()  # (op offset, greatest half offset in it)
        self._next_op = next_op
        self._is_loading = True

    # --- what the queues say

    def feed_op(self, op_offset: int, offsets: list[int]) -> None:
        """Take an op of the last life: these half offsets are done."""
        assert self._is_loading, "ops are read at the start alone"
        self._done.update(offsets)
        self.op_written(op_offset, offsets)

    def feed(self, copy: PreparedCopy) -> None:
        """Take a half message as it is read, in the order of their offsets."""
        offset = copy.offset
        if offset in self._done:
            self._done.discard(offset)
            return
        if copy.first_offset in self._done:
            # Java's broker ended the copy that the producer knew, and not this one.
            self.unmarked.append(offset)
            return
        found = self.open.get(copy.key)
        if found is None:
            state = _S.UNSURE if self._is_loading else _S.PREPARED
            found = self.open[copy.key] = OpenTransaction(
                copy.key, [], copy.born_ms, copy.stored_ms, copy.immunity_seconds, state
            )
        found.stored_ms = copy.stored_ms
        self._track(found, offset)

    def begin_again(self, *, next_op: int) -> None:
        """The log was truncated: know nothing, and be told all of it again from here on.

        Who holds a transaction of before finds that it is not open.
        """
        for transaction in self.open.values():
            transaction.state = _S.GIVEN_UP
        for known in (
            self.open,
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
        """Both queues were read to their ends: what comes from now on is new."""
        self._done.clear()  # All that the ops tell of was read.
        self._is_loading = False

    # --- finding

    def find(self, offset: int, key: TransactionKey) -> OpenTransaction | None:
        """The transaction with a copy at this half offset, or of this key, unless its end is in the log."""
        return self._by_offset.get(offset) or self.open.get(key)

    def outcome(self, key: TransactionKey) -> OpenTransactionState | None:
        """The outcome of a transaction, or the one it has when its end is written; None: open or unknown."""
        found = self.open.get(key)
        return OUTCOMES.get(found.state) if found is not None else self._ended.get(key)

    # --- events

    def on(self, transaction: OpenTransaction, event: TransactionEvent) -> None:
        """Let something happen to a transaction; what an end needs in the log is written by who calls it."""
        assert self.open.get(transaction.key) is transaction, "it is not known any more"
        following = NEXT.get((transaction.state, event))
        assert following is not None, f"{event} cannot happen to what is {transaction.state}"
        transaction.state = following
        if following in END_STATES:
            del self.open[transaction.key]
            self._forget(transaction.offsets)
            self._remember(transaction.key, following)

    def stored_anew(
        self, transaction: OpenTransaction, offset: int, *, stored_ms: int, is_asked: bool
    ) -> None:
        """A transaction has a new copy; those before it are done."""
        self.on(transaction, _E.ASK if is_asked else _E.STORED_ANEW)
        self._forget(transaction.offsets)
        transaction.offsets = []
        transaction.stored_ms = stored_ms
        self._done.add(offset)  # It is known; reading passes it over.
        self._track(transaction, offset)

    def lost(self, transaction: OpenTransaction) -> None:
        """Give up a transaction whose half message cannot be read any more; the next op says so."""
        offsets = transaction.offsets
        self.on(transaction, _E.GIVE_UP)
        self.unmarked += offsets

    def resume(self, key: TransactionKey) -> None:
        """Forget a transaction that was given up: its half message is stored anew and begins as any other."""
        before = self._ended.pop(key, _S.GIVEN_UP)
        assert before is _S.GIVEN_UP, "what has ended stays so"

    def op_written(self, op_offset: int, offsets: Iterable[int]) -> None:
        """An op lies in the op queue."""
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
            del self._ended[next(iter(self._ended))]

    # --- where a start begins

    def positions(self, next_half: int) -> tuple[int, int]:
        """Half offset and op offset that a start must read from, for what is known now.

        Args:
            next_half: the half offset that is read next.
        """
        order = self._order
        while order and order[0] not in self._by_offset:
            order.popleft()
        half_offset = min(order[0], next_half) if order else next_half
        while self._ops and self._ops[0][1] < half_offset:
            self._ops.popleft()
        return half_offset, self._ops[0][0] if self._ops else self._next_op
