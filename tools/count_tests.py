"""Adds up the test reports of a run of all suites and prints `N passed, N failed, N skipped`.

Usage: count_tests.py REPORTS FAILED_SUITES --checks SUITES

Reports are JUnit files that pytest wrote. A suite without one (the static checks) counts as one test. A
suite that failed without a failing test of its own (it could not start, or its time ran out) counts as one
failure, so that the line never looks better than the run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from xml.etree import ElementTree


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
    passed, failed, skipped = total(
        given.reports, failed_suites=given.failed_suites, suites=given.checks
    )
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
