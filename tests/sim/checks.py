"""What must hold at every step of a run."""

from tests.sim.disk import Files, Record, Sent


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
        self._places: dict[tuple[int, int], Record] = {}

    def leads(self, member: str, term: int, files: Files) -> None:
        """Note that a member leads a term: nobody else may, and it has everything that was acknowledged."""
        other = self.leaders.setdefault(term, member)
        assert other == member, f"{other} and {member} lead term {term}"
        self.holds_all(member, files)

    def committed(self, member: str, begin: int, end: int, files: Files) -> None:
        """Note what a member holds for committed: all members hold the same, for ever."""
        assert files.end >= end, f"{member} has committed {end} and its log ends at {files.end}"
        for record in reversed(files.records):
            if record.end <= begin:
                break
            if record.end <= end:
                other = self._committed.setdefault(record.offset, record)
                assert other == record, f"{member} committed {record}, another {other}"
                self._placed(record)

    def _placed(self, record: Record) -> None:
        """Note the place of a committed record in a queue: no other record may have it."""
        if isinstance(record.content, Sent):
            _, queue, queue_offset = record.content
            other = self._places.setdefault((queue, queue_offset), record)
            assert other == record, f"{record} and {other} have one place in a queue"

    def acknowledged(self, member: str, record: Record, term: int) -> None:
        """Note that a client was answered: the record is committed, and no later leader has been elected."""
        assert self._committed.get(record.offset) == record, (
            f"{member} answered {record}, which is not committed"
        )
        latest = max(self.leaders)
        assert term == latest, (
            f"{member} answered in term {term} after the election of {latest}"
        )
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
