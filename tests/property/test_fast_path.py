"""Fast path == slow path: what is taken as columns is stored and answered, byte for byte, as what becomes commands.

The slow path is the oracle: the same broker twice, of which one has no fast path. Reads are of any shape: sends that are plain
or nearly, with missing fields, doubled properties and values that mean nothing, damaged and cut frames, others between.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from cometmq.broker.features import FEATURES
from cometmq.broker.parts import Parts
from cometmq.broker.send.fast_path import SendIntake
from cometmq.broker.send.requests.big_batches import PIECE_COUNT_MAX
from cometmq.broker.send.requests.sends import SendHandler
from cometmq.broker.send.sends import Sends
from cometmq.broker.tables import lanes
from cometmq.broker.transactions import feature, table
from cometmq.broker.transactions.feature import Transactions
from cometmq.broker.transactions.prepared_messages import TransactionKey
from cometmq.broker.transactions.table import PreparedCopy
from cometmq.codec.queue_entry import QueueEntry
from cometmq.codec.remoting import Command, encode_command
from cometmq.kernel import SendBatch, take_sends
from cometmq.net.answer import Answer
from cometmq.net.peer import HEADER_SIZE_MAX
from cometmq.net.server import Server
from cometmq.net.virtual_loop import VirtualLoop
from cometmq.store.consume_queue import ConsumeQueue
from tests.support.hand_clock import HandClock
from tests.support.hand_connection import connected_to
from tests.support.send_frames import FORMS, KEY, SENDS, Sent, frame_of, in_words, item_of
from tests.support.tables import answering
from tests.support.twin_turns import ASKED, twin_timeout
from tests.unit.broker.parts_by_hand import HOST, load_tables, parts_by_hand, unique_ids

pytestmark = [
    pytest.mark.timeout(600 + twin_timeout()),
    pytest.mark.slow,
    pytest.mark.compiled,
]
# Reads that are compared, some turns of them at once, and frames of which they are made: to draw one takes longer than to handle it.
READS = ASKED or 20_000
TURNS, FRAME_COUNT = 10, max(800, READS // 25)
TOPICS = ("Orders", "Bills", "T" * 100, "%RETRY%GID_orders")
ASK = 9001
CONNECTIONS = 3
# Of what was stored earlier so much is compared again: more than a turn brings.
LAST_ENTRIES, LAST_FILES = 64, 2


class House:
    """A broker's sends behind a server without sockets."""

    def __init__(self, parts: Parts, clock: HandClock, *, is_fast: bool) -> None:
        load_tables(parts)
        self.store, self.taken, self.reads = parts.store, 0, 0
        made = [make(parts) for make in FEATURES]
        self.transactions = next(each for each in made if isinstance(each, Transactions))
        self.in_force = parts.in_force
        handler = SendHandler(Sends(parts, unique_ids(clock)), parts)
        self.counters, self.lanes = parts.counters, parts.lanes
        answers: dict[int, Any] = {**handler.answers, ASK: lambda _command, _peer: Answer(0)}
        dispatcher = answering(answers)
        assert dispatcher.intake is handler.intake
        if not is_fast:
            dispatcher.intake = None
        else:
            assert handler.intake is not None
            self.count_taken(handler.intake)
        self.dispatcher = dispatcher
        self.server = Server(dispatcher, clock)
        connected = [
            connected_to(self.server, f"127.0.0.{1 + number}", 5000)
            for number in range(CONNECTIONS)
        ]
        self.peers, self.wires = zip(*connected, strict=True)
        self.open_lanes(parts)

    def open_lanes(self, parts: Parts) -> None:
        for name in TOPICS:
            topic = parts.topics.ensure(name, queues=4, perm=6)
            for queue_id in range(3):
                self.lanes.open(topic, queue_id, is_kept=True)

    def count_taken(self, intake: SendIntake) -> None:
        """Count what is taken as columns."""
        handle = intake.handle

        def counted() -> bool:
            self.taken += intake.count
            return handle()

        intake.handle = counted  # type: ignore[method-assign]

    async def turn(self, reads: list[tuple[int, bytes]], *, is_together: bool = False) -> None:
        if is_together:  # No read is handled as it comes, though there was one a turn lately.
            self.server.turn.lone_reads = self.server.turn._lone_turns = 0
        for number, data in reads:
            self.reads += 1
            self.peers[number].data_received(data)
        for _ in range(8):  # What is left of a turn goes on in the next.
            await asyncio.sleep(0)

    def last_entries(self, queue: ConsumeQueue) -> list[QueueEntry]:
        """The last entries of a queue; when they leave its tail for a file, neither path promises."""
        first = max(queue.max_offset - LAST_ENTRIES, queue.min_offset)
        return self.store.entries(queue, first, LAST_ENTRIES)

    def seen(self, start: int) -> list[object]:
        """All that there is to see of it, from a physical offset on."""
        self.store.index.tick()
        end = self.store.max_offset
        log = b"".join(
            bytes(
                file.read(max(start, file.start), min(end, file.end) - max(start, file.start))
            )
            for file in self.store._log.files_between(start, end)
        )
        queues = [
            (
                queue.topic,
                queue.queue_id,
                queue.next_offset,
                queue.max_offset,
                self.last_entries(queue),
            )
            for queue in self.store._queues
        ]
        index = [
            Path(file.path).read_bytes() if Path(file.path).exists() else b""
            for file in self.store.index.files[-LAST_FILES:]
        ]
        counts = (
            self.counters.put_failed,
            *(
                (
                    queue.topic,
                    queue.queue_id,
                    queue.tally.count,
                    queue.tally.size,
                    queue.tally.sizes,
                )
                for queue in self.store._queues
                if queue.tally is not None
            ),
        )
        return [end, log, sorted(queues), index, self.store.index.mark()[1], counts]


