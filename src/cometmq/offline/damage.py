"""Describes bytes of a log that cannot be read as messages, as found by a walk over the log."""

from typing import NamedTuple

from cometmq.offline.findings import Finding


class Damage(NamedTuple):
    """Bytes of the log that are not a valid record, or are a batch that cannot be decoded.

    Attributes:
        start: Physical offset of the first byte.
        end: Physical offset after the last byte.
        path: File in which it begins.
        at: Position of the first byte in that file.
        why: Description of the fault.
    """

    start: int
    end: int
    path: str
    at: int
    why: str

    def finding(self) -> Finding:
        """Return the damage as a `Finding` of the part "log"."""
        where = f"{self.path} at byte {self.at} (physical offset {self.start})"
        return Finding("log", where, self.why)

    def __str__(self) -> str:
        return str(self.finding())
