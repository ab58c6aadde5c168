"""Raw bytes and truncation, killed at each call of the disk: all is as in a store that was never stopped.

A source, which is never stopped, is put into and truncated; a copy takes its log as bytes, is truncated
where the source was, and dies meanwhile. After each stop it goes on as a replica would: it takes back what
the source does not have, and asks for what it lacks. In the end its log, queues and index must be those of
the source, and of a third store that was given the source's log once, at one go.
"""

import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cometmq.codec.properties import encode_properties
from cometmq.codec.record import decode_record
from cometmq.store.appender import Put
from cometmq.store.disk import Buffer
from cometmq.store.message_store import MessageStore
from cometmq.store.record_walk import valid_records
from cometmq.store.settings import IndexSettings
from cometmq.store.stored_record import SECTOR_SIZE
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.replica import append_all, log_of
from tests.support.store_puts import SMALL, flush, make_put, open_store, read_all, run_jobs

FILE = 4096
ASYNC = replace(
    SMALL,
    commitlog_file_size=FILE,
    index=IndexSettings(slots=16, entries=21, answer_count_max=1000),
)
SYNC = replace(ASYNC, flush_sync=True)
TOPICS = ("orders", "payments")
KEYS = [f"k{number}" for number in range(4)]
ALL_TIME = 1 << 62


class Killed(BaseException):
    """The process is dead."""


