"""The states of transactions: what leads where, and that nothing else is possible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.broker.transactions.prepared_messages import TransactionKey
from cometmq.broker.transactions.table import (
    END_STATES,
    NEXT,
    OPEN_STATES,
    OUTCOMES,
    OpenTransactionState,
    PreparedCopy,
    TransactionEvent,
    TransactionTable,
)

KEY = TransactionKey("k", "g", "t")


def table(*, is_loaded: bool = True) -> TransactionTable:
    made = TransactionTable(next_op=0)
    if is_loaded:
        made.loaded()
    return made


def copy(offset: int, key: TransactionKey = KEY, **more) -> PreparedCopy:
    return PreparedCopy(offset, key, 10, 20 + offset, **more)


def test_every_state_can_be_left_or_is_an_end():
    left = {state for state, _ in NEXT}
    assert left | END_STATES == set(OpenTransactionState)
    assert not left & END_STATES, "what has ended stays so"
    assert set(OUTCOMES) | OPEN_STATES == set(OpenTransactionState)


def test_nothing_is_asked_or_ended_before_it_was_looked_up():
    events = {event for state, event in NEXT if state is OpenTransactionState.UNSURE}
    assert events == {TransactionEvent.NOT_FOUND, TransactionEvent.FOUND}


def test_what_a_start_reads_is_not_sure_and_what_comes_later_is():
    made = table(is_loaded=False)
    made.feed(copy(0))
    made.loaded()
    made.feed(copy(1, KEY._replace(message_id="l")))
    states = [each.state for each in made.open.values()]
    assert states == [OpenTransactionState.UNSURE, OpenTransactionState.PREPARED]


@pytest.mark.parametrize("event", TransactionEvent)
@pytest.mark.parametrize("state", OpenTransactionState)
def test_an_event_that_is_in_no_row_is_a_fault(state, event):
    made = table()
    made.feed(copy(0))
    transaction = made.open[KEY]
    transaction.state = state
    following = NEXT.get((state, event))
    if following is None:
        with pytest.raises(AssertionError):
            made.on(transaction, event)
        assert transaction.state is state
    else:
        made.on(transaction, event)
        assert transaction.state is following
        assert (KEY in made.open) is (following not in END_STATES)
        assert made.outcome(KEY) is OUTCOMES.get(following)


def test_copies_are_one_transaction_and_end_together():
    made = table()
    for offset in (0, 1, 5):
        made.feed(copy(offset))
    (transaction,) = made.open.values()
    assert (transaction.offsets, transaction.offset, transaction.stored_ms) == (
        [0, 1, 5],
        5,
        25,
    )
    assert all(made.find(offset) is transaction for offset in (0, 1, 5))
    made.on(transaction, TransactionEvent.COMMIT)
    assert made.positions(6)[0] == 0, "its end is not in the log yet"
    made.feed(copy(6))
    assert transaction.offsets == [0, 1, 5, 6], "a retry that comes now ends with it"
    made.on(transaction, TransactionEvent.WRITTEN)
    assert made.find(0) is None
    assert made.positions(7)[0] == 7


def test_an_end_that_was_not_written_leaves_it_open():
    made = table()
    made.feed(copy(3))
    transaction = made.open[KEY]
    made.on(transaction, TransactionEvent.ROLL_BACK)
    assert made.outcome(KEY) is OpenTransactionState.ROLLED_BACK
    assert not transaction.is_open
    made.on(transaction, TransactionEvent.NOT_WRITTEN)
    assert (transaction.is_open, made.outcome(KEY)) == (True, None)
    assert made.find(3) is transaction


def test_a_half_whose_op_was_read_is_passed_over():
    made = table(is_loaded=False)
    made.feed_op(0, [1, 2])
    for offset in range(4):
        made.feed(copy(offset, KEY._replace(message_id=str(offset))))
    made.loaded()
    assert [each.offset for each in made.open.values()] == [0, 3]


def test_javas_copy_of_a_half_that_was_done_is_marked_with_the_next_op():
    made = table(is_loaded=False)
    made.feed_op(0, [1])
    made.feed(copy(5, first_offset=1))
    assert (made.open, made.unmarked) == ({}, [5])


def test_a_half_that_is_gone_is_given_up_and_marked():
    made = table()
    made.feed(copy(2))
    made.feed(copy(4))
    made.ended(made.open[KEY], TransactionEvent.GIVE_UP)
    assert made.unmarked == [2, 4]
    assert made.outcome(KEY) is OpenTransactionState.GIVEN_UP
    made.resume(KEY)
    assert made.outcome(KEY) is None


def test_what_was_committed_is_not_resumed():
    made = table()
    made.feed(copy(2))
    for event in (TransactionEvent.COMMIT, TransactionEvent.WRITTEN):
        made.on(made.open[KEY], event)
    with pytest.raises(AssertionError):
        made.resume(KEY)


@given(st.data())
def test_a_start_reads_from_the_oldest_half_that_is_not_done(data):
    """Whatever happens in whatever order, positions and table agree with a plain account of it."""
    made = table()
    open_offsets: dict[str, list[int]] = {}
    ops: list[tuple[int, int]] = []
    next_half = 0
    for _ in range(data.draw(st.integers(1, 40))):
        deed = data.draw(st.sampled_from(["half", "half", "anew", "end", "fail"]))
        if deed == "half":
            name = data.draw(st.sampled_from("abcdef"))
            made.feed(copy(next_half, KEY._replace(message_id=name)))
            open_offsets.setdefault(name, []).append(next_half)
            next_half += 1
        elif open_offsets:
            name = data.draw(st.sampled_from(sorted(open_offsets)))
            transaction = made.open[KEY._replace(message_id=name)]
            if deed == "fail":
                made.on(transaction, TransactionEvent.COMMIT)
                made.on(transaction, TransactionEvent.NOT_WRITTEN)
                continue
            done = open_offsets.pop(name)
            made.op_written(len(ops), done)
            ops.append((len(ops), max(done)))
            if deed == "anew":
                made.stored_anew(transaction, next_half, stored_ms=0, is_asked=True)
                made.feed(copy(next_half, transaction.key))
                open_offsets[name] = [next_half]
                next_half += 1
            else:
                made.on(transaction, TransactionEvent.COMMIT)
                made.on(transaction, TransactionEvent.WRITTEN)
        half_offset, op_offset = made.positions(next_half)
        oldest = min((min(each) for each in open_offsets.values()), default=next_half)
        assert half_offset == oldest
        assert not [op for op, greatest in ops if op < op_offset and greatest >= half_offset]
    assert {key.message_id: each.offsets for key, each in made.open.items()} == open_offsets
    assert made.counts.total() == len(made.open)
    assert all(made.counts.values())
