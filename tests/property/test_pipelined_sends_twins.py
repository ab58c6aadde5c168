"""Sends that leave together: both kernels make the same of them, and the same as one by one; an answer is what it is one by one."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq import kernel as fast
from cometmq.client.producer.encoded_send import SendEncoder
from cometmq.client.producer.send_attempts import header_pieces, read_answer
from cometmq.client.results import SendResult, SendStatus
from cometmq.client.settings import ProducerSettings
from cometmq.codec.message_id import UniqueIds
from cometmq.codec.remoting import Command, encode_command
from cometmq.codec.send_text import END
from cometmq.kernel import encode_requests, pipelined_sends
from cometmq.kernel.rows import Outgoing
from cometmq.model.errors import MessageError
from cometmq.model.message import Message
from cometmq.model.queue import MessageQueue
from cometmq.wire.connection import Connection
from tests.support.hand_clock import HandClock
from tests.support.twin_turns import twin_timeout

pytestmark = [pytest.mark.compiled, pytest.mark.timeout(twin_timeout())]

TWINS = (fast, pipelined_sends)
QUEUES = [MessageQueue("T", name, each) for name, each in (("a", 0), ("a", 1), ("b", 0))]
TARGETS = tuple((queue, queue.queue_id, queue.broker_name) for queue in QUEUES)
make = partial(tuple.__new__, SendResult)

texts = st.one_of(
    st.just(""), st.sampled_from(["A", "a b", 'q"', "b\\", "\t", "é", "\ud800", "\x7f", "~", "k" * 4096, "k" * 4097]), st.text("ab ", max_size=4)
)  # fmt: skip


def message_of(*values: Any) -> Message | str:
    """A message; what refuses to be one is none here, either."""
    try:
        return Message(*values)
    except MessageError:
        return "none"


messages = st.builds(
    message_of,
    st.sampled_from(["T", "T", "T", "U"]),
    st.one_of(st.binary(max_size=20), st.just(b"x" * 50), st.just(bytearray(b"y"))),
    st.one_of(st.none(), texts),
    st.one_of(st.just(()), texts, st.lists(texts, max_size=2).map(tuple)),
    st.sampled_from([{}, {}, {}, {"name": "value"}]),
    st.sampled_from([0, 0, 0, 7]),
    st.sampled_from([0, 0, 0, 3]),
    st.booleans(),
)


def encoder() -> SendEncoder:
    clock = HandClock()
    return SendEncoder(
        "PG", ProducerSettings(), clock, UniqueIds(ip=bytes(4), pid=1, loader=2, clock=clock)
    )


def sends_of(twin, first: int, turn: int):
    return twin.PipelinedSends(first, TARGETS, turn, SendStatus.OK, make)


def seen(sends) -> tuple[Any, ...]:
    """What pipelined sends are now."""
    return sends.first, sends.turn, sends.sent, sends.size


@given(
    st.lists(st.one_of(messages, st.just("none")), max_size=9),
    st.integers(0, 3), st.integers(0, 7), st.integers(0, 9), st.integers(-5, 99),
    st.sampled_from([1, 99, pipelined_sends.OPAQUE_MAX - 2]), st.sets(st.integers(1, 9), max_size=1),
)  # fmt: skip
def test_frames_are_the_same_and_those_of_single_sends(
    waiting, start, turn, count_max, room, first, taken
):
    start = min(start, len(waiting))
    made = []
    for twin in TWINS:
        ours = encoder()
        _, front = ours.topic_front("T")
        head = ours.pipelined_head("T", front, TARGETS[turn % 3][2], 1_700_000_000_000)
        sends, awaited = sends_of(twin, first, turn), dict.fromkeys(taken, (1.0, None))
        pairs = [(each, number) for number, each in enumerate(waiting)]
        frames = twin.pack_pipelined_sends(
            sends, pairs, start, head, (count_max, 30, room), awaited, 5.0
        )
        entered = {opaque: entry[1] is sends for opaque, entry in awaited.items()}
        made.append((frames, seen(sends), entered, next(head.numbers)))
    assert made[0] == made[1]
    frames, (_, _, sent, _), _, _ = made[0]
    alone: list[Outgoing] = []
    for place, (message, _, size, message_id) in enumerate(sent):
        assert size == len(message.body)
        encoded = encoder().pack(message, made=(1_700_000_000_000, message_id))
        pieces = header_pieces(encoded, QUEUES[(turn + place) % 3])
        alone.append((*pieces, first + place, END, encoded.body))
    assert frames == encode_requests(alone)
    assert Connection().receive_data(frames) == Connection().receive_data(
        encode_requests(alone)
    )


def test_plain_messages_of_one_broker_go_on_to_the_limits():
    for twin in TWINS:
        ours = encoder()
        head = ours.pipelined_head("T", ours.topic_front("T")[1], "a", 1)
        waiting = [(Message("T", b"12345", tag="a b", keys="k"), None)] * 9
        for limits, count in (
            ((9, 5, 99), 2),
            ((1, 5, 99), 1),
            ((9, 4, 99), 0),
            ((9, 5, 5), 1),
        ):
            sends = sends_of(twin, 1, 3)
            twin.pack_pipelined_sends(sends, waiting, 0, head, limits, {}, 1.0)
            assert len(sends.sent) == count


values = st.one_of(
    st.integers(-3, 1 << 63).map(str),
    st.sampled_from(["true", "false", "", "-0", "007", "+1", "é", 'q"', "Default", "A" * 5000]),
)
answers = st.builds(
    Command,
    st.sampled_from([0, 0, 0, 0, 10, 14]),
    st.sampled_from([1, 1, 1, 1, 0, 3]),
    st.integers(97, 106),
    st.sampled_from([0, 12]),
    st.sampled_from([0, 479]),
    remark=st.sampled_from([None, None, None, "no"]),
    fields=st.fixed_dictionaries(
        {"queueId": st.sampled_from(["0", "0", "1", "2"]), "queueOffset": st.one_of(st.just("12"), values)},
        optional=dict.fromkeys(
            ("msgId", "transactionId", "MSG_REGION", "TRACE_ON", "recallHandle", "more"), values
        ),
    ),
    body=st.sampled_from([b"", b"body"]),
    kind=st.sampled_from([0, 0, 0, 0, 1]),
)  # fmt: skip
DAMAGES = st.sampled_from([
    b"", b'"', b"\\", b'"opaque":99', b'"queueId":"1",', b'"code":0,', b":", b"-", b"00", b"9" * 19, b"1.0", b"\xff", b",", b" ",
    b"{}", b"}",
])  # fmt: skip


def taken_by(twin, data: bytes, position: int, answered: set[int], count_max: int):
    """What a twin takes, and what it leaves behind."""
    one, other = sends_of(twin, 98, 0), sends_of(twin, 102, 1)
    awaited = {97: (9.0, None)}
    for sends in (one, other):
        for place in range(4):
            opaque = sends.first + place
            sends.sent.append((None, f"who {opaque}", place, f"id {opaque}"))
            awaited[opaque] = (9.0, sends)
    for opaque in answered:
        one.sent[opaque - 98] = None
    where, sends, settled, size = twin.plain_answers(data, position, awaited, count_max)
    whose = [each is sends for each in (one, other)]
    return where, whose, settled, size, list(awaited), one.sent, other.sent


@given(
    st.lists(answers, max_size=6), st.integers(0, 1000), DAMAGES, st.integers(0, 3),
    st.sets(st.integers(98, 101), max_size=1), st.integers(0, 7), st.booleans(),
)  # fmt: skip
def test_answers_are_those_of_single_sends(
    commands, at, damage, removed, answered, count_max, is_damaged
):
    data = b"".join(map(encode_command, commands))
    if is_damaged:
        at %= len(data) + 1
        data = data[:at] + damage + data[at + removed :]
    found = taken_by(fast, data, 0, answered, count_max)
    where, _, settled, _, _, _, _ = found
    read = Connection().receive_data(data[:where])
    assert len(read) == len(settled)
    for (who, result), command in zip(settled, read, strict=True):
        opaque = command[2]
        place = opaque - 98 if opaque < 102 else opaque - 102 + 1
        assert who == f"who {opaque}"
        assert (command[0], command[1], command[5]) == (0, 1, None)
        assert result == read_answer(command, SendStatus.OK, f"id {opaque}", QUEUES[place % 3])


@given(st.binary(max_size=40), st.integers(0, 50))
def test_what_is_no_answer_is_left(data, position):
    for twin in TWINS:
        assert twin.plain_answers(data, position, {}, 9) == (position, None, [], 0)


def test_plain_answers_are_taken_to_the_last():
    """As our broker writes them, and Java's."""
    ours = {
        "queueId": "0",
        "msgId": "7F",
        "queueOffset": "12",
        "MSG_REGION": "Default",
        "TRACE_ON": "true",
    }
    data = b"".join(
        encode_command(Command(0, 1, 98 + place, fields=ours | {"queueId": str(QUEUES[place % 3].queue_id)}))
        for place in range(4)
    )  # fmt: skip
    where, whose, settled, size, awaited, one, _ = taken_by(fast, data, 0, set(), 99)
    assert (where, whose, len(settled), size, one) == (
        len(data),
        [True, False],
        4,
        6,
        [None] * 4,
    )
    assert awaited == [97, 102, 103, 104, 105]


@pytest.mark.parametrize(("count", "is_taken"), [(24, True), (25, False)])
def test_an_answer_of_more_fields_than_are_read_together_is_left_to_its_caller(count, is_taken):
    needed = {"queueId": "0", "queueOffset": "12"}
    more = {f"more{number}": "x" for number in range(count - len(needed))}
    data = encode_command(Command(0, 1, 98, fields=more | needed))
    where, _, settled, *_ = taken_by(fast, data, 0, set(), 99)
    assert (where, len(settled)) == ((len(data), 1) if is_taken else (0, 0))
