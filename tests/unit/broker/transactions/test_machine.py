"""Transactions as machines: ends, checks, restarts and lost writes, on a hand clock and a disk in memory."""

from __future__ import annotations

import errno
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.broker.settings.store_keys import FlushDiskType
from cometmq.broker.transactions import queues
from cometmq.broker.transactions.prepared_messages import committed, decode_op
from cometmq.broker.transactions.table import OpenTransactionState
from cometmq.codec.headers.transaction import CheckTransaction
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.record import Record
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RecordIllegal, RequestError, StoreError
from cometmq.model.flags import TRANSACTION_COMMIT, TRANSACTION_MASK
from cometmq.model.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from cometmq.net.requests import any_topic
from cometmq.store.reader import GetResult
from tests.support.hand_world import Outcome
from tests.unit.broker.transactions.by_hand import COMMIT, ROLLBACK, Half, Life, begin, key_of


def done_offsets(life: Life) -> list[int]:
    """The half offsets that ops name."""
    return sorted(
        offset for body in life.broker.bodies(OP_HALF_TOPIC) for offset in decode_op(body)
    )


@pytest.fixture
def life():
    return begin()


def test_ends_that_are_stored_together_share_a_write_and_an_op(life):
    halves = [life.half(number) for number in range(4)]
    ends = [
        life.prepare(half, how)
        for half, how in zip(halves, [COMMIT, ROLLBACK] * 2, strict=True)
    ]
    assert life.paid() == []
    life.world.run(life.ends.store(ends))
    assert [each.error for each in ends] == [None] * 4
    assert life.paid() == [b"0", b"2"]
    assert life.broker.bodies(OP_HALF_TOPIC) == [b"0,1,2,3,"]
    for record, half in zip(life.broker.records("Paid", 1), halves[::2], strict=True):
        assert record.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT
        assert record.prepared_offset == half.physical_offset


@pytest.mark.parametrize("size_max", [0, 1_000, 1 << 20])
def test_a_half_message_that_is_kept_is_committed_as_one_that_is_read_again(
    monkeypatch, size_max
):
    """Some, all or none of the halves that were read last are at hand when they end, in another order."""
    monkeypatch.setattr(queues, "_RECENT_SIZE_MAX", size_max)
    life = begin()
    halves = [life.half(number, KEYS=f"k{number}") for number in range(8)]
    life.end(halves[0], ROLLBACK)  # All are read.
    assert 0 <= life.queues._recent._size <= size_max
    assert bool(life.queues._recent._halves) == (size_max > 0)
    for half in reversed(halves[1:]):
        life.end(half, COMMIT)
    waiting = {record.physical_offset: record for record in life.broker.records(HALF_TOPIC)}
    paid = life.broker.records("Paid", 1)
    assert len(paid) == 7
    for record in paid:
        half_record = waiting[record.prepared_offset]
        assert record.property_block == half_record.property_block
        assert (record.body, record.born_timestamp, record.born_host, record.flag) == (
            half_record.body, half_record.born_timestamp, half_record.born_host, half_record.flag
        )  # fmt: skip
        assert record.sys_flag == half_record.sys_flag | TRANSACTION_COMMIT
    assert life.queues._recent._size == 0


def test_a_second_end_that_is_stored_with_the_first_is_the_same(life):
    half = life.half(1)
    first, second = life.prepare(half, COMMIT), life.prepare(half, COMMIT)
    with pytest.raises(RequestError, match="another outcome: it was committed"):
        life.prepare(half, ROLLBACK)
    assert first is second, "its commit is not in the log yet"
    life.world.run(life.ends.store([first, second]))
    assert (first.error, life.paid()) == (None, [b"1"])
    counted = life.broker.counters.events.of("rocketmq_commit_messages_total")
    assert counted == {("Paid",): 1}


def test_an_end_that_cannot_be_written_is_told_to_all_and_leaves_it_open(life):
    halves = [life.half(number) for number in range(2)]
    ends = [life.prepare(half, COMMIT) for half in halves]
    life.broker.disk.fail("pwrite", code=errno.ENOSPC)
    life.world.run(life.ends.store(ends))
    assert all(isinstance(each.error, StoreError) for each in ends)
    assert [each.state for each in life.table.open.values()] == [
        OpenTransactionState.PREPARED
    ] * 2
    life.broker.clock.turn(60)
    life.broker.store.tick()  # There is room again.
    life.end(halves[0], COMMIT)
    life.end(halves[1], ROLLBACK)
    assert life.paid() == [b"0"]


