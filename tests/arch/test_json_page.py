"""docs/operate/json.md and json-store.md have the fields of each command that prints JSON, and of none that does not."""

import re

from tests.support import json_tables
from tests.support.command_line import commands
from tools import json_page

# Their file or output is JSON without being asked for.
ALWAYS = {"offset export", "dlq export"}


def test_each_command_that_prints_json_has_its_fields_on_the_page() -> None:
    # Parts of others have no verb of a command: they are named without backticks.
    sections = {
        name
        for page in json_tables.PAGES
        for line in page.read_text().splitlines()
        if line.startswith("## ")
        for name in line.removeprefix("## ").replace("`", "").split(", ")
    }
    printing = {
        " ".join(words)
        for words, command in commands().items()
        if any("--json" in each.opts for each in command.params)
    }
    assert sections == printing | ALWAYS


def test_all_fields_are_named_alike() -> None:
    names = {name for _, fields in json_tables.schemas().values() for name in fields}
    assert [name for name in names if not re.fullmatch(r"[a-z]+(_[a-z]+)*", name)] == []


def test_the_tables_of_classes_are_made_of_their_docstrings() -> None:
    assert json_page.main(["--check"]) == 0
