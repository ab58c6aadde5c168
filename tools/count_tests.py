"""Adds up the test reports of a run of all suites: the reasons of failures, then the counts.

Usage: count_tests.py REPORTS FAILED_SUITES --checks SUITES

The last line is `N passed, N failed, N skipped`.

Reports are JUnit files that pytest wrote. A suite without one (the static checks) counts as one test. A
suite that failed without a failing test of its own (it could not start, or its time ran out) counts as one
failure, so that the line never looks better than the run. The reasons stand here once more because of a
long run often only the end is kept.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

LINES_OF_A_REASON = 40
LINE_LENGTH = 300


def counts_of(report: Path) -> tuple[int, int, int]:
    """Tests passed, failed and skipped in one JUnit report."""
    passed = failed = skipped = 0
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        tests, bad = (
            int(suite.get("tests", 0)),
            int(suite.get("failures", 0)) + int(suite.get("errors", 0)),
        )
        left_out = int(suite.get("skipped", 0))
        passed, failed, skipped = (
            passed + tests - bad - left_out,
            failed + bad,
            skipped + left_out,
        )
    return passed, failed, skipped


def reasons(reports: Path) -> Iterator[str]:
    """Of each test that failed its name, its seconds and the end of its traceback."""
    for report in sorted(reports.glob("*.xml")):
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            for tag in ("failure", "error"):
                for bad in case.findall(tag):
                    name = f"{case.get('classname')}::{case.get('name')}"
                    yield f"--- {report.stem}: {name} ({tag} after {case.get('time')} s)"
                    lines = (bad.text or bad.get("message") or "").splitlines()
                    yield from (line[:LINE_LENGTH] for line in lines[-LINES_OF_A_REASON:])


def total(reports: Path, *, failed_suites: int, suites: int) -> tuple[int, int, int]:
    """Tests passed, failed and skipped in the whole run."""
    passed = failed = skipped = broken = 0
    files = sorted(reports.glob("*.xml"))
    for report in files:
        good, bad, left_out = counts_of(report)
        passed, failed, skipped = passed + good, failed + bad, skipped + left_out
        broken += bad > 0
    silent_failures = max(0, failed_suites - broken)
    without_report = suites - len(files)
    return passed + max(0, without_report - silent_failures), failed + silent_failures, skipped


def main() -> int:
    """Print the sum; exit 1 where nothing ran."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", type=Path)
    parser.add_argument("failed_suites", type=int)
    parser.add_argument("--checks", type=int, required=True, metavar="SUITES")
    given = parser.parse_args()
    for line in reasons(given.reports):
        print(line)
    passed, failed, skipped = total(
        given.reports, failed_suites=given.failed_suites, suites=given.checks
    )
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
