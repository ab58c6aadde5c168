"""Findings about a store or an archive, for people and programs."""

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

log = logging.getLogger(__name__)

KEPT_MAX = 1000  # Further findings are only counted.


class Finding(NamedTuple):
    """One problem that was found in a store or an archive.

    Attributes:
        part: What is concerned: "log", "queue", "index" or "archive".
        where: Place of the problem, such as a file or a queue and its offset.
        what: Description of the problem.
        is_error: False for something that a broker's start may repair, or that deleted topics leave.
    """

    part: str
    where: str
    what: str
    is_error: bool = True

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


OnFinding = Callable[[Finding], None]


def warn(finding: Finding) -> None:
    """Write a finding to the program's log."""
    log.warning("%s", finding)


class Findings:
    """Collected findings: `kept` has the first 1,000; `errors` and `notes` count all, by `is_error`."""

    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self.errors = 0
        self.notes = 0

    def add(self, part: str, where: str, what: str, *, is_error: bool = True) -> None:
        """Count a finding, given by its parts, and keep it if it is among the first 1,000."""
        if is_error:
            self.errors += 1
        else:
            self.notes += 1
        if len(self.kept) < KEPT_MAX:
            self.kept.append(Finding(part, where, what, is_error))

    def take(self, finding: Finding) -> None:
        """Count an existing finding, and keep it if it is among the first 1,000."""
        self.add_all([finding], int(finding.is_error), int(not finding.is_error))

    def told(self) -> list[Finding]:
        """Return the first 1,000 findings and, if there are more, one that states the number of further ones."""
        more = self.errors + self.notes - len(self.kept)
        rest = [Finding("log", "and", f"{more:,} more")] if more else []
        return [*self.kept, *rest]

    def add_all(self, kept: Iterable[Finding], errors: int, notes: int) -> None:
        """Add findings collected elsewhere: the first ones, and the total numbers of errors and other findings."""
        self.errors += errors
        self.notes += notes
        self.kept += list(kept)[: KEPT_MAX - len(self.kept)]
