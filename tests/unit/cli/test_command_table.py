"""cometmq.cli.command_table: every command is found where the table says, and only the one that is asked for is imported."""

import re

from typer.main import get_command

from cometmq.cli.__main__ import app
from cometmq.cli.command_table import TABLE
from tests.support.programs import said_by_python

# Modules of commands that `cometmq cluster list` does not need.
OTHERS = {f"cometmq.cli.{name}" for name in ("accounts", "store", "groups", "programs")}


def test_each_name_leads_to_its_command() -> None:
    commands = get_command(app)
    context = commands.make_context("cometmq", [], resilient_parsing=True)
    names = commands.list_commands(context)  # type: ignore[attr-defined]
    assert names == list(TABLE)
    for name in names:
        command = commands.get_command(context, name)  # type: ignore[attr-defined]
        assert command.name == name
        assert " ".join(command.help.split("\n\n")[0].split()) == TABLE[name].help
    assert commands.get_command(context, "clster") is None  # type: ignore[attr-defined]


def _help(*arguments: str) -> tuple[str, set[str]]:
    """The help that `cometmq` prints, and which of its modules it has imported for it."""
    code = "import sys; from cometmq.cli.__main__ import app; app(sys.argv[1:], standalone_mode=False); print(*sys.modules)"
    said = said_by_python("-c", code, *arguments, "--help", COLUMNS="400")
    text, _, modules = said.rpartition("\n")
    return text, {each for each in modules.split() if each.startswith("cometmq.cli.")}


def test_a_command_does_not_wait_for_the_others() -> None:
    _text, found = _help("cluster", "list")
    assert "cometmq.cli.brokers" in found
    assert found.isdisjoint(OTHERS)


def test_the_list_of_all_commands_waits_for_none() -> None:
    text, found = _help()
    assert all(name in text and entry.help in text for name, entry in TABLE.items())
    assert {entry.panel for entry in TABLE.values()} == set(re.findall(r"─ (\w+) ─", text)) - {
        "Options"
    }
    assert found.isdisjoint({*OTHERS, "cometmq.cli.brokers"})
