"""One table of exit statuses: the errors of commands, and the page that says it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cometmq.model.errors import ConnectError, SettingsError, StoreDamaged
from cometmq.model.exit_status import ExitStatus, status_of

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SettingsError("listenPort=many"), 2),
        (StoreDamaged("no log file"), 3),
        (ConnectError("nobody there"), 3),
        (FileNotFoundError("gone"), 3),
    ],
)
def test_an_error_ends_with_its_status_and_none_with_that_of_findings(error, status):
    assert status_of(error) == status


def test_the_page_of_commands_has_the_same_table():
    rows = re.findall(r"^\| (\d) \| ", (ROOT / "docs/cli.md").read_text(), re.MULTILINE)
    assert [int(row) for row in rows] == list(ExitStatus)


def test_no_command_ends_with_a_number_of_its_own():
    """What ends a command names a row of the table; 0 is what an argument parser does by itself."""
    numbers = re.compile(r"(?:typer\.Exit|sys\.exit)\(\s*\d|returncode=\d|STATUS_\w+ = \d")
    sources = [
        path
        for folder in ("cli", "spark/jobs", "broker", "nameserver", "embedded", "offline")
        for path in (ROOT / "src/cometmq" / folder).rglob("*.py")
    ]
    assert [path for path in sources if numbers.search(path.read_text())] == []