class Two(NamedTuple):
    """The same broker twice: one that takes columns, and one that does not."""

    fast: House
    slow: House
    loop: asyncio.Runner


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> Iterator[Two]:
    with (
        asyncio.Runner(loop_factory=VirtualLoop) as loop,
        houses(tmp_path_factory, loop, is_fast=True) as fast,
        houses(tmp_path_factory, loop, is_fast=False) as slow,
    ):
        yield Two(fast, slow, loop)
        assert fast.taken >= fast.reads // 20, "the fast path was taken"
        assert not slow.taken


class houses:  # noqa: N801  Used as a function.
    """A house over a store of its own, which is closed in the end."""

    def __init__(
        self, factory: Any, loop: asyncio.Runner, *, is_fast: bool, **given: Any
    ) -> None:
        self.clock = HandClock()
        self.context = parts_by_hand(
            factory.mktemp("columns"), self.clock, is_topic_auto_created=False,
            commitlog_file_size=1 << 16, index_slots=50, index_entries=4000, **given,
        )  # fmt: skip
        self.loop, self.is_fast = loop, is_fast

    def __enter__(self) -> House:
        parts = self.context.__enter__()
        self.topics = parts.topics

        async def begin() -> House:
            house = House(parts, self.clock, is_fast=self.is_fast)
            for name in TOPICS:
                saving = self.topics.saving_of(name)
                if saving is not None:
                    await saving
            return house

        return self.loop.run(begin())

    def __exit__(self, *error: Any) -> None:
        self.loop.run(self.topics.saver.close())
        self.context.__exit__(*error)


def damaged(frame: bytes, at: int, garbage: bytes, removed: int) -> bytes:
    """A frame whose header has other bytes at a place."""
    kind, size = frame[4], int.from_bytes(frame[5:8])
    header, body = frame[8 : 8 + size], frame[8 + size :]
    at %= len(header)
    header = header[:at] + garbage + header[at + removed :]
    length = 4 + len(header) + len(body)
    return length.to_bytes(4) + bytes((kind,)) + len(header).to_bytes(3) + header + body


