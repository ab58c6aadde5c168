"""Each finding of operators is held by tests, and these tests are there."""

import re
import tomllib
from pathlib import Path

FILE = Path(__file__).with_name("findings.toml")
ROOT = FILE.parents[2]
NUMBERED = 16


def test_each_finding_is_held_by_tests_that_exist() -> None:
    findings = tomllib.loads(FILE.read_text())["finding"]
    numbers = [
        int(found[1]) for each in findings if (found := re.match(r"(\d+)\. ", each["about"]))
    ]
    assert numbers == [*range(1, NUMBERED + 1)]
    for each in findings:
        assert each["tests"], each["about"]
        for test in each["tests"]:
            path, _, name = test.partition("::")
            found = re.search(
                rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE
            )
            assert found, f"{each['about']}: there is no {test}"
