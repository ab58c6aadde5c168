"""Bytes of a log that are no sound record: every walk over a log tells of them in the same way."""

from typing import NamedTuple

from cometmq.offline.findings import Finding


class Damage(NamedTuple):
    """Bytes of the log that are no sound record.

    Attributes:
        start: physical offset of the first.
        end: and behind the last: where the next sound record begins, or what was walked over ends.
        path: the file that it begins in.
        at: place of the first in that file, bytes.
        why: what is wrong there.
    """

    start: int
    end: int
    path: str
    at: int
    why: str

    def finding(self) -> Finding:
        """The place of the damage, and what it is."""
        where = f"{self.path} at byte {self.at} (physical offset {self.start})"
        return Finding("log", where, self.why)

    def __str__(self) -> str:
        return str(self.finding())
