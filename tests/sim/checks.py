"""What must hold at every step of a run."""

from tests.sim.disk import Files, Record


class Checks:
    """Everything that the members of a group were seen to do.

    Attributes:
        acknowledged_count: Number of records that clients were told to be safe.
        leaders: Leader of each term.
    """

    def __init__(self) -> None:
        self.leaders: dict[int, str] = {}
        self.acknowledged_count = 0
        self._committed: dict[int, Record] = {}
        self._acknowledged: dict[int, Record] = {}
        self._latest_term = 0

    def leads(self, member: str, term: int) -> None:
        """Note that a member leads a term: nobody else may."""
        other = self.leaders.setdefault(term, member)
        assert other == member, f"{other} and {member} lead term {term}"

    def committed(self, member: str, begin: int, end: int, files: Files) -> None:
        """Note what a member holds for committed: all members hold the same, for ever."""
        assert files.end >= end, f"{member} has committed {end} and its log ends at {files.end}"
        for record in reversed(files.records):
            if record.end <= begin:
                break
            if record.end <= end:
                other = self._committed.setdefault(record.offset, record)
                assert other == record, f"{member} committed {record}, another {other}"

    def acknowledged(self, member: str, record: Record, term: int) -> None:
        """Note that a client was answered: the record is committed, and no later leader has answered anybody before."""
        assert self._committed.get(record.offset) == record, (
            f"{member} answered {record}, which is not committed"
        )
        assert term >= self._latest_term, (
            f"{member} answered in term {term} after {self._latest_term}"
        )
        self._latest_term = term
        self._acknowledged[record.offset] = record
        self.acknowledged_count += 1

    def holds_all(self, member: str, files: Files) -> None:
        """Check that a member that has caught up holds everything that was acknowledged, at its place."""
        records = {record.offset: record for record in files.records}
        for offset, record in self._acknowledged.items():
            if offset >= files.begin:
                assert records.get(offset) == record, (
                    f"{member} lost {record}, which was acknowledged"
                )
