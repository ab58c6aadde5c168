"""The table of tests/attacks/README.md can be believed: its tests exist, and no file of the folder is left out."""

import re

from tests.arch.test_compatibility import ROOT, missing

FOLDER = ROOT / "tests" / "attacks"
NAMED = re.findall(r"`(test_\w+\.py::test_\w+)`", (FOLDER / "README.md").read_text())


def test_every_attack_that_is_named_exists() -> None:
    assert len(NAMED) > 100
    assert [fault for each in NAMED if (fault := missing(f"tests/attacks/{each}"))] == []


def test_every_file_of_attacks_is_in_the_table() -> None:
    files = {path.name for path in FOLDER.glob("test_*.py")}
    assert files - {each.partition("::")[0] for each in NAMED} == set()
