"""Findings of a verification, gathered for people and programs."""

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

log = logging.getLogger(__name__)

KEPT_MAX = 1000  # Findings beyond these are counted only.


class Finding(NamedTuple):
    """One thing that is not as it should be.

    Attributes:
        part: log, queue, index or files.
        where: a file, or a queue and its offset.
        what: what is wrong, in words.
        is_error: False for what a start of the broker puts right, or what deleted topics leave.
    """

    part: str
    where: str
    what: str
    is_error: bool = True

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


OnFinding = Callable[[Finding], None]


def warn(finding: Finding) -> None:
    """Tell whoever reads the program's log of a finding, where nobody else asks for it."""
    log.warning("%s", finding)


class Findings:
    """All findings of a verification.

    Attributes:
        kept: the first ones.
        errors: how many errors there are in all.
        notes: how many others.
    """

    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self.errors = 0
        self.notes = 0

    def add(self, part: str, where: str, what: str, *, is_error: bool = True) -> None:
        """Write one down."""
        if is_error:
            self.errors += 1
        else:
            self.notes += 1
        if len(self.kept) < KEPT_MAX:
            self.kept.append(Finding(part, where, what, is_error))

    def take(self, finding: Finding) -> None:
        """Write down what somebody has found."""
        self.add_all([finding], int(finding.is_error), int(not finding.is_error))

    def told(self) -> list[Finding]:
        """The first ones, and a last one that says how many more there are."""
        more = self.errors + self.notes - len(self.kept)
        rest = [Finding("log", "and", f"{more:,} more")] if more else []
        return [*self.kept, *rest]

    def add_all(self, kept: Iterable[Finding], errors: int, notes: int) -> None:
        """Write down what another has found.

        Args:
            kept: the first of them.
            errors: how many errors there were in all.
            notes: how many others.
        """
        self.errors += errors
        self.notes += notes
        self.kept += list(kept)[: KEPT_MAX - len(self.kept)]
