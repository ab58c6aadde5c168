"""What people and programs see of a message."""

import re
from typing import Any, NamedTuple

import orjson
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from cometmq.cli import output
from cometmq.cli.asking import Lines, prints_list
from cometmq.cli.store_text import print_plan
from cometmq.model.message import StoredMessage
from cometmq.model.message_json import message_json
from cometmq.model.queue import MessageQueue
from cometmq.offline.known_queues import QueueId
from cometmq.offline.repair import RepairPlan


def stored(body: bytes = b'{"id": 17}', **properties: str) -> StoredMessage:
    return StoredMessage(
        queue=MessageQueue("orders", "broker-a", 3),
        queue_offset=1042,
        message_id="AC1100010007",
        offset_message_id="0A",
        body=body,
        properties={"TAGS": "created", "KEYS": "A-17 B-2", **properties},
        born_ms=1_700_000_000_000,
        born_host="127.0.0.1:5000",
        stored_ms=1_700_000_000_123,
        store_host="127.0.0.1:10911",
    )


def test_a_line_holds_time_place_tag_keys_properties_and_body() -> None:
    line = output.message_line(stored(colour="blue")).plain
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d\.123 q3#1042 created key=A-17 key=B-2 colour=blue  \{\"id\": 17\}",
        line,
    )


def test_a_tag_has_its_colour_and_the_body_has_none() -> None:
    console = Console(color_system="truecolor", force_terminal=True, soft_wrap=True)
    with console.capture() as capture:
        console.print(output.message_line(stored()))
    text = capture.get()
    assert re.search(r"\x1b\[1;\d+m created", text)
    assert text.rstrip().endswith('  {"id": 17}')


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"plain", "plain"),
        ("Grüße 🚀".encode(), "Grüße 🚀"),
        (b"one\ntwo\n", "one⏎two"),
        (b"", ""),
        (b"\xff\x00", "<2 bytes: ff 00>"),
        (b"\x1b[2J", "<4 bytes: 1b 5b 32 4a>"),
        (b"\xff" * 40, "<40 bytes: " + " ".join(["ff"] * 32) + "…>"),
    ],
)
def test_a_body_is_shown_as_text_only_where_it_is_text(body: bytes, shown: str) -> None:
    assert output.body_text(body) == shown


def test_no_property_can_steer_the_terminal() -> None:
    line = output.message_line(stored(evil="\x1b]0;title\x07")).plain
    assert "\x1b" not in line
    assert "\x07" not in line
    assert r"evil=\x1b]0;title\x07" in line


def test_json_holds_everything_and_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json(message_json(stored(colour="blue")))
    printed = orjson.loads(capsys.readouterr().out)
    assert printed == {
        "topic": "orders",
        "broker": "broker-a",
        "queue": 3,
        "offset": 1042,
        "id": "AC1100010007",
        "offset_id": "0A",
        "tag": "created",
        "keys": ["A-17", "B-2"],
        "properties": {"colour": "blue"},
        "born_ms": 1_700_000_000_000,
        "stored_ms": 1_700_000_000_123,
        "reconsume_times": 0,
        "body": '{"id": 17}',
    }


def test_a_body_that_is_no_text_is_hexadecimal_in_json() -> None:
    printed = message_json(stored(body=b"\xff\x00"))
    assert printed["body_hex"] == "ff00"
    assert "body" not in printed


def test_a_table_stands_numbers_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(("topic", "messages"), [("orders", 5), ("invoices", 1200)])
    head, first, second = [
        line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()
    ]
    assert head.split() == ["topic", "messages"]
    assert len(first) == len(second) == len(head)


def test_times_are_dates_durations_keep_their_unit_and_long_lists_are_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = (1_700_000_000_000, 1.5, ["a", "b", "c", "d"], ["a", "b", "c", "d", "e"])
    output.print_table(("last_ms", "pull_ms", "few", "many"), [row])
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["last", "pull_ms", "few", "many"]
    assert re.fullmatch(
        r"2023-11-1\d \d\d:\d\d:20 +1\.5   a, b, c, d   a, b, c, … 5 in all", line
    )


def test_an_error_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_error("no route of orders;\n  create it")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "error: no route of orders; create it\n"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\u202eb\u200fc", "a\\u202eb\\u200fc"),
        ("ä\r\n\0", "ä\\r\\n\\x00"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
    ],
)
def test_names_of_strangers_are_shown_and_never_run(
    name: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output.print_table(("name",), [(name,)])
    assert capsys.readouterr().out.splitlines()[1].rstrip() == shown


class FruitLine(NamedTuple):
    """A line of a list."""

    name: str
    weight: int | None
    colours: list[str]


FRUIT = [
    FruitLine("pear", 20, ["green"]),
    FruitLine("plum", None, []),
    FruitLine("apple", 30, ["red", "green"]),
    FruitLine("fig", 5, ["brown"]),
]
app = typer.Typer()


@app.command()
@prints_list(FruitLine._fields, "none")
def fruit(*, big: bool = False) -> Lines:
    """Print fruit."""
    return Lines([line for line in FRUIT if not big or (line.weight or 0) > 10])


def names(*arguments: str) -> str:
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    return " ".join(each["name"] for each in orjson.loads(done.stdout))


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ((), "pear plum apple fig"),
        (("--sort", "name"), "apple fig pear plum"),
        (("--sort", "-name"), "plum pear fig apple"),
        (("--sort", "weight"), "fig pear apple plum"),
        (("--sort=-weight",), "apple pear fig plum"),
        (("--sort", "colours"), "plum fig pear apple"),
        (("--limit", "2"), "pear plum"),
        (("--sort", "weight", "--limit", "1"), "fig"),
        (("--big", "--sort=-weight", "--limit", "9"), "apple pear"),
    ],
)
def test_lines_are_sorted_and_limited(arguments: tuple[str, ...], printed: str) -> None:
    assert names(*arguments) == printed


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--sort", "size"), "there is no column 'size'; choose one of name, weight, colours"),
        (("--sort", "--limit"), "there is no column '-limit'"),
        (("--limit", "0"), "Invalid value for '--limit'"),
    ],
)
def test_a_wrong_choice_is_refused(arguments: tuple[str, ...], says: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert says in " ".join(done.output.replace("│", " ").split())


def test_columns_are_completed() -> None:
    command: Any = typer.main.get_command(app)
    (sort,) = (each for each in command.params if each.name == "sort")
    context = typer.Context(command)
    for word, found in (("w", ["weight"]), ("-n", ["-name"]), ("x", [])):
        assert [each.value for each in sort.shell_complete(context, word)] == found


@pytest.mark.parametrize(
    ("count", "says"),
    [
        (1, "1 queue and 1 index file rebuilt from 1 record"),
        (2, "2 queues and 2 index files rebuilt from 2 records"),
    ],
)
def test_a_repair_of_one_queue_says_so(capsys, count, says):
    queues = [QueueId("orders", number) for number in range(count)]
    print_plan(RepairPlan([], False, 0, 0, queues, count, count))
    assert says in " ".join(capsys.readouterr().out.split())
