"""Adds up the test reports of a run of all suites: the reasons of failures, then the counts.

Usage: count_tests.py REPORTS FAILED_SUITES --checks SUITES
       count_tests.py REPORTS --failed-of SUITE

The last line is `N passed, N failed, N skipped`; of one suite it is how many tests failed.

Reports are JUnit files that pytest wrote; those in the folder `second` are of tests that failed and were run once more.
One that passes there counts as passed, and is named with the reason of its first failure. A suite without a report (the
static checks) counts as one test. A suite that failed without a failing test of its own (it could not start, or its
time ran out) counts as one failure, so that the line never looks better than the run. The reasons stand here once more
because of a long run often only the end is kept.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

LINES_OF_A_REASON = 40
LINE_LENGTH = 300
SECOND = "second"
BAD = ("failure", "error")


class Counts(NamedTuple):
    """The numbers of tests of a run, by outcome.

    Attributes:
        passed: at the first or the second try.
        failed: at every try that they had.
        skipped: not run.
        late: of those that passed, at the second try only.
    """

    passed: int
    failed: int
    skipped: int
    late: int = 0


def _cases(report: Path) -> Iterator[tuple[str, ElementTree.Element]]:
    """The tests of a report with their names."""
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        yield f"{case.get('classname')}::{case.get('name')}", case


def failures(report: Path) -> set[str]:
    """The names of the tests that failed in a report, or had an error around them."""
    return {name for name, case in _cases(report) for tag in BAD if case.find(tag) is not None}


def passed_later(report: Path) -> set[str]:
    """The names of the tests that failed in a report and passed when they were run once more."""
    second = report.parent / SECOND / report.name
    if not second.exists():
        return set()
    passed = {name for name, case in _cases(second) if case.find("skipped") is None}
    return (passed - failures(second)) & failures(report)


def counts_of(report: Path) -> Counts:
    """The numbers of tests in one report, by outcome.

    A test that failed and then had an error in what cleans up after it is two elements there, and one test.
    """
    tests = {name for name, _ in _cases(report)}
    late = passed_later(report)
    failed = failures(report) - late
    skipped = {name for name, case in _cases(report) if case.find("skipped") is not None}
    passed = tests - failed - skipped
    return Counts(len(passed), len(failed), len(skipped - failed), len(late))


def reasons(reports: Path) -> Iterator[str]:
    """Of each test that failed its name, its seconds and the end of its traceback."""
    for report in sorted(reports.glob("*.xml")):
        later = passed_later(report)
        for name, case in _cases(report):
            for bad in (each for tag in BAD for each in case.findall(tag)):
                then = ", passed at the second try" if name in later else ""
                yield f"--- {report.stem}: {name} ({bad.tag} after {case.get('time')} s{then})"
                lines = (bad.text or bad.get("message") or "").splitlines()
                yield from (line[:LINE_LENGTH] for line in lines[-LINES_OF_A_REASON:])


def total(reports: Path, *, failed_suites: int, suites: int) -> Counts:
    """The numbers of tests in the whole run, by outcome."""
    files = sorted(reports.glob("*.xml"))
    found = [counts_of(report) for report in files]
    passed, failed, skipped, late = (
        (sum(each) for each in zip(*found, strict=True)) if found else (0, 0, 0, 0)
    )
    silent_failures = max(0, failed_suites - sum(each.failed > 0 for each in found))
    without_report = suites - len(files)
    passed += max(0, without_report - silent_failures)
    return Counts(passed, failed + silent_failures, skipped, late)


def main() -> int:
    """Print the sum; exit 1 where nothing ran."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", type=Path)
    parser.add_argument("failed_suites", type=int, nargs="?", default=0)
    parser.add_argument("--checks", type=int, default=0, metavar="SUITES")
    parser.add_argument("--failed-of", metavar="SUITE")
    given = parser.parse_args()
    if given.failed_of is not None:
        report = given.reports / f"{given.failed_of}.xml"
        print(len(failures(report)) if report.exists() else 0)
        return 0
    for line in reasons(given.reports):
        print(line)
    counts = total(given.reports, failed_suites=given.failed_suites, suites=given.checks)
    if counts.late:
        print(f"{counts.late} of those that passed did so at the second try only: see above")
    print(f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return 0 if counts.passed and not counts.failed else 1


if __name__ == "__main__":
    sys.exit(main())
