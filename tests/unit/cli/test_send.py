"""What `cometmq send` makes of stdin and of --queue."""

import io
from datetime import UTC, datetime

import pytest
import typer

from cometmq.cli.options import read_pairs, read_start
from cometmq.cli.send import find_queue, lines, repeated
from cometmq.model.queue import MessageQueue


class Pipe(io.BytesIO):
    """Gives its pieces one read after the other, as a pipe does."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__()
        self._pieces = list(pieces)

    def read1(self, _size: int | None = -1) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


@pytest.mark.parametrize(
    ("pieces", "groups"),
    [
        ((), []),
        ((b"a\nb\n",), [[b"a", b"b"]]),
        ((b"a\n", b"b\n"), [[b"a"], [b"b"]]),
        ((b"be", b"gun\nrest"), [[b"begun"], [b"rest"]]),
        ((b"a\n\n\nb\n",), [[b"a", b"b"]]),
        ((b"\n", b"\n"), []),
        ((b"\xff\x00\n",), [[b"\xff\x00"]]),
    ],
)
def test_lines_come_in_the_groups_that_reads_bring(
    pieces: tuple[bytes, ...], groups: list[list[bytes]]
) -> None:
    assert list(lines(Pipe(*pieces))) == groups


@pytest.mark.parametrize("count", [1, 4095, 4096, 4097, 10_000])
def test_a_text_is_repeated_exactly_so_often(count: int) -> None:
    groups = list(repeated(b"x", count))
    assert sum(map(len, groups)) == count
    assert max(map(len, groups)) <= 4096


QUEUES = [
    MessageQueue("t", "broker-a", 0),
    MessageQueue("t", "broker-a", 1),
    MessageQueue("t", "broker-b", 1),
]


@pytest.mark.parametrize(
    ("wanted", "place"), [("0", 0), ("broker-a:0", 0), ("broker-a:1", 1), ("broker-b:1", 2)]
)
def test_a_queue_is_found_by_number_or_by_broker_and_number(wanted: str, place: int) -> None:
    assert find_queue(QUEUES, wanted) == QUEUES[place]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("7", "no broker has queue 7; choose one of broker-a:0, broker-a:1, broker-b:1"),
        ("broker-c:0", "no broker has queue broker-c:0"),
        ("1", "several brokers have queue 1"),
        ("x", "no broker has queue x"),
        ("-1", "no broker has queue -1"),
    ],
)
def test_a_queue_that_is_not_one_is_refused_with_those_there_are(
    wanted: str, said: str
) -> None:
    with pytest.raises(typer.BadParameter, match=said):
        find_queue(QUEUES, wanted)


def test_properties_are_name_and_value_and_the_value_may_hold_an_equals_sign() -> None:
    assert read_pairs(["a=1", "b=x=y", "c="], option="--property") == {
        "a": "1",
        "b": "x=y",
        "c": "",
    }


@pytest.mark.parametrize("pair", ["a", "=1", ""])
def test_a_property_without_a_name_or_a_value_is_refused(pair: str) -> None:
    with pytest.raises(typer.BadParameter, match="name=value"):
        read_pairs([pair], option="--property")


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("1700000000123", 1_700_000_000_123),
        (
            "2026-05-01T12:00:00+00:00",
            int(datetime(2026, 5, 1, 12, tzinfo=UTC).timestamp()) * 1000,
        ),
    ],
)
def test_a_start_is_a_word_or_a_time(text: str, start: str | int) -> None:
    assert read_start(text) == start


@pytest.mark.parametrize("text", ["yesterday", "-5", ""])
def test_what_is_no_start_is_refused_with_what_is_one(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="earliest, latest, a time"):
        read_start(text)
