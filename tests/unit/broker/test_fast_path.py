"""What the fast path of sends stores is what the slow path stores, for sends of any shape; it may only decline more."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cometmq.broker.features import FEATURES
from cometmq.broker.parts import Parts
from cometmq.broker.send.admission import Admission, AdmittedSend
from cometmq.broker.send.fast_path.rows import PlainSends
from cometmq.broker.send.requests.sends import admit
from cometmq.broker.tables.lanes import Lanes
from cometmq.codec.batch import encode_batch
from cometmq.codec.properties import decode_properties
from cometmq.codec.remoting import Command, RawCommand
from cometmq.model import properties as names
from cometmq.model.codes import RequestCode
from cometmq.model.errors import CometError
from cometmq.model.flags import ONEWAY
from cometmq.net.virtual_loop import VirtualLoop
from cometmq.store.appender import Put
from tests.support.hand_clock import HandClock
from tests.unit.broker.parts_by_hand import HOST, load_tables, parts_by_hand, unique_ids

TOPICS = ("Orders", "%RETRY%GID_orders", "Bills")
KEY = "7F0000010000000118B4AAC200000001"


class FarSender(NamedTuple):
    """Where a send comes from."""

    host: bytes = HOST
    address: str = "127.0.0.1:5555"


class Sends(NamedTuple):
    """Both paths over one store, and the loop in which the slow one makes topics."""

    fast: PlainSends
    slow: Admission
    loop: asyncio.Runner

    def admit(self, request: RawCommand) -> AdmittedSend | CometError:
        """What the slow path says; a refusal is a value, too."""

        async def slow() -> AdmittedSend:
            return admit(self.slow, request, FarSender())

        try:
            return self.loop.run(slow())
        except CometError as error:
            return error


@pytest.fixture(scope="module")
def sends(tmp_path_factory) -> Iterator[Sends]:
    clock = HandClock()
    with (
        asyncio.Runner(loop_factory=VirtualLoop) as loop,
        parts_by_hand(tmp_path_factory.mktemp("sends"), clock) as parts,
    ):
        sends = loop.run(_begin(parts, clock, loop))
        yield sends
        loop.run(parts.topics.close())


async def _begin(parts: Parts, clock: HandClock, loop: asyncio.Runner) -> Sends:
    load_tables(parts)
    lanes = Lanes(
        parts.store, region="DefaultRegion", is_trace_on=True, counters=parts.counters
    )
    slow = Admission(parts, lanes=lanes, unique_ids=unique_ids(clock), chance=random.Random(1))
    for make in FEATURES:  # Those which move or refuse a send say so themselves.
        make(parts)
    for name in TOPICS:
        topic = parts.topics.ensure(name, queues=4, perm=6)
        saving = parts.topics.saving_of(name)
        if saving is not None:
            await saving
        for queue_id in range(3):
            lanes.open(topic, queue_id, is_kept=True)
    return Sends(PlainSends(lanes, slow), slow, loop)


# --- sends of any shape

TEXTS = st.text(st.characters(exclude_characters="\1\2", exclude_categories=["Cs"]), max_size=6)
NAMES = st.one_of(
    st.sampled_from([
        names.UNIQ_KEY, names.TAGS, names.KEYS, names.WAIT, names.DELAY, names.TRAN_MSG,
        names.POP_CK, names.TIMER_DELAY_MS, names.TIMER_DELAY_SEC, names.TIMER_DELIVER_MS,
        names.MSG_REGION, names.CLUSTER, names.TRACE_ON, names.INNER_NUM, "INNER_MULTI_DISPATCH",
        names.RETRY_TOPIC, "XUNIQ_KEY", "XTAGS", "NODELAY", "__SHARDINGKEY",
    ]),
    TEXTS,
)  # fmt: skip
VALUES = st.one_of(st.sampled_from(["true", "false", "0", "1", "3", KEY, "TagA", "a b"]), TEXTS)
NUMBERS = st.one_of(
    st.integers(-3, 9).map(str),
    st.integers(-(1 << 70), 1 << 70).map(str),
    st.sampled_from(["", " 1", "+1", "01", "1_0", "1.5", "x", "\u0661", "-0", "1700000000000"]),
)


def block_of(pairs: list[tuple[str, str]], end: str) -> str:
    return "\2".join(f"{name}\1{value}" for name, value in pairs) + (end if pairs else "")


BLOCKS = st.one_of(
    st.builds(
        block_of,
        st.lists(st.tuples(NAMES, VALUES), max_size=5),
        st.sampled_from(["\2", "", "\2\2", "\1"]),
    ),
    # As official producers write it, nearly.
    st.builds(
        lambda before, behind: block_of([*before, (names.UNIQ_KEY, KEY), *behind], "\2"),
        st.lists(st.tuples(NAMES, VALUES), max_size=3),
        st.lists(st.tuples(NAMES, VALUES), max_size=3),
    ),
    st.text(st.sampled_from("\1\2aUNIQ_KEYTAGSDL\0é"), max_size=20),
)
FIELDS = st.fixed_dictionaries(
    {
        "b": st.sampled_from([*TOPICS, "Nobody", ""]),
        "e": st.one_of(st.sampled_from(["0", "1", "2"]), NUMBERS),
        "f": st.one_of(st.just("0"), st.sampled_from(["0", "1", "4", "8", "00", ""])),
        "g": st.one_of(st.just("1700000000000"), NUMBERS),
        "h": st.one_of(st.just("0"), NUMBERS),
        "i": BLOCKS,
    },
    optional={
        "j": NUMBERS,
        # A plain send needs none of these, and yet is refused where one is missing or means nothing.
        "a": st.sampled_from(["producers", ""]),
        "c": st.sampled_from(["TBW102", ""]),
        "d": st.one_of(st.just("4"), NUMBERS),
        "k": st.sampled_from(["true", "false", "maybe", ""]),
        "l": st.one_of(st.just("16"), NUMBERS),
        "m": st.sampled_from(["true", "false", "TRUE", ""]),
        "n": st.just("broker-a"),
    },
)
ITEMS = st.lists(
    st.tuples(
        st.integers(-9, 9),
        st.binary(max_size=9),
        BLOCKS.map(lambda text: text.encode()),
    ),
    max_size=4,
)
BODIES = st.one_of(st.binary(max_size=12), ITEMS.map(encode_batch))
CODES = st.sampled_from([RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE])


@st.composite
def requests(draw: st.DrawFn, code: st.SearchStrategy[int] = CODES) -> RawCommand:
    """A send as it is when it has been read from the wire."""
    flag = draw(st.sampled_from([0, ONEWAY]))
    opaque = draw(st.integers(0, 1 << 31))
    fields = draw(FIELDS)
    return Command(int(draw(code)), flag, opaque, fields=fields, body=draw(BODIES))


def known(put: Put) -> tuple[object, ...]:
    """A put to be compared: of its properties, what they mean."""
    return (*put[:3], decode_properties(bytes(put[3])), *put[4:])


PLAIN_FIELDS = {
    "b": "Orders", "e": "0", "f": "0", "g": "1", "h": "0", "c": "TBW102", "d": "4", "a": "p",
    "i": f"UNIQ_KEY\1{KEY}\2WAIT\1true\2",
}  # fmt: skip
PLAIN = tuple(Command(310, 0, 1, fields=PLAIN_FIELDS, body=b"x"))


def send_with(**fields: str) -> RawCommand:
    """A send that is plain but for these fields."""
    return Command(310, 0, 1, fields=PLAIN_FIELDS | fields, body=b"x")


EMPTY_KEY = tuple(
    Command(310, 0, 1, fields=PLAIN_FIELDS | {"i": "UNIQ_KEY\1\2TAGS\1a\2"}, body=b"x")
)


def batch_with(**fields: str) -> RawCommand:
    """A batch of one message that is plain but for these fields."""
    body = encode_batch([(0, b"x", b"")])
    return Command(320, 0, 1, fields=PLAIN_FIELDS | fields, body=body)


@given(st.lists(requests(st.just(310)), min_size=1, max_size=4))
@example([PLAIN])
@example([EMPTY_KEY])
@example([send_with(d="four")])
@example([send_with(k="maybe")])
@example([send_with(l="1.5")])
@settings(max_examples=250, deadline=None)
def test_a_send_on_the_fast_path_is_stored_and_answered_as_on_the_slow_one(sends, batch):
    batch = [tuple(Command(*one)._replace(opaque=number)) for number, one in enumerate(batch)]
    puts: list[Put] = []
    pending: list[tuple[int, str | None, str]] = []
    first = 0
    while first < len(batch):
        first = 1 + sends.fast.gather(batch, first, HOST, puts, pending)
    taken = {one[0] for one in pending}
    ways = iter(zip(puts, pending, strict=True))
    for request in batch:
        if request[2] not in taken:
            continue
        put, (opaque, answer_start, key) = next(ways)
        admitted = sends.admit(request)
        assert not isinstance(admitted, CometError), admitted
        assert admitted.is_ordinary
        assert [known(put)] == [known(each) for each in admitted.puts]
        assert (opaque, key) == (request[2], admitted.transaction_id)
        assert answer_start == (None if request[1] & ONEWAY else admitted.answer_start)


@given(requests(st.just(320)))
@example(batch_with(j=str(1 << 31)))
@example(batch_with(j=""))
@example(batch_with(h=""))
@example(batch_with(d="four"))
@example(batch_with(k="maybe"))
@example(batch_with(h=str(1 << 31)))
@example(batch_with(i=f"UNIQ_KEY\1{KEY}\2UNIQ_KEY\1A\2"))
@example(batch_with(i=f"XUNIQ_KEY\1{KEY}\2UNIQ_KEY\1A\2"))
@settings(max_examples=250, deadline=None)
def test_a_batch_on_the_fast_path_is_stored_and_answered_as_on_the_slow_one(sends, request_):
    taken = sends.fast.take_batch(request_, HOST)
    if taken is None:
        return
    admitted = sends.admit(request_)
    assert not isinstance(admitted, CometError), admitted
    assert [*map(known, taken.puts)] == [*map(known, admitted.puts)]
    assert (taken.answer_start, taken.transaction_id) == (
        admitted.answer_start,
        admitted.transaction_id,
    )
    assert (taken.is_batch, taken.is_flush_awaited) == (True, admitted.is_flush_awaited)


def test_a_plain_batch_takes_the_fast_path(sends):
    for one in (batch_with(), batch_with(j="3"), batch_with(i="WAIT\1true\2")):
        taken = sends.fast.take_batch(one, HOST)
        assert taken is not None
        assert len(taken.puts) == 1


def test_a_plain_send_takes_the_fast_path(sends):
    puts: list[Put] = []
    assert sends.fast.gather([PLAIN], 0, HOST, puts, []) == 1
    assert len(puts) == 1