# A frame in between that is none of a send: unreadable, unknown to the broker, one that it answers, half an answer.
OTHERS = st.sampled_from([
    b"\0\0\0\x08\0\0\0\x04{\"a}",
    b"\0\0\0\x06\x09\0\0\x02{}",
    b"\0\0\0\x05\0\0\0\x63{",
    encode_command(Command(9999, opaque=5)),
    encode_command(Command(ASK, opaque=6)),
    encode_command(Command(0, 1, 7)),
])  # fmt: skip
WHOLE = st.builds(frame_of, SENDS, FORMS)
# A header in which some bytes are others; its frame is whole.
DAMAGED = st.builds(
    damaged, WHOLE, st.integers(0, 500), st.binary(max_size=3), st.integers(0, 3)
)
FRAMES = st.one_of(WHOLE, WHOLE, WHOLE, DAMAGED, OTHERS)
LONG = Sent(
    310, 0, 9,
    {"a": "p", "b": "Orders", "e": "0", "f": "0", "g": "1", "h": "0", "i": f"UNIQ_KEY\1{KEY}\2"},
    b"x" * 70_000,
)  # fmt: skip


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Bytes in pieces, as the network may bring them."""
    ends = sorted({place % (len(data) + 1) for place in places} | {len(data)})
    return [
        data[start:end] for start, end in zip([0, *ends], ends, strict=False) if start < end
    ]


def check(two: Two, start: int) -> None:
    assert two.fast.seen(start) == two.slow.seen(start)
    for mine, other in zip(two.fast.wires, two.slow.wires, strict=True):
        assert Counter(mine.frames()) == Counter(other.frames())


@pytest.fixture(scope="module")
def frames(two: Two) -> list[bytes]:
    """Drawn frames, and of those that the fast path takes so many again that it takes a good part in every draw."""
    drawn: list[bytes] = []

    @given(FRAMES)
    @settings(max_examples=FRAME_COUNT, deadline=None, phases=[Phase.generate], database=None)
    def draw(frame: bytes) -> None:
        drawn.append(frame)

    draw()
    plain = [frame for frame in drawn if taken_of(two.fast, frame)]
    return drawn + random.choices(plain, k=len(drawn) // 4)


def test_reads_of_any_shape_are_stored_and_answered_alike(two, frames):
    chance, goal = random.Random(), two.fast.reads + READS
    while two.fast.reads < goal:
        start, read = two.fast.store.max_offset, []
        for _ in range(TURNS):
            if chance.random() < 0.4:
                read.append([pieces_of(frames, chance, 8)])
                read_alone(two, *read[-1])
            else:
                lines: list[list[bytes]] = [[] for _ in two.fast.peers]
                for _ in range(chance.randint(1, 6)):
                    lines[chance.randrange(CONNECTIONS)] += pieces_of(frames, chance, 4)
                read.append(lines)
                read_together(two, lines)
        try:
            check(two, start)
        except AssertionError:
            print(read)
            raise


def pieces_of(frames: list[bytes], chance: random.Random, count_max: int) -> list[bytes]:
    """Some frames, cut anywhere."""
    data = b"".join(chance.choices(frames, k=chance.randint(1, count_max)))
    return cut(data, [chance.randrange(4000) for _ in range(chance.choice([0, 0, 1, 2, 3]))])


def read_alone(two: Two, pieces: list[bytes]) -> None:
    """Each in a turn of its own."""
    for piece in pieces:
        for house in (two.fast, two.slow):
            two.loop.run(house.turn([(0, piece)]))


def read_together(two: Two, lines: list[list[bytes]]) -> None:
    """In each turn one of each connection. What is taken is stored first; so the slow one is given that first."""
    halves = [b""] * CONNECTIONS
    for pieces in zip_longest(*lines, fillvalue=b""):
        first, behind = [], []
        for number, piece in enumerate(pieces):
            whole, old = halves[number] + piece, len(halves[number])
            taken = max(taken_of(two.fast, whole) - old, 0) if piece else 0
            first.append((number, piece[:taken]))
            behind.append((number, piece[taken:]))
            halves[number] = half_of(whole)
        for house, reads in (
            (two.fast, enumerate(pieces)),
            (two.slow, first),
            (two.slow, behind),
        ):
            some = [(number, data) for number, data in reads if data]
            two.loop.run(house.turn(some, is_together=True))


def taken_of(house: House, data: bytes) -> int:
    """How much of a connection's bytes the broker takes as columns."""
    return take_sends(
        SendBatch(b""),
        data,
        0,
        99,
        HOST,
        house.lanes.straight,
        (1 << 22, 1 << 24, HEADER_SIZE_MAX, PIECE_COUNT_MAX),
    )


def half_of(data: bytes) -> bytes:
    """What of some bytes is no whole frame."""
    while len(data) >= 8 and 4 + int.from_bytes(data[:4]) <= len(data):
        data = data[4 + int.from_bytes(data[:4]) :]
    return data


PLAIN = Sent(
    310, 0, 7,
    {"a": "p", "b": "Orders", "e": "1", "f": "0", "g": "1", "h": "0", "i": f"UNIQ_KEY\1{KEY}\2WAIT\1true\2"},
    b"body",
)  # fmt: skip


