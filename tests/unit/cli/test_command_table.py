"""cometmq.cli.command_table: every command is found where the table says, and only the one that is asked for is imported."""

import subprocess
import sys
from itertools import groupby

import typer
from typer.main import get_command, get_group

from cometmq.cli.__main__ import app
from cometmq.cli.command_table import TABLE


def test_a_function_adds_the_names_that_the_table_gives_it() -> None:
    by_function = sorted(TABLE, key=lambda name: TABLE[name].__name__)
    for add, names in groupby(by_function, key=TABLE.__getitem__):
        part = typer.Typer()
        part.callback()(lambda: None)
        add(part)
        assert set(get_group(part).commands) == set(names)


def test_each_name_leads_to_its_command() -> None:
    commands = get_command(app)
    context = commands.make_context("cometmq", [], resilient_parsing=True)
    names = commands.list_commands(context)  # type: ignore[attr-defined]
    assert names == list(TABLE)
    for name in names:
        assert commands.get_command(context, name).name == name  # type: ignore[attr-defined]
    assert commands.get_command(context, "clster") is None  # type: ignore[attr-defined]


def test_a_command_does_not_wait_for_the_others() -> None:
    code = "import sys; from cometmq.cli.__main__ import app; app(sys.argv[1:], standalone_mode=False); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, "cluster", "list", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found = {each for each in done.stdout.split() if each.startswith("cometmq.cli.")}
    assert "cometmq.cli.brokers" in found
    assert found.isdisjoint(
        {
            "cometmq.cli.accounts",
            "cometmq.cli.store",
            "cometmq.cli.groups",
            "cometmq.cli.programs",
        }
    )
