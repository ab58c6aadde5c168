"""A simulated disk of one member: what is written, and what of it would survive a power cut."""

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from cometmq.replication.group.history import Row
from cometmq.replication.group.member import HardState
from cometmq.replication.group.messages import Membership


class Record(NamedTuple):
    """A record of a log.

    Attributes:
        offset: Offset of its first byte.
        size: Its size in bytes.
        term: Term in which a leader appended it.
        content: Number of a client's record, or the membership of a record of the group's own.
    """

    offset: int
    size: int
    term: int
    content: object

    @property
    def end(self) -> int:
        """Offset at which it ends."""
        return self.offset + self.size


@dataclass(slots=True)
class Files:
    """Content of a member's files.

    Attributes:
        hard: Term and vote.
        terms: The table of terms.
        memberships: The table of memberships.
        begin: Offset at which the log begins.
        records: Its records.
    """

    hard: HardState = field(default_factory=HardState)
    terms: tuple[Row[int], ...] = ()
    memberships: tuple[Row[Membership], ...] = ()
    begin: int = 0
    records: list[Record] = field(default_factory=list)

    @property
    def end(self) -> int:
        """Offset at which the log ends."""
        return self.records[-1].end if self.records else self.begin


class Disk:
    """The files of a member.

    Attributes:
        files: As every process sees them.
        is_failing: Whether flushes fail.
    """

    def __init__(self) -> None:
        self.files = Files()
        self.is_failing = False
        self._hard = self.files.hard
        self._tables = self.files.terms, self.files.memberships
        self._log = 0, list[Record]()

    def flush_hard(self) -> None:
        """Flush term and vote."""
        self._hard = self.files.hard

    def flush_tables(self) -> None:
        """Flush the tables of terms and memberships."""
        self._tables = self.files.terms, self.files.memberships

    def flush_log(self, end: int | None = None) -> None:
        """Flush the log up to an offset; None: all of it."""
        files = self.files
        kept = (
            files.records
            if end is None
            else [each for each in files.records if each.end <= end]
        )
        self._log = files.begin, list(kept)

    def cut_power(self, chance: Random) -> None:
        """Lose what was not flushed, but for a random part of the log: the system writes it back in its own time."""
        files = self.files
        begin, records = self._log
        common = 0
        while (
            common < min(len(records), len(files.records))
            and records[common] == files.records[common]
        ):
            common += 1
        if common == len(records):
            added = files.records[common:]
            records = records + added[: chance.randint(0, len(added))]
        files.hard = self._hard
        files.terms, files.memberships = self._tables
        files.begin, files.records = begin, list(records)
        self._log = files.begin, list(records)