FIELDS = PLAIN.fields | {
    "c": "TBW102",
    "d": "4",
    "j": "0",
    "k": "false",
    "l": "16",
    "m": "false",
}
BATCH = item_of(b"one", 0, f"UNIQ_KEY\1{KEY}\2KEYS\1a\2", (0, 0, 0))
DOUBLED = (
    "KEYS\1a\2KEYS\1b\2",
    "n\0011\2x\1y\2n\0012\2",
    "TAGS\1a\2TAGS\1b\2",
    f"UNIQ_KEY\1{KEY}0\2",
)
# What a feature of the broker treats in a way of its own: fast paths must leave all of it.
SPECIAL = {
    "DELAY": "3", "TIMER_DELAY_SEC": "5", "TIMER_DELAY_MS": "5000", "TIMER_DELIVER_MS": "1800000000000", "TRAN_MSG": "true",
    "POP_CK": "1 2 3", "INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "1", "INNER_NUM": "2",
}  # fmt: skip
ODD = [
    *({letter: None} for letter in FIELDS),
    *({letter: value} for letter in "defghjkl" for value in ("", "four", "maybe", "-1", "1.5", "True", "99999999999")),
    *({"i": PLAIN.fields["i"] + doubled} for doubled in DOUBLED),
    *({"i": f"{PLAIN.fields['i']}{name}\1{value}\2"} for name, value in SPECIAL.items()),
    {"i": f"UNIQ_KEY\1{KEY}\2WAIT\1false\2"},
    {"i": "UNIQ_KEY\1\2TAGS\1a\2"}, {"i": f"XUNIQ_KEY\1{KEY}\2UNIQ_KEY\1A\2"}, {"j": "3"}, {"i": "WAIT\1true\2"},
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_a_send_that_is_odd_in_one_thing_is_the_same_on_either_path(two, odd):
    """Refused on both, with the same words, or stored on both; as each code and in either form."""
    fields = {name: value for name, value in (FIELDS | odd).items() if value is not None}
    plain = Sent(310, 0, 1, fields, b"body")
    sends = [plain, in_words(plain), plain._replace(code=320, body=BATCH)]
    worked(two, [frame_of(each, form) for each in sends for form in ("json", "binary")])


WAITING = {
    "level 2": "DELAY\0012\2",
    "level 17": "DELAY\00117\2",
    "half": "TRAN_MSG\1true\2PGROUP\1GID_orders\2",
    "in an hour": "TIMER_DELAY_SEC\0013600\2",
    "in 12,345 ms": "TIMER_DELAY_MS\00112345\2",
    "at a time": f"TIMER_DELIVER_MS\1{HandClock().now_ms() + 86_400_000}\2",
}


def waiting_frames(waits: str, topic: str) -> list[bytes]:
    """Sends that wait in a topic of the broker, in either form and, if half messages, with and without their bit."""
    block = WAITING[waits] + PLAIN.fields["i"]
    bits = ["0", "4"] if waits == "half" else ["0"] * 2
    fields = PLAIN.fields | {"i": block, "b": topic, "e": "2"}
    sends = [PLAIN._replace(opaque=n, fields=fields | {"f": bits[n % 2]}) for n in range(4)]
    return [frame_of(send, form) for send in sends for form in ("json", "binary")]


@pytest.mark.parametrize("topic", ["Orders", "T" * 100])
@pytest.mark.parametrize("waits", WAITING)
def test_messages_that_wait_are_taken_once_one_like_them_was_stored(two, waits, topic):
    frames = waiting_frames(waits, topic)
    worked(two, frames[:1])
    taken = two.fast.taken
    worked(two, frames)
    assert two.fast.taken - taken == len(frames)
    two.fast.lanes.forget(topic)
    taken = two.fast.taken
    worked(two, frames[:1])
    assert two.fast.taken == taken, "its checks are made again"


def test_lanes_of_what_waits_are_bounded(two, monkeypatch):
    monkeypatch.setattr(lanes, "WAITING_MAX", 3)
    for level in range(1, 12):
        block = f"DELAY\1{level}\2{PLAIN.fields['i']}"
        for topic in ("Orders", "Bills"):
            fields = PLAIN.fields | {"i": block, "b": topic, "e": "1"}
            worked(two, [frame_of(PLAIN._replace(fields=fields), "json")] * 3)
    kept = [place for places in two.fast.lanes._opened.values() for place in places]
    assert 0 < sum(place >> 32 > 0 for place in kept) <= 3


def delays_counted(house: House) -> list[int]:
    times = house.counters.events.times_of("rocketmq_delay_message_latency_seconds")
    return times["Orders",].counts


def test_timed_messages_are_refused_from_the_moment_on_when_they_may_wait_less_long(two):
    frames = waiting_frames("in an hour", "Orders")
    worked(two, frames)
    for limit in ("3599", "3600"):
        start = two.fast.store.max_offset
        for house in (two.fast, two.slow):
            house.in_force.change({"timerMaxDelaySec": limit})
        worked(two, frames[:1])  # A change of settings may have closed the lanes.
        taken = two.fast.taken
        worked(two, frames)
        is_refused = limit == "3599"
        assert (two.fast.store.max_offset == start) == is_refused
        assert two.fast.taken - taken == (0 if is_refused else len(frames))


def test_delays_are_counted_alike_on_either_path(two):
    worked(two, waiting_frames("in an hour", "Orders")[:1])
    before = [delays_counted(house) for house in (two.fast, two.slow)]
    worked(two, waiting_frames("in an hour", "Orders"))
    after = [delays_counted(house) for house in (two.fast, two.slow)]
    assert sum(after[0]) - sum(before[0]) == sum(after[1]) - sum(before[1]) == 8


@pytest.mark.parametrize(
    "more",
    [
        "TIMER_OUT_MS\0011\2", "TIMER_ROLL_TIMES\0011\2", "DELAY\0012\2", "TRAN_MSG\1true\2", "TIMER_DELAY_MS\1500\2",
        "REAL_TOPIC\1Bills\2", "TIMER_DEL_UNIQKEY\1Orders+A\2",
    ],
)  # fmt: skip
def test_a_timed_message_with_anything_special_is_the_same_on_either_path(two, more):
    worked(two, waiting_frames("in an hour", "Orders"))
    taken = two.fast.taken
    for text in ("3600", "0", "-5", "03600", "5s", "9" * 18, "9" * 30):
        block = f"TIMER_DELAY_SEC\1{text}\2{PLAIN.fields['i']}"
        plain = PLAIN._replace(fields=PLAIN.fields | {"i": block, "e": "2"})
        special = PLAIN._replace(fields=PLAIN.fields | {"i": more + block, "e": "2"})
        for each in (plain, special, plain):
            worked(two, [frame_of(each, "json")])
    assert 0 < two.fast.taken - taken <= 2, "only those with nothing special"


@pytest.mark.parametrize(
    "name", ["TIMER_DELAY_MS", "TIMER_DEL_UNIQKEY", "INNER_MULTI_DISPATCH"]
)
def test_a_property_is_special_by_its_name_and_not_by_its_value(two, name):
    block = f"a\1{name}\2b{name}\0015\2{PLAIN.fields['i']}"
    frame = frame_of(PLAIN._replace(fields=PLAIN.fields | {"i": block}), "json")
    worked(two, [frame])
    taken = two.fast.taken
    worked(two, [frame])
    assert two.fast.taken - taken == 1


def test_half_messages_are_refused_from_the_moment_on_when_they_are_not_wanted(two):
    frames = waiting_frames("half", "Orders")
    worked(two, frames)
    for is_refused in ("true", "false"):
        start, taken = two.fast.store.max_offset, two.fast.taken
        for house in (two.fast, two.slow):
            house.in_force.change({"rejectTransactionMessage": is_refused})
        worked(two, frames[:2])
        assert (two.fast.store.max_offset == start) == (is_refused == "true")
        assert two.fast.taken - taken <= 1


def test_half_messages_are_refused_when_too_many_transactions_are_open(two, monkeypatch):
    frames = waiting_frames("half", "Orders")
    worked(two, frames)
    for module in (feature, table):
        monkeypatch.setattr(module, "OPEN_MAX", 0)
    key = TransactionKey("k", "g", "Orders")
    for house in (two.fast, two.slow):
        house.transactions._table.feed(PreparedCopy(1 << 40, key, 0, 0))
    start = two.fast.store.max_offset
    worked(two, frames)
    assert two.fast.store.max_offset == start


def test_a_record_that_cannot_be_loses_itself_alone(two):
    """It is longer than a log file; those before and behind it are stored."""
    start = two.fast.store.max_offset
    frames = [frame_of(PLAIN._replace(opaque=number), "json") for number in range(6)]
    frames.insert(3, frame_of(LONG, "json"))
    failed = two.fast.counters.put_failed
    for house in (two.fast, two.slow):
        two.loop.run(house.turn([(0, b"".join(frames))]))
    assert two.fast.counters.put_failed == failed + 1
    assert two.fast.store.max_offset > start
    check(two, start)


def test_a_batch_that_does_not_fit_goes_on_in_the_next_log_file(two):
    start, taken = two.fast.store.max_offset, two.fast.taken
    frames = [
        frame_of(PLAIN._replace(opaque=number, body=b"x" * 3000), "json")
        for number in range(60)
    ]
    for house in (two.fast, two.slow):
        two.loop.run(house.turn([(0, b"".join(frames[:30])), (1, b"".join(frames[30:]))]))
    assert two.fast.store.max_offset - start > 2 << 16
    assert two.fast.taken - taken == len(frames)
    check(two, start)


def test_a_store_that_takes_nothing_says_so_to_each(two):
    frames = [frame_of(PLAIN._replace(opaque=number), "binary") for number in range(3)]
    start = two.fast.store.max_offset
    for house in (two.fast, two.slow):
        house.store.refuse_for_now("it is looked after")
        two.loop.run(house.turn([(0, b"".join(frames))]))
        house.store.take_again()
    assert two.fast.store.max_offset == start
    check(two, start)


def batch_of(messages: int, opaque: int, *, size: int = 100) -> bytes:
    """The frame of a batch, as the official client writes it."""
    items = [
        item_of(b"%06d" % number + b"x" * (size - 6), 0, f"UNIQ_KEY\1A{number}\2", (0, 0, 0))
        for number in range(messages)
    ]
    fields = PLAIN.fields | {"m": "true"}
    return frame_of(Sent(320, 0, opaque, fields, b"".join(items)), "json")


def worked(two: Two, frames: list[bytes]) -> list[int]:
    """What both do with the frames of a connection; the physical offsets in the answers' message ids."""
    start = two.fast.store.max_offset
    for house in (two.fast, two.slow):
        two.loop.run(house.turn([(0, b"".join(frames))]))
    assert two.fast.seen(start) == two.slow.seen(start)
    mine, other = two.fast.wires[0].frames(), two.slow.wires[0].frames()
    assert mine == other, "in order, too"
    ids = [json.loads(frame[8:]).get("extFields", {}).get("msgId", "") for frame in mine]
    return [int(each[-16:], 16) for answered in ids for each in answered.split(",") if each]


def test_a_batch_is_taken_and_answered_as_one_with_all_its_ids(two):
    taken = two.fast.taken
    single = frame_of(PLAIN, "json")
    offsets = worked(two, [single, batch_of(32, 1), single, batch_of(1, 2), batch_of(2, 3)])
    assert two.fast.taken - taken == 5
    assert len(offsets) == len(set(offsets)) == 37


def test_a_batch_lies_in_one_log_file(two):
    size, taken = 1 << 16, two.fast.taken
    frames = [batch_of(20, opaque, size=1_000) for opaque in range(9)]
    offsets = worked(two, frames)
    assert two.fast.taken - taken == 9
    files = {offset // size for offset in offsets}
    assert len(files) > 2
    for number in range(9):
        one = offsets[20 * number : 20 * number + 20]
        assert len({offset // size for offset in one}) == 1


def test_a_batch_longer_than_a_log_file_loses_itself_alone(two):
    failed = two.fast.counters.put_failed
    single = frame_of(PLAIN, "json")
    frames = [single, batch_of(3, 1), batch_of(80, 2, size=1_000), batch_of(2, 3), single]
    assert len(worked(two, frames)) == 7
    assert two.fast.counters.put_failed == failed + 1


def test_a_batch_of_very_many_is_left_to_be_stored_in_pieces(two):
    most = batch_of(PIECE_COUNT_MAX, 1, size=6)
    assert taken_of(two.fast, most) == len(most)
    assert taken_of(two.fast, batch_of(PIECE_COUNT_MAX + 1, 1, size=6)) == 0


def test_a_store_that_takes_nothing_says_so_once_of_a_batch(two):
    failed = two.fast.counters.put_failed
    for house in (two.fast, two.slow):
        house.store.refuse_for_now("it is looked after")
    assert worked(two, [batch_of(3, 1), frame_of(PLAIN, "json"), batch_of(2, 2)]) == []
    for house in (two.fast, two.slow):
        house.store.take_again()
    assert two.fast.counters.put_failed == failed + 3
