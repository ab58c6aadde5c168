"""A simulated disk of one member: what is written, and what of it would survive a power cut."""

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from cometmq.replication.group.history import Row
from cometmq.replication.group.member import HardState
from cometmq.replication.group.messages import Membership


class Sent(NamedTuple):
    """Content of a client's record: its number, and its place in a queue."""

    number: int
    queue: int
    queue_offset: int


class Record(NamedTuple):
    """A record of a log.

    Attributes:
        offset: Offset of its first byte.
        size: Its size in bytes.
        term: Term in which a leader appended it.
        content: What a client sent, or the membership of a record of the group's own.
    """

    offset: int
    size: int
    term: int
    content: Sent | Membership

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
        """Lose what was not flushed, but for what the system wrote back in its own time.

        A small file is the old one or the new one. The log ends after any byte; the next start cuts the record that is
        torn there. A truncation is lost, or done, or done in part.
        """
        files = self.files
        files.hard = chance.choice((self._hard, files.hard))
        terms, memberships = self._tables
        files.terms = chance.choice((terms, files.terms))
        files.memberships = chance.choice((memberships, files.memberships))
        begin, records = self._log
        common = 0
        for flushed, written in zip(records, files.records, strict=False):
            if flushed != written:
                break
            common += 1
        if common < len(records):
            records = records[: chance.randint(common, len(records))]
        elif common < len(files.records):
            torn_at = chance.uniform(files.records[common].offset, files.end)
            records = records + [each for each in files.records[common:] if each.end <= torn_at]
        files.begin, files.records = begin, list(records)
        self.flush_hard()
        self.flush_tables()
        self.flush_log()
