"""The same as test_kernel_twins for pop: acknowledgements of a turn, well-formed and strange."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq import kernel as fast
from cometmq.codec.header_json import LANGUAGES, decode_json_command
from cometmq.codec.remoting import Command, RawCommand
from cometmq.kernel import acks
from cometmq.net.answer import Answer, answer_head
from tests.support.twin_turns import twin_timeout

pytestmark = [pytest.mark.compiled, pytest.mark.timeout(twin_timeout())]

BEFORE, _, END = answer_head(Command(0), Answer(), 0)[8:].partition(b'"opaque":0')
BEFORE += b'"opaque":'
HANDLES = ["1 2 3 0 0 b 0", "1 2 3 0 0 b 1", "", "1", "ü 2"]
OFFSETS = st.one_of(
    st.integers(0, 9).map(str),
    st.sampled_from(
        ["", "-1", "+1", " 1", "1_0", "007", "1" * 18, "1" * 19, "٣", "x", 3, None]
    ),
)
ACKS = st.fixed_dictionaries(
    {},
    optional={
        "extraInfo": st.tuples(st.sampled_from(HANDLES), OFFSETS).map(
            lambda t: f"{t[0]} {t[1]}"
        ),
        "topic": st.sampled_from(["T", "T", "Tü", 1]),
        "consumerGroup": st.sampled_from(["G", "G", "H"]),
        "queueId": st.sampled_from(["0", "0", "1", None]),
        "offset": OFFSETS,
    },
)
PLAIN = st.fixed_dictionaries(
    {
        "extraInfo": st.sampled_from(["1 2 3 0 0 b 0 5", "1 2 3 0 0 b 1 6", "none"]),
        "topic": st.just("T"), "consumerGroup": st.just("G"), "queueId": st.just("0"),
        "offset": st.integers(0, 9).map(str),
    }
)  # fmt: skip
NUMBERS = st.one_of(
    st.sampled_from([0, 2, 77, -5, 1 << 31, -(1 << 31) - 1, 1 << 70]), st.integers()
)


def commands_of(fields: list[dict], numbers: list[tuple[int, int]]) -> list[RawCommand]:
    return [
        (200051, flag, opaque, 0, 0, None, each, b"", 0)
        for each, (flag, opaque) in zip(fields, numbers, strict=False)
    ]


@given(
    st.lists(st.one_of(PLAIN, PLAIN, ACKS), max_size=12),
    st.lists(st.tuples(NUMBERS, NUMBERS), min_size=12, max_size=12),
    st.lists(
        st.one_of(
            st.none(),
            st.lists(st.integers(0, 9), max_size=12).map(tuple),
            st.just(tuple(range(64))),
            st.sampled_from([tuple(range(65)), (1, 1 << 63), (-(1 << 63), 1), (1, -(1 << 64))]),
        ),
        min_size=12, max_size=12,
    ),
)  # fmt: skip
def test_acknowledgements_of_a_turn_are_the_same(fields, numbers, found):
    """Runs and their ends, what names nothing, numbers that are none, offsets that do not fit."""

    def taken(plain_acks):
        asked: list[tuple[str, ...]] = []

        def find(*named: str) -> tuple[int, ...] | None:
            asked.append(named)
            return found[len(asked) - 1]

        return plain_acks(commands_of(fields, numbers), find, BEFORE, END), asked

    assert taken(fast.plain_acks) == taken(acks.plain_acks)


def frame_of(fields: dict, flag: int, opaque: int, code: int) -> bytes:
    values = {
        "code": code, "extFields": fields, "flag": flag, "language": "JAVA", "opaque": opaque, "version": 1,
    }  # fmt: skip
    header = json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode()
    return struct.pack(">ii", 4 + len(header), len(header)) + header


PIECES = st.sampled_from([
    b"", b'"', b"\\", b'"opaque":7,', b'"code":1,', b'"topic":"T",', b":", b"-", b"00", b"9" * 19, b"\xff", b",", b" ", b"{}",
])  # fmt: skip


@given(
    st.lists(
        st.tuples(
            st.one_of(PLAIN, PLAIN, PLAIN, ACKS), st.sampled_from([0, 0, 0, 2, 1, 6]), st.integers(0, 9),
            st.sampled_from([200051, 200051, 200051, 200050]),
        ),
        max_size=9,
    ),
    st.lists(st.one_of(st.none(), st.just(tuple(range(9)))), min_size=12, max_size=12),
    st.integers(0, 9), st.booleans(), st.integers(0, 2000), PIECES, st.integers(0, 3),
)  # fmt: skip
def test_acknowledgements_in_bytes_mean_what_they_mean_as_commands(
    requests, found, count_max, is_damaged, at, piece, removed
):
    """Whole and damaged: each that is taken is marked and answered as the command that it is."""
    data = b"".join(frame_of(*each) for each in requests)
    if is_damaged:
        at %= len(data) + 1
        data = data[:at] + piece + data[at + removed :]

    def taken(take, *given):
        asked: list[tuple[str, ...]] = []

        def find(*named: str) -> tuple[int, ...] | None:
            asked.append(named)
            return found[len(asked) - 1]

        return take(*given, find, BEFORE, END), asked

    (position, count, marks, answers), _ = taken(fast.take_acks, data, 0, count_max)
    commands, end, _ = fast.read_commands(data[:position], 0, 1 << 24, 1 << 16, LANGUAGES)
    assert (end, len(commands)) == (position, count)
    read = [
        each if len(each) > 4 else decode_json_command(data[each[1] : each[2]], b"")
        for each in commands
    ]
    (same_marks, same_answers, others), _ = taken(fast.plain_acks, read)
    assert (same_answers, others) == (answers, [])
    # One that is asked for and not taken leaves a mark of nothing.
    assert same_marks == marks[: len(same_marks)]
    assert not any(marks[len(same_marks) :])


def test_plain_acknowledgements_are_taken_to_the_last():
    frames = [
        frame_of({"consumerGroup": "G", "topic": "T", "queueId": "0", "offset": f"{offset}",
                  "extraInfo": f"1 2 3 0 0 b 0 {offset}", "bname": "b"}, 0, offset, 200051)
        for offset in range(5)
    ]  # fmt: skip
    data = b"".join(frames)
    position, count, marks, answers = fast.take_acks(
        data + b"rest", 0, 99, lambda *_: tuple(range(9)), BEFORE, END
    )
    assert (position, count, marks) == (len(data), 5, [31])
    assert answers == b"".join(
        answer_head(Command(0, opaque=offset), Answer(), 0) for offset in range(5)
    )


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=40))
def test_answers_are_those_of_a_handler(given):
    commands = commands_of(
        [
            {"extraInfo": f"5 1 2 0 0 b 0 {offset}", "topic": "T", "consumerGroup": "G",
             "queueId": "0", "offset": str(offset)}
            for offset, _ in given
        ],
        [(2 * is_oneway, offset) for offset, is_oneway in given],
    )  # fmt: skip
    marks, answers, others = fast.plain_acks(
        commands, lambda *_: tuple(range(5, 37)), BEFORE, END
    )
    there = [(offset, oneway) for offset, oneway in given if 5 <= offset < 37]
    assert answers == b"".join(
        answer_head(Command(0, opaque=offset), Answer(), 0)
        for offset, is_oneway in there
        if not is_oneway
    )
    assert len(others) == len(given) - len(there)
    assert sum(marks) == sum(1 << offset - 5 for offset in {offset for offset, _ in there})


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["topic", "bname", "a", "A", "e", "x" * 70, "ü", 'q"', ""]),
            st.one_of(
                st.sampled_from(["T", "U", "", "y" * 65, "ü", "\\", "\x7f", "\u2028"]),
                st.text(max_size=3),
            ),
            max_size=6,
        ),
        min_size=1, max_size=6,
    )
)  # fmt: skip
def test_known_texts_are_never_another_s(headers):
    """Names and values are kept from frame to frame: what comes out is what this frame says."""
    for fields in headers * 2:
        values = {
            "code": 1, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": 1, "version": 1,
        }  # fmt: skip
        header = json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode()
        data = struct.pack(">ii", 4 + len(header), len(header)) + header
        (item,), _, _ = fast.read_commands(data, 0, 1 << 24, 1 << 16, LANGUAGES)
        if len(item) == 4:
            item = decode_json_command(header, b"")
        assert item[6] == fields
