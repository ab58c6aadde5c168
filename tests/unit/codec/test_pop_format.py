"""Receipt handles, the records of the revive topic and the files of pop are what docs/format/pop.md shows."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.codec import fastjson
from cometmq.codec.bodies.batch_ack import BatchAck, decode_batch_ack, encode_batch_ack
from cometmq.codec.bodies.order_state import (
    OrderState,
    decode_order_states,
    encode_order_states,
)
from cometmq.codec.bodies.pop_journal import (
    AckBody,
    CheckPointBody,
    decode_ack,
    decode_check_point,
    encode_ack,
    encode_check_point,
)
from cometmq.codec.recall_handle import decode_recall_handle, encode_recall_handle
from cometmq.codec.receipt import (
    Receipt,
    decode_starts,
    encode_offsets,
    encode_starts,
    kind_of,
    parse_receipt,
    real_topic,
)
from cometmq.codec.timer_files import (
    TIMER_CHECK,
    TIMER_SLOT,
    TIMER_UNIT,
    TimerCheck,
    TimerSlot,
    TimerUnit,
    decode_check,
    decode_unit,
    encode_blank,
    encode_check,
    encode_unit,
    is_blank,
)
from cometmq.model.errors import CodecError, RequestError
from cometmq.model.names import pop_origin_topic, pop_retry_topic
from cometmq.store.timer.wheel import WHEEL_SLOTS
from tests.unit.codec.test_format_pages import examples, field_sizes, page_text, table_rows

PAGE = (Path(__file__).parents[3] / "docs" / "format" / "pop.md").read_text()
BLOCKS = [
    line
    for block in re.findall(r"```\w*\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
]
HANDLE, CHECK_POINT, ACK, BATCH_ACK, BATCH, ORDER = BLOCKS
POP_MS = 1795277270887
POINT = CheckPointBody("Orders", "g", 2, 5, (5, 6, 8), POP_MS, 60000, broker_name="broker-a")
DONE = AckBody("Orders", "g", 2, 5, POP_MS, (6,), "broker-a")


def test_the_page_shows_a_handle():
    receipt = Receipt(0, POP_MS, 10000, 6, "0", "broker-a", 1, 3)
    assert str(receipt) == HANDLE
    assert parse_receipt(HANDLE) == receipt


def test_the_page_shows_a_check_point():
    assert encode_check_point(POINT).decode() == CHECK_POINT
    assert decode_check_point(CHECK_POINT.encode()) == POINT


def test_the_page_shows_acknowledgements():
    some = replace(DONE, offsets=(5, 8))
    assert encode_ack(DONE) == ("ack", ACK.encode())
    assert encode_ack(some) == ("bAck", BATCH_ACK.encode())
    assert decode_ack(ACK.encode()) == DONE
    assert decode_ack(BATCH_ACK.encode()) == some


def test_the_page_shows_a_batch():
    ack = BatchAck("g", "Orders", "0", 5, 2, 6, POP_MS, 60000, (5, 8))
    assert encode_batch_ack("broker-a", [ack]).decode() == BATCH
    assert decode_batch_ack(BATCH.encode()) == [ack]


def test_the_page_shows_the_file_of_queues_in_order():
    state = OrderState((5, 6), POP_MS, 60000, POP_MS, acknowledged=1, counts={6: 1})
    text = encode_order_states({("g", "Orders", 0): state})
    assert re.sub(r"\s", "", text) == ORDER
    assert decode_order_states(text) == {("g", "Orders", 0): state}


@given(
    st.lists(st.text(max_size=5), min_size=3, max_size=3), st.integers(0, 1 << 40),
    st.integers(0, 32), st.integers(0, (1 << 32) - 1), st.integers(0, 1 << 40),
)  # fmt: skip
def test_a_check_point_of_neighbours_is_written_as_any_other(names, start, count, bits, place):
    """Their body is put together; one with a gap, whose body fastjson's writer makes, differs in the messages alone."""
    topic, group, broker = names
    point = CheckPointBody(
        topic, group, 3, start, tuple(range(start, start + count)), POP_MS, 60_000, bits, broker
    )
    gap = replace(point, offsets=(*point.offsets[1:], start + 40))
    pages = [encode_check_point(each, revive_offset=place) for each in (point, gap)]
    bodies = [fastjson.loads(page) for page in pages]
    assert list(bodies[0]) == list(bodies[1])
    for body, page in zip(bodies, pages, strict=True):
        assert page == fastjson.dumps(body, sort_keys=True)
    assert bodies[0].pop("d") == list(range(count))
    assert bodies[0].pop("n") == count
    del bodies[1]["d"], bodies[1]["n"]
    assert bodies[0] == bodies[1]


@given(
    st.sets(st.integers(0, 500), min_size=1, max_size=32).map(sorted), st.integers(0, 1 << 40),
    st.integers(0, (1 << 32) - 1), st.integers(0, 20),
)  # fmt: skip
def test_check_points_and_acknowledgements_come_back(steps, start, bits, times):
    offsets = tuple(start + step for step in steps)
    point = CheckPointBody("T", "g", 1, start, offsets, POP_MS, 5, bits, "b", times_put=times)
    assert decode_check_point(encode_check_point(point)) == point
    ack = AckBody("T", "g", 1, start, POP_MS, offsets, "b")
    assert decode_ack(encode_ack(ack)[1]) == ack
    batch = BatchAck("g", "T", "1", start, 1, 2, POP_MS, 5, offsets)
    assert decode_batch_ack(encode_batch_ack("b", [batch])) == [batch]


