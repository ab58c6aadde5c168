"""Periods and sizes that the members of a group keep to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupTiming:
    """Periods in ms and sizes in bytes.

    Attributes:
        beat_ms: Period of heartbeats.
        election_ms: Time without a leader after which a member stands for election, at least; and time for which a voter
            that has heard a leader votes for no other member.
        election_spread_ms: Random time that is added, so that members rarely stand together.
        lease_ms: Time after a beat was sent for which a leader may answer, if a majority answered the beat. The rest of
            `election_ms` is for clocks of different speed.
        part_size: Maximum size of one part of the log, unless a record is larger.
        window_size: Maximum total size of the parts of the log that a follower has not answered yet.
    """

    beat_ms: int = 200
    election_ms: int = 1_500
    election_spread_ms: int = 500
    lease_ms: int = 1_000
    part_size: int = 1 << 20
    window_size: int = 8 << 20

    def __post_init__(self) -> None:
        assert self.beat_ms * 2 < self.lease_ms < self.election_ms