def test_one_that_fits_no_log_file_as_a_message_harms_no_other_of_its_turn(life):
    name = (
        "P" * 100
    )  # Longer than the half topic's: the half fits, and what it becomes does not.
    life.half(9, REAL_TOPIC=name)
    overhead = life.broker.records(HALF_TOPIC)[0].store_size
    room = life.broker.settings.commitlog_file_size - overhead - 30
    halves = [life.half(0), life.half(1, b"x" * room, REAL_TOPIC=name), life.half(2)]
    ends = [life.prepare(half, COMMIT) for half in halves]
    life.world.run(life.ends.store(ends))
    assert [type(each.error) for each in ends] == [type(None), RecordIllegal, type(None)]
    assert life.paid() == [b"0", b"2"]
    assert {key.message_id for key in life.table.open} == {key_of(1), key_of(9)}


def test_with_sync_flush_an_end_is_answered_when_it_is_on_the_device():
    life = begin(flush_disk_type=FlushDiskType.SYNC_FLUSH)
    half = life.half(1)
    life.world.is_flushed = None
    outcome = life.world.begin(life.ends.end(half.end(COMMIT), any_topic))
    life.world.settle()
    assert not outcome.is_over
    life.world.flush(is_there=False)
    with pytest.raises(StoreError, match="not flushed to the device in time"):
        outcome.get()
    assert life.table.open == {}, "it is written all the same"


def test_two_copies_of_a_retried_send_become_one_message(life):
    first, second = life.half(1), life.half(1)
    life.end(second, COMMIT)
    life.end(first, COMMIT)
    assert life.paid() == [b"1"]
    assert done_offsets(life) == [0, 1]


def test_an_end_that_is_not_known_yet_is_told_so(life):
    assert "stays open" in (life.end(life.half(1), 0) or "")


# --- checks


def test_a_round_asks_after_the_immunity_and_counts():
    life = begin(transaction_timeout_ms=6_000)
    life.half(1)
    life.check()
    assert life.asked == []
    life.broker.clock.turn(6.001)
    life.check()
    ((header, record),) = life.asked
    assert record.properties()["TRANSACTION_CHECK_TIMES"] == "1"
    assert (record.topic, record.queue_id, record.body) == ("Paid", 1, b"1")
    assert (header.tran_state_table_offset, header.msg_id) == (1, key_of(1))
    assert header.offset_msg_id == encode_message_id(
        life.broker.store.store_host, header.commit_log_offset
    )
    assert done_offsets(life) == [0]
    assert [each.state for each in life.table.open.values()] == [OpenTransactionState.ASKED]
    life.answer(life.asked[0], COMMIT)
    assert (life.paid(), done_offsets(life)) == ([b"1"], [0, 1])
    life.broker.clock.turn(60)
    life.check()
    assert len(life.asked) == 1


def test_the_copy_that_the_producer_knows_ends_the_one_that_was_asked_about():
    life = begin(transaction_timeout_ms=0)
    half = life.half(1)
    life.broker.clock.turn(1)
    life.check()
    life.end(half, COMMIT)
    life.answer(life.asked[0], COMMIT)
    assert life.paid() == [b"1"]


def test_a_long_immunity_is_kept_and_its_half_stored_anew_after_a_minute():
    life = begin(transaction_timeout_ms=0)
    life.half(1, CHECK_IMMUNITY_TIME_IN_SECONDS="600")
    life.broker.clock.turn(61)
    life.check()
    assert life.asked == []
    (transaction,) = life.table.open.values()
    assert (transaction.state, transaction.offsets) == (OpenTransactionState.PREPARED, [1])
    life.broker.clock.turn(540)
    life.check()
    assert life.asked[0][1].properties()["TRANSACTION_CHECK_TIMES"] == "1"


def test_an_end_after_the_immunity_waits_for_the_check():
    life = begin(transaction_timeout_ms=0)
    half = life.half(1, CHECK_IMMUNITY_TIME_IN_SECONDS="0")
    life.broker.clock.turn(0.005)
    with pytest.raises(RequestError) as refused:
        life.end(half, COMMIT)
    assert refused.value.code == ResponseCode.ILLEGAL_OPERATION
    life.end(half, COMMIT, is_check=True)
    assert life.paid() == [b"1"]


def test_after_so_many_checks_it_is_given_up_and_can_be_resumed():
    life = begin(transaction_timeout_ms=0, transaction_check_max=2)
    half = life.half(1)
    for _ in range(3):
        life.broker.clock.turn(1)
        life.check()
    times = [record.properties()["TRANSACTION_CHECK_TIMES"] for _, record in life.asked]
    assert times == ["1", "2"]
    (given_up,) = life.broker.records(TRANS_CHECK_MAX_TIME_TOPIC)
    with pytest.raises(RequestError, match="discarded after too many checks"):
        life.end(half, COMMIT)
    message_id = encode_message_id(given_up.store_host, given_up.physical_offset)
    for _ in range(2):  # A second one finds it open.
        life.world.run(life.checks.resume(message_id))
    life.broker.clock.turn(1)
    life.check()
    assert life.asked[2][1].properties()["TRANSACTION_CHECK_TIMES"] == "1"
    life.answer(life.asked[2], COMMIT)
    assert life.paid() == [b"1"]
    with pytest.raises(RequestError, match="cannot be reopened: it was committed"):
        life.world.run(life.checks.resume(message_id))