class MortalDisk(FakeDisk):
    """A disk whose process dies at one of its calls; of a write that it dies at the first sectors are there."""

    def __init__(self, *, room: int | None = None) -> None:
        super().__init__(room=room)
        self.calls_left: int | None = None

    def _called(self, call: str) -> None:
        super()._called(call)
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                raise Killed(call)

    def pwrite(self, fd: int, piece: Buffer, offset: int) -> int:
        if self.calls_left == 0:
            self.calls_left = None
            end = (offset + len(piece) // 2) // SECTOR_SIZE * SECTOR_SIZE
            super().pwrite(fd, bytes(piece)[: max(end - offset, 0)], offset)
            self.calls_left = 0
        return super().pwrite(fd, piece, offset)

    def _copy(self) -> "MortalDisk":
        after = MortalDisk(room=self.room)
        after.used, after.clock, after.capacity = self.used, self.clock, self.capacity
        return after


def keyed_put(store: MessageStore, number: int, size: int) -> Put:
    """A message of some queue, with two keys, and a body of its own."""
    put = make_put(
        store,
        TOPICS[number % 2],
        number % 3,
        b"%d " % number + b"x" * size,
        tag=f"t{number % 4}",
    )
    properties = {"TAGS": f"t{number % 4}", "UNIQ_KEY": f"U{number}", "KEYS": KEYS[number % 4]}
    return (*put[:3], encode_properties(properties), *put[4:])


def keys_of(store: MessageStore) -> dict[tuple[str, str], list[int]]:
    """Where the index leads for each key, without the strange keys of a hash."""
    found: dict[tuple[str, str], list[int]] = {}
    for topic in TOPICS:
        for key in KEYS:
            search = store.index.search(topic, key, begin_ms=0, end_ms=ALL_TIME)
            found[topic, key] = []
            for offset in search.run().offsets:
                record = store.read_record(offset)
                assert record is not None, f"{key} leads to {offset}, where no message is"
                there = decode_record(record)
                if there.topic == topic and key in there.properties()["KEYS"].split():
                    found[topic, key].append(offset)
    return found


def queues_of(store: MessageStore) -> dict[tuple[str, int], tuple]:
    """Positions and entries of all queues that have a message, which must be whole."""
    found = {}
    for topic in TOPICS:
        for queue_id in range(3):
            queue = store.queue(topic, queue_id)
            if queue is not None and queue.max_offset:
                entries = store.entries(queue, queue.min_offset, queue.max_offset)
                assert len(entries) == queue.max_offset - queue.min_offset
                assert queue.next_offset == queue.max_offset
                offsets = [record.queue_offset for record in read_all(store, topic, queue_id)]
                assert offsets == list(range(queue.min_offset, queue.max_offset))
                found[topic, queue_id] = (queue.min_offset, queue.max_offset, entries)
    return found


def starts_of(store: MessageStore) -> list[int]:
    """Where the records of a log begin."""
    content, starts = log_of(store), []
    for at in range(0, len(content), FILE):
        records, _, _ = valid_records(content[at : at + FILE], at)
        starts += [record.physical_offset for record in records]
    return starts


def entries_of_index(store: MessageStore) -> int:
    store.tick()
    return sum(file.header.index_count - 1 for file in store.index.files)


def assert_same(one: MessageStore, other: MessageStore) -> None:
    assert log_of(one) == log_of(other)
    assert queues_of(one) == queues_of(other)
    assert keys_of(one) == keys_of(other)
    assert entries_of_index(one) == entries_of_index(other)


@dataclass
class Pair:
    """The source, and the copy that dies."""

    is_sync: bool = False
    clock: HandClock = field(default_factory=HandClock)
    disk: MortalDisk = field(default_factory=MortalDisk)
    number: int = 0
    truncated_to: int | None = None
    deaths: int = 0
    chance: random.Random | None = None

    def __post_init__(self) -> None:
        self.settings = SYNC if self.is_sync else ASYNC
        self.source = open_store(settings=ASYNC, disk=FakeDisk(), clock=self.clock)
        self.copy = open_store(settings=self.settings, disk=self.disk, clock=self.clock)

    def put(self, count: int, size: int) -> None:
        self.clock.turn(0.002)
        puts = []
        for _ in range(count):
            puts.append(keyed_put(self.source, self.number, size))
            self.number += 1
        self.source.put_many(puts)
        self.source.dispatch_pending()

    def truncate(self, part: int) -> None:
        """Take back the source's log from a record on that is `part` of 100 of it away from its end."""
        starts = starts_of(self.source)
        if starts:
            start = starts[-1 - (len(starts) - 1) * part // 100]
            self.source.truncate(start)
            self.truncated_to = min(
                start if self.truncated_to is None else self.truncated_to, start
            )
            self.number += 100  # What comes now has other keys, and goes to other queues.

    def follow(self, size_max: int) -> None:
        """What a replica does: take back, ask for more."""
        if self.truncated_to is not None and self.copy.max_offset > self.truncated_to:
            self.copy.truncate(self.truncated_to)
        self.truncated_to = None
        offset = self.copy.max_offset
        content = self.source.read_log(offset, size_max)
        held = b""
        while content is not None:
            held += content
            taken = append_all(self.copy, offset, held)
            held = held[taken - offset :]
            offset = taken
            self.copy.dispatch_pending()
            content = self.source.read_log(offset + len(held), size_max)

    def jobs(self, ticks: int) -> None:
        self.clock.turn(2)
        run_jobs(self.copy, ticks=ticks)

    def until_it_dies(self, do, *arguments: int) -> None:
        """Do something; where the process dies of it open the copy again, and go on."""
        try:
            do(*arguments)
        except Killed:
            self.open_again()

    def open_again(self) -> None:
        """Open what the stop left; that stop may come again while it opens."""
        self.deaths += 1
        while True:
            before = self.disk
            after = before.kill() if self.chance is None else before.power_cut(self.chance)
            assert isinstance(after, MortalDisk)
            self.disk = after
            if before.calls_left is not None and before.calls_left > 0:
                self.disk.calls_left = before.calls_left
            try:
                self.copy = open_store(settings=self.settings, disk=self.disk, clock=self.clock)
            except Killed:
                continue
            assert self.copy.refusal is None
            return

    def compare(self) -> None:
        """Let both come to their ends, without any more deaths."""
        self.disk.calls_left = None
        self.put(1, 1)  # A blank end of a file comes with the record behind it.
        self.follow(1000)
        flush(self.copy)
        assert self.copy.positions.dispatched == self.copy.max_offset
        once = open_store(settings=ASYNC, disk=FakeDisk(), clock=self.clock)
        content = log_of(self.source)
        assert append_all(once, 0, content) == len(content)
        once.dispatch_pending()
        assert_same(self.copy, self.source)
        assert_same(self.copy, once)
        self.copy.close()
        again = open_store(settings=self.settings, disk=self.disk.kill(), clock=self.clock)
        assert_same(again, once)


def a_history(pair: Pair) -> None:
    """Files roll, checkpoints are made, the log is truncated into an older file, and other records follow."""
    pair.put(9, 300)
    pair.follow(700)
    pair.jobs(3)
    pair.put(20, 150)
    pair.follow(5_000)
    pair.truncate(70)
    pair.put(8, 200)
    pair.follow(900)
    pair.jobs(1)
    pair.truncate(20)
    pair.follow(900)
    pair.put(12, 250)
    pair.follow(3_000)
    pair.jobs(2)


@pytest.mark.parametrize(("is_sync", "is_power"), [(False, False), (True, True)])
def test_truncations_of_replication_at_each_call_of_the_disk(is_sync, is_power):
    number = 0
    while True:
        pair = Pair(is_sync=is_sync, chance=random.Random(number) if is_power else None)
        pair.disk.calls_left = number
        try:
            a_history(pair)
        except Killed:
            pair.open_again()
        pair.compare()
        if not pair.deaths:
            break
        number += 1
    assert number > 150


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 12), st.sampled_from([1, 90, 900])),
        st.tuples(st.just("follow"), st.integers(1, 9_000), st.just(0)),
        st.tuples(st.just("truncate"), st.integers(0, 100), st.just(0)),
        st.tuples(st.just("jobs"), st.integers(1, 3), st.just(0)),
        st.tuples(st.just("flush"), st.just(0), st.just(0)),
        st.tuples(st.just("dies"), st.integers(0, 60), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.booleans(), st.one_of(st.none(), st.integers(0, 1 << 30)))
def test_truncations_of_replication_in_any_order_with_any_stops(steps, is_sync, seed):
    pair = Pair(is_sync=is_sync, chance=None if seed is None else random.Random(seed))
    for kind, first, second in steps:
        if kind == "dies":
            pair.disk.calls_left = first
        elif kind == "put":
            pair.put(first, second)
        elif kind == "truncate":
            pair.truncate(first)
        elif kind == "flush":
            pair.until_it_dies(lambda: flush(pair.copy))
        else:
            pair.until_it_dies(pair.follow if kind == "follow" else pair.jobs, first)
    pair.compare()
