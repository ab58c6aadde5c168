"""docs/operate/json.md and json-store.md have the fields of each command that prints JSON, and of none that does not."""

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from cometmq.cli.__main__ import app
from tests.support import json_tables
from tools import json_page

# Their file or output is JSON without being asked for.
ALWAYS = {"offset export", "dlq export"}


def commands() -> Iterator[str]:
    """Those with --json."""
    group: Any = get_command(app)
    context = group.make_context("cometmq", [], resilient_parsing=True)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        parts = getattr(command, "commands", {})
        for part, each in parts.items() if parts else [("", command)]:
            if any("--json" in parameter.opts for parameter in each.params):
                yield f"{name} {part}".strip()


def test_each_command_that_prints_json_has_its_fields_on_the_page() -> None:
    # Parts of others have no verb of a command: they are named without backticks.
    sections = {
        name
        for page in json_tables.PAGES
        for line in page.read_text().splitlines()
        if line.startswith("## ")
        for name in line.removeprefix("## ").replace("`", "").split(", ")
    }
    assert sections == set(commands()) | ALWAYS


def test_the_tables_of_classes_are_made_of_their_docstrings() -> None:
    assert json_page.main(["--check"]) == 0