@pytest.mark.parametrize("what", ["nonsense", "a half", "nothing"])
def test_only_what_was_given_up_is_resumed(life, what):
    place = life.half(1).physical_offset if what == "a half" else 1 << 40
    message_id = encode_message_id(life.broker.store.store_host, place)
    with pytest.raises(RequestError) as refused:
        life.world.run(life.checks.resume("nonsense" if what == "nonsense" else message_id))
    assert refused.value.code == (
        ResponseCode.INVALID_PARAMETER if what == "nonsense" else ResponseCode.SYSTEM_ERROR
    )


def test_what_is_older_than_the_log_is_kept_is_given_up_unasked():
    life = begin(transaction_timeout_ms=0)
    life.half(1)
    life.broker.clock.turn(life.broker.settings.reserved_hours * 3600 + 1)
    life.check()
    assert life.asked == []
    assert life.broker.bodies(TRANS_CHECK_MAX_TIME_TOPIC) == [b"1"]


def test_an_end_between_the_reads_of_a_round_is_not_undone():
    life = begin(transaction_timeout_ms=0)
    half = life.half(1)
    life = life.killed()  # Not sure of it: the round looks it up first, elsewhere.
    life.broker.clock.turn(1)
    ending = life.world.begin(life.ends.end(half.end(ROLLBACK), any_topic))
    checking = life.world.begin(life.checks.check())
    life.world.settle()
    checking.get()
    ending.get()
    assert (life.asked, life.table.open, life.paid()) == ([], {}, [])


def test_a_retry_that_comes_while_a_round_reads_does_not_lose_the_transaction():
    life = begin(transaction_timeout_ms=0)
    life.half(1)
    life.half(2)
    life = life.killed()  # Not sure of them: the round looks them up, and waits.
    life.broker.clock.turn(1)
    checking = life.world.begin(life.checks.check())
    life.world.turn()  # The first is looked up; the second one waits for that still.
    life.half(1)
    life.world.run(life.queues.catch_up())
    checking.get()
    assert len(life.table.open) == 2, "nobody is given up"
    life.broker.clock.turn(1)
    life.check()
    for each in life.asked:
        life.answer(each, COMMIT)
    assert sorted(life.paid()) == [b"1", b"2"]


# --- starts


@pytest.mark.parametrize("is_read_anew", [False, True])
def test_a_start_knows_what_is_open_and_what_has_ended(life, is_read_anew):
    halves = [life.half(number) for number in range(40)]
    for half in halves[::2]:
        life.end(half, COMMIT)
    life = life.killed(is_read_anew=is_read_anew)
    assert {key.message_id for key in life.table.open} == {half.key for half in halves[1::2]}
    for half in halves:
        life.end(half, COMMIT)
    assert sorted(map(int, life.paid())) == list(range(40))


@pytest.mark.parametrize("who", ["the producer", "a refused rollback", "a check"])
def test_a_commit_whose_op_was_lost_is_not_done_again(who):
    life = begin(transaction_timeout_ms=0)
    half, other = life.half(1), life.half(2)
    first = life.broker.records(HALF_TOPIC)[0]
    topic = life.broker.topics.get("Paid")
    assert topic is not None
    life.broker.put(committed(first, first.properties(), topic, 1))
    life = life.killed()
    life.broker.clock.turn(1)
    if who == "the producer":
        life.end(half, COMMIT)
    if who == "a refused rollback":
        with pytest.raises(RequestError, match="another outcome: it was committed"):
            life.end(half, ROLLBACK)
        assert {key.message_id for key in life.table.open} == {other.key}
    life.check()
    assert [record.body for _, record in life.asked] == [b"2"]
    assert life.paid() == [b"1"]
    with pytest.raises(RequestError, match="another outcome: it was committed"):
        life.end(half, ROLLBACK)
    life.end(half, COMMIT)
    assert not life.broker.counters.events.of("rocketmq_rollback_messages_total")
    life.answer(life.asked[0], ROLLBACK)
    assert done_offsets(life) == [0, 1, 2], "the next op names what had none"


