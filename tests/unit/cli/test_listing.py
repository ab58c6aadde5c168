"""`--sort` and `--limit` of commands that print a list."""

from typing import Any, NamedTuple

import orjson
import pytest
import typer
from typer.testing import CliRunner

from cometmq.cli.asking import Lines, prints_list


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
        (("--limit", "0"), "greater than or equal to 1"),
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