@pytest.mark.parametrize("topic", ["Orders", "%RETRY%g_Orders", "%RETRY%g+Orders"])
def test_retry_topics_have_a_kind_that_leads_back_to_them(topic):
    assert pop_origin_topic(topic, "g") == "Orders"
    assert real_topic("Orders", "g", kind_of(topic)) == topic


def test_a_retry_topic_of_another_group_is_its_own_origin():
    other = pop_retry_topic("Orders", "other")
    assert pop_origin_topic(other, "g") == other
    assert pop_origin_topic("%RETRY%g", "g") == "%RETRY%g"


def test_what_an_answer_says_of_its_queues_is_read_back():
    starts = encode_starts([("0", 1, 7), ("1", 0, 3)])
    assert starts == "0 1 7;1 0 3"
    assert decode_starts(starts) == {("0", 1): 7, ("1", 0): 3}
    assert encode_offsets([("0", 1, [7, 9]), ("1", 0, [3])]) == "0 1 7,9;1 0 3"
    assert decode_starts("") == {}


@pytest.mark.parametrize("bad", ["", "1 2", "a b c d e f g h", "1 2 3 4 0 b x 5"])
def test_what_is_no_handle_is_refused(bad):
    with pytest.raises(RequestError, match="receipt handle"):
        parse_receipt(bad)


@pytest.mark.parametrize("times", ["x", "-1", "9" * 5000])
def test_a_check_point_with_no_valid_number_of_puts_was_put_once(times):
    body = b'{"t":"T","c":"g","rp":"%s"}' % times.encode()
    assert decode_check_point(body).times_put == 0


@pytest.mark.parametrize(
    ("read", "bad"),
    [
        (decode_starts, "0 1"),
        (decode_check_point, b"{}"),
        (decode_check_point, b'{"t":"T","c":"g","d":["x"]}'),
        (decode_ack, b'{"t":"T","c":"g","aol":5}'),
        (decode_batch_ack, b'{"acks":[{"c":"g","t":"T","b":"%"}]}'),
        (decode_batch_ack, b'{"acks":[{"c":"g","t":"T","b":"' + b"/" * 20_000 + b'"}]}'),
        (decode_order_states, '{"table":{"T@g":{"x":{}}}}'),
        (decode_order_states, '{"table":{"T@g":{"%s":{"o":[1]}}}}' % ("9" * 5000)),
        (decode_order_states, '{"table":{"T@g":{"0":{"o":[]}}}}'),
        (decode_order_states, '{"table":{"T@g":{"0":{"o":[1],"oc":{"x":1}}}}}'),
        (decode_order_states, '{"table":{"T@g":{"0":{"o":[1],"ot":{"-":1}}}}}'),
        (decode_order_states, '{"table":{"T@g":{"0":{"o":[1],"ot":{"%s":1}}}}}' % ("9" * 5000)),
    ],
)
def test_bodies_that_mean_nothing_are_refused(read, bad):
    with pytest.raises(CodecError):
        read(bad)


@pytest.mark.parametrize(
    ("heading", "layout", "names"),
    [
        ("Slot", TIMER_SLOT, TimerSlot._fields),
        ("Unit", TIMER_UNIT, TimerUnit._fields),
        ("timercheck", TIMER_CHECK, TimerCheck._fields),
    ],
)
def test_the_pages_tables_are_the_codes_structs(heading, layout, names):
    told = [(row[0], int(row[1])) for row in table_rows("timer", heading)[2:]]
    assert told == list(zip(names, field_sizes(layout), strict=True))


def test_the_examples_are_some():
    slot, unit, check = examples("timer")
    found = TimerSlot._make(TIMER_SLOT.unpack(slot))
    assert found == (1795253713, 0, 104, 3, 0)
    assert found.time % WHEEL_SLOTS == 207_313
    assert decode_unit(unit) == (52, -1, 1, 1795253708000, 5499, 3000, 309, 84842, 0)
    assert decode_unit(unit).time_ms == 1795253713499
    assert encode_unit(decode_unit(unit)) == unit
    assert decode_check(check) == (1795253708000, 52, 1, 1, 0, 1795253708432, 157)
    assert encode_check(decode_check(check)) == check


def test_the_example_handle_is_one():
    match = re.search(r"```text\n(.*)\n```", page_text("timer"))
    assert match is not None
    handle = decode_recall_handle(match[1])
    assert handle == (
        "TopicTest", "broker-a", "1795253713001", "7F0000010000000118B4AAC200000001",
    )  # fmt: skip
    assert encode_recall_handle(handle) == match[1]


@pytest.mark.parametrize("text", ["", "é", "djI", "djEgYSBi", "=", "djEgVG9waWNUZXN0IGJy%"])
def test_what_is_no_recall_handle_is_refused(text):
    with pytest.raises(CodecError, match="recall handle is invalid"):
        decode_recall_handle(text)


def test_what_is_no_unit_is_refused():
    for content in (b"", bytes(51), bytes(52), encode_unit(TimerUnit(51, *[0] * 8))):
        with pytest.raises(CodecError, match="timer unit"):
            decode_unit(content)
    with pytest.raises(CodecError, match="timer unit"):
        decode_unit(encode_unit(TimerUnit(52, -1, 16, 0, 0, 0, 0, 0)))


def test_the_end_of_a_file_is_seen():
    assert is_blank(encode_blank(40) + bytes(24), 0)
    assert is_blank(bytes(15), 0)  # No unit fits there.
    assert not is_blank(bytes(52), 0)


def test_a_short_check_is_refused():
    with pytest.raises(CodecError, match="timercheck"):
        decode_check(bytes(55))
