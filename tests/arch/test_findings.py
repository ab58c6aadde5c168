"""What operators and users found wrong is held by tests: each finding of the data files names some, and these exist."""

from __future__ import annotations

import re
import tomllib
from string import ascii_lowercase

import pytest

from tests.arch.test_compatibility import ROOT, missing


def numbered(letter: str, count: int) -> set[str]:
    return {f"{letter}{number}" for number in range(1, count + 1)}


# The findings that each file must have; those without a name may come and go.
FILES = {
    "tests/operate/findings.toml": numbered("", 16),
    "tests/arch/server_findings.toml": {
        *ascii_lowercase[: ascii_lowercase.index("x") + 1],
        *numbered("S", 14),
        "S16",
        "S18",
        "S20",
        "S21",  # The others are told in pages.
        *numbered("U", 8),
        "R0",
        *numbered("R", 10),
        *numbered("D", 6),
    },
    "tests/arch/client_findings.toml": {
        *ascii_lowercase[: ascii_lowercase.index("u") + 1],
        *numbered("F", 19),
        *numbered("B", 13),
        *numbered("N", 11),
    },
}
NAMES = re.compile(r"((?:[A-Z]?\d+|[a-z])(?:, (?:[A-Z]?\d+|[a-z]))*)\. ")


@pytest.mark.parametrize("file", FILES)
def test_each_finding_is_held_by_tests_that_exist(file: str) -> None:
    findings = tomllib.loads((ROOT / file).read_text())["finding"]
    named = [found[1].split(", ") for each in findings if (found := NAMES.match(each["about"]))]
    assert {name for names in named for name in names} == FILES[file]
    assert [each["about"] for each in findings if not each["tests"]] == []
    held = [(each["about"], test) for each in findings for test in each["tests"]]
    assert [(about, fault) for about, test in held if (fault := missing(test))] == []
