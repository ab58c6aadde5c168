"""docs/compatibility.md can be believed: its states are words, and compatibility.yml has the tests of each row."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "compatibility.md"
TESTS = ROOT / "tests" / "arch" / "compatibility.yml"
SCENARIOS = ROOT / "tests" / "interop" / "java" / "src" / "kit"
SCENARIO_TESTS = ROOT / "tests" / "interop" / "test_java_clients.py"

STATES = {"yes", "partly", "not yet", "differs"}
FEATURES = 103  # Rows of RocketMQ's feature list; a row may be added, none may be forgotten.
# How the tests are called that show what happens to who asks for what is not there.
REFUSAL = re.compile(
    r"refuse|does_not_start|stops_the_start|warn|is_named|names_it|no_command|is_said"
)
# What no request, setting, file or command can ask for; the row says so in these words.
UNASKED = "Nothing asks for it"


class Row(NamedTuple):
    """One feature."""

    section: str
    feature: str
    rocketmq: str
    state: str
    remark: str


@cache
def cells() -> tuple[tuple[str, ...], ...]:
    """The cells of all rows of all tables, each behind the section that it is in."""
    section, found = "", []
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            section = line[3:]
        if line.startswith("| "):
            found.append((section, *(each.strip() for each in line.strip()[1:-1].split("|"))))
    return tuple(each for each in found if each[1] not in {"feature", "subject", "---"})


@cache
def rows() -> tuple[Row, ...]:
    """The rows of all feature tables; the page's last table, of differences, has fewer columns."""
    return tuple(Row(*each) for each in cells() if len(each) == len(Row._fields))


@cache
def shown_by() -> dict[tuple[str, str], list[str]]:
    """The tests of each row, by section and first cell."""
    return {
        (section, row): tests
        for section, found in yaml.safe_load(TESTS.read_text()).items()
        for row, tests in found.items()
    }


@cache
def names_in(path: Path) -> frozenset[str]:
    """The names of all tests of a file."""
    return frozenset(
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    )


@cache
def scenarios() -> frozenset[str]:
    """The scenarios that exist for the official Java client and are run against our servers."""
    written = {
        name
        for path in SCENARIOS.glob("*.java")
        for name in re.findall(r'S\.put\("(\w+)"', path.read_text())
    }
    return frozenset(written.intersection(re.findall(r'"(\w+)"', SCENARIO_TESTS.read_text())))


def missing(reference: str) -> str | None:
    """What does not exist of `path::test` or `scenario:name`; None when it is there."""
    if reference.startswith("scenario:"):
        name = reference.removeprefix("scenario:")
        return None if name in scenarios() else f"no scenario {name}"
    file, _, test = reference.partition("::")
    path = ROOT / file
    if not path.is_file():
        return f"no file {file}"
    if test.partition("[")[0] not in names_in(path):
        return f"no {test} in {file}"
    return None


def test_every_feature_has_a_row() -> None:
    assert len(rows()) >= FEATURES


def test_states_are_words_of_the_legend() -> None:
    assert {row.state for row in rows()} <= STATES


def test_each_row_has_its_tests_and_no_others_are_listed() -> None:
    assert [each[:2] for each in cells()] == list(shown_by())


def test_what_is_there_is_shown_by_a_test() -> None:
    not_yet = {row[:2] for row in rows() if row.state == "not yet"}
    assert [row for row, tests in shown_by().items() if not tests and row not in not_yet] == []


def test_what_is_not_all_there_says_what_is_missing() -> None:
    bare = [
        row.feature for row in rows() if row.state in {"partly", "differs"} and not row.remark
    ]
    assert bare == []


def test_what_is_not_all_there_is_shown_to_be_refused() -> None:
    silent = [
        row.feature
        for row in rows()
        if row.state in {"partly", "not yet"}
        and UNASKED not in row.remark
        and not REFUSAL.search(
            " ".join(each.partition("::")[2] for each in shown_by()[row[:2]])
        )
    ]
    assert silent == []


def test_every_test_that_is_named_exists() -> None:
    named = [each for tests in shown_by().values() for each in tests]
    assert [fault for each in named if (fault := missing(each))] == []
