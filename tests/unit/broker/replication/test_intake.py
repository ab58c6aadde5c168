"""Bytes of a master's log on their way into a store: where they are received, and what waits of them."""

from __future__ import annotations

import random

import pytest

from cometmq.broker.replication.master_link import first_difference
from cometmq.broker.replication.received_log import (
    PIECE_SIZE,
    PIECE_SIZE_MIN,
    ROOM_SIZE,
    LogIntake,
)
from cometmq.codec.record import PHYSICAL_OFFSET_AT, blank_tail
from cometmq.model.errors import CopyingStopped
from cometmq.store.message_store import MessageStore
from cometmq.store.settings import StoreSettings
from tests.support.replica import log_of
from tests.support.store_puts import bodies_of, flush, make_put, open_store

FILE_SIZE = 16 << 20
SETTINGS = StoreSettings(commitlog_file_size=FILE_SIZE)
SYNC = StoreSettings(commitlog_file_size=FILE_SIZE, flush_sync=True)


def log_with(path, bodies: list[bytes]) -> bytes:
    store = open_store(path, SETTINGS)
    for at in range(0, len(bodies), 100):
        store.put_many([make_put(store, body=body) for body in bodies[at : at + 100]])
        store.dispatch_pending()
    log = log_of(store)
    store.close()
    return log


def receive(intake: LogIntake, log: bytes, size: int) -> None:
    """As a transport does it: what is there is put where there is space."""
    at = intake.end
    space = intake.space(min(size, len(log) - at))
    assert len(space)
    space[:] = log[at : at + len(space)]
    intake.took(at, space)


def bring(intake: LogIntake, store: MessageStore, log: bytes, sizes: list[int]) -> None:
    """All of a log, in reads of these sizes, each shown at once where the store's settings let it."""
    number = 0
    while store.max_offset < len(log):
        while intake.end < len(log) and not intake.is_full:
            receive(intake, log, sizes[number % len(sizes)])
            number += 1
            if intake.is_due and number % 3 == 0:
                break
        intake.append()
        store.dispatch_pending()


@pytest.mark.parametrize("sizes", [[100_000], [524_288], [1, 70_000, 13], [ROOM_SIZE]])
def test_the_log_comes_whole_in_reads_of_any_size(tmp_path, sizes):
    chance = random.Random(8)
    bodies = [chance.randbytes(chance.choice((0, 90, 1_000, 30_000))) for _ in range(400)]
    log = log_with(tmp_path / "m", bodies)
    copy = open_store(tmp_path / "s", SETTINGS)
    bring(LogIntake(copy, 0), copy, log, sizes)
    assert log_of(copy) == log
    assert bodies_of(copy) == bodies


def test_what_waits_for_the_device_stays_as_it_was_received(tmp_path):
    bodies = [b"%06d" % number * 20 for number in range(40_000)]
    log = log_with(tmp_path / "m", bodies)
    assert len(log) > 3 * ROOM_SIZE
    copy = open_store(tmp_path / "s", SYNC)
    bring(LogIntake(copy, 0), copy, log, [300_000])
    assert bodies_of(copy) == []
    flush(copy)
    copy.dispatch_pending()
    assert bodies_of(copy) == bodies


def test_a_large_record_gets_room_and_gives_it_back(tmp_path):
    bodies = [bytes(3 << 20), b"small", bytes(300), b"last"]
    log = log_with(tmp_path / "m", bodies)
    copy = open_store(tmp_path / "s", SETTINGS)
    intake = LogIntake(copy, 0)
    bring(intake, copy, log, [200_000])
    assert bodies_of(copy) == bodies
    assert memoryview(intake.space(100).obj).nbytes == ROOM_SIZE


def test_a_blank_end_of_any_size_is_never_held(tmp_path):
    """One that a repair wrote of damaged bytes: four times the longest record that is waited for."""
    size = 72 << 20
    log = log_with(tmp_path / "m", [b"first", b"second"])
    first = len(log) // 2  # "second" has a byte more.
    second = bytearray(log[first:])
    second[PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8] = size.to_bytes(8)
    blank = blank_tail(size - first)
    log = log[:first] + blank + b"filling!" * ((size - first) // 8)
    log = log[:size] + bytes(second)
    copy = open_store(tmp_path / "s", StoreSettings(commitlog_file_size=size))
    intake, most, rooms = LogIntake(copy, 0), 0, set()
    while copy.max_offset < len(log):
        while intake.end < len(log) and not intake.is_full:
            receive(intake, log, 300_000)
            rooms.add(memoryview(intake.space(1).obj).nbytes)
        most = max(most, intake.size)
        intake.append()
        copy.dispatch_pending()
    assert most < ROOM_SIZE + 300_000
    assert max(rooms) < ROOM_SIZE + 300_000
    assert log_of(copy) == log
    assert bodies_of(copy) == [b"first", b"second"]


def test_a_transport_that_gives_what_it_was_not_to_read_loses_nothing(tmp_path):
    bodies = [bytes([number]) * 90_000 for number in range(40)]
    log = log_with(tmp_path / "m", bodies)
    copy = open_store(tmp_path / "s", SETTINGS)
    intake = LogIntake(copy, 0)
    while intake.end < len(log):
        receive(intake, log, 100_000)
    assert intake.is_full
    while copy.max_offset < len(log):
        intake.append()
        copy.dispatch_pending()
    assert bodies_of(copy) == bodies


def test_bytes_from_elsewhere_are_taken_too(tmp_path):
    log = log_with(tmp_path / "m", [b"first", b"second"])
    copy = open_store(tmp_path / "s", SETTINGS)
    intake = LogIntake(copy, 0)
    for at in range(0, len(log), 50):
        intake.took(at, memoryview(log[at : at + 50]))
    intake.append()
    assert log_of(copy) == log


def test_a_size_that_no_record_has_stops_it(tmp_path):
    log = log_with(tmp_path / "m", [b"first"])
    intake = LogIntake(open_store(tmp_path / "s", SETTINGS), 0)
    intake.took(0, memoryview(log + (18 << 20).to_bytes(4) + log[4:60]))
    with pytest.raises(CopyingStopped):
        intake.append()


def test_a_piece_that_takes_long_is_followed_by_smaller_ones_until_they_are_quick_again(
    tmp_path,
):
    log = log_with(tmp_path / "m", [bytes(90)] * 20_000)
    intake = LogIntake(copy := open_store(tmp_path / "s", SETTINGS), 0)

    def appended(seconds: float) -> int:
        while intake.end < len(log) and not intake.is_full:
            receive(intake, log, 500_000)
        before = copy.max_offset
        intake.append()
        copy.dispatch_pending()
        intake.took_time(seconds)
        return copy.max_offset - before

    sizes = [
        appended(seconds)
        for seconds in (0.001, 0.001, 0.001, 0.1, 0.1, 0.1, 0.1, 0.005, 0.001, 0)
    ]
    least, most = PIECE_SIZE_MIN, PIECE_SIZE
    wanted = [1, 2, 4, 8, 4, 2, 1, 1, 1, 2]
    assert all(
        0 <= min(least * times, most) - size < 300
        for size, times in zip(sizes, wanted, strict=True)
    )


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_the_first_byte_that_differs_is_found_wherever_it_is(size):
    ours = memoryview(bytes(size))
    for place in range(size):
        for behind in (0, 1):
            theirs = memoryview(bytes(place) + b"x" + bytes([behind]) * (size - place - 1))
            assert first_difference(ours, theirs) == place