class Books:
    """A producer's books, and what is done with a broker that they are about."""

    def __init__(self, draw, seed: int) -> None:
        self.draw = draw
        self.life = begin(
            chance=Random(seed), transaction_timeout_ms=0, transaction_check_max=1000
        )
        self.says: dict[str, int] = {}
        self.halves: list[Half] = []
        self.outcomes: list[Outcome] = []

    def half(self, number: int) -> None:
        self.says[key_of(number)] = self.draw(st.sampled_from([COMMIT, ROLLBACK]))
        copies = self.draw(st.sampled_from([1, 1, 1, 2]))
        self.halves += [self.life.half(number) for _ in range(copies)]

    def end(self) -> None:
        half = self.draw(st.sampled_from(self.halves))
        ending = self.life.ends.end(half.end(self.says[half.key]), any_topic)
        self.outcomes.append(self.life.world.begin(ending))

    def check(self) -> None:
        self.outcomes.append(self.life.world.begin(self.life.checks.check()))

    def answer(self) -> None:
        if self.life.asked:
            self.answer_to(self.draw(st.sampled_from(self.life.asked)))

    def answer_to(self, asked: tuple[CheckTransaction, Record]) -> None:
        self.life.answer(asked, self.says[asked[0].msg_id or ""])

    def turn(self) -> None:
        self.life.world.turn()

    def kill(self) -> None:
        self.life = self.life.killed(is_read_anew=self.draw(st.booleans()))
        self.outcomes = []  # Their answers went with the process.


DEEDS = (Books.end, Books.check, Books.answer, Books.turn, Books.kill)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), seed=st.integers(0, 1 << 32))
def test_whatever_happens_in_whatever_order_each_is_committed_once_or_never(data, seed):
    """Halves, retries, ends, checks with and without answers, and kills; work elsewhere ends in any order."""
    books = Books(data.draw, seed)
    for number in range(data.draw(st.integers(1, 8))):
        books.half(number)
        for deed in data.draw(st.lists(st.sampled_from(DEEDS), max_size=5)):
            books.life.broker.clock.turn(0.01)
            deed(books)
        books.life.world.settle()
        assert [each.error for each in books.outcomes if each.error is not None] == []
    life = books.life
    for _ in range(2):
        life.broker.clock.turn(1)
        life.check()
        for asked in list(life.asked):
            books.answer_to(asked)
    assert life.table.open == {}
    paid = [record.properties()["UNIQ_KEY"] for record in life.broker.records("Paid", 1)]
    assert sorted(paid) == [key for key, how in books.says.items() if how == COMMIT]
    assert life.killed(is_read_anew=True).table.open == {}


def is_known(life: Life) -> bool:
    """Whether the table says what the log does."""
    return life.queues.is_known


def truncate(life: Life, end: int, *, read_from: tuple[int, int] = (0, 0)) -> None:
    """The log is cut, and all that is known comes from what is left, as the feature has it."""
    life.broker.store.on_truncated.append(lambda _: life.queues.begin_again(*read_from))
    life.broker.store.truncate(end)


def test_an_end_behind_a_new_end_of_the_log_never_was_and_can_come_again(life):
    halves = [life.half(number) for number in range(3)]
    life.end(halves[0], COMMIT)
    end = life.broker.store.max_offset
    life.end(halves[1], COMMIT)
    life.end(halves[2], ROLLBACK)
    later = life.half(3)
    truncate(life, end)
    assert life.paid() == [b"0"]
    assert not is_known(life)
    life.end(halves[1], ROLLBACK)
    life.end(halves[2], COMMIT)
    assert life.paid() == [b"0", b"2"]
    assert is_known(life)
    assert life.table.open == {}
    with pytest.raises(RequestError, match="Find prepared transaction message failed"):
        life.end(later, COMMIT)
    with pytest.raises(RequestError, match="another outcome: it was rolled back"):
        life.end(halves[1], COMMIT)
    life = life.killed(is_read_anew=True)
    assert life.table.open == {}


def test_an_end_that_was_on_its_way_when_the_log_was_truncated_is_told_so(life, monkeypatch):
    half = life.half(1)
    end = life.broker.store.max_offset
    life.half(2)
    read = life.broker.store.get

    def read_later(*place: Any, **how: Any) -> GetResult:
        return read(*place, **how)._replace(cold=lambda: read(*place, **how))

    monkeypatch.setattr(life.broker.store, "get", read_later)
    outcome = life.world.begin(life.ends.end(half.end(COMMIT), any_topic))
    truncate(life, end)
    life.world.settle()
    with pytest.raises(RequestError, match="end the transaction again"):
        outcome.get()
    assert life.paid() == []
    life.end(half, COMMIT)
    assert life.paid() == [b"1"]


def test_a_check_finds_what_is_left_after_the_log_was_truncated(life):
    life.half(1)
    end = life.broker.store.max_offset
    life.half(2)
    life.broker.clock.turn(100)
    life.check()
    assert [header.msg_id for header, _ in life.asked] == [key_of(1), key_of(2)]
    truncate(life, end)
    life.asked.clear()
    life.check()
    assert [header.msg_id for header, _ in life.asked] == [key_of(1)]
    life.answer(life.asked[0], COMMIT)
    assert life.paid() == [b"1"]
