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
    ("wanted", "broker", "place"),
    [(0, None, 0), (0, "broker-a", 0), (1, "broker-a", 1), (1, "broker-b", 2)],
)
def test_a_queue_is_found_by_number_or_by_broker_and_number(
    wanted: int, broker: str | None, place: int
) -> None:
    assert find_queue(QUEUES, wanted, broker) == QUEUES[place]


@pytest.mark.parametrize(
    ("wanted", "broker", "said"),
    [
        (7, None, "no broker has queue 7; there is broker-a:0, broker-a:1, broker-b:1"),
        (0, "broker-c", "broker broker-c has no queue 0"),
        (1, None, "several brokers have queue 1; choose one with --broker"),
    ],
)
def test_a_queue_that_is_not_one_is_refused_with_those_there_are(
    wanted: int, broker: str | None, said: str
) -> None:
    with pytest.raises(typer.BadParameter, match=said):
        find_queue(QUEUES, wanted, broker)


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
