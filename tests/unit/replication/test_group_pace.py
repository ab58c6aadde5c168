"""What a leader sends in a second to a member that is far behind, with a clock that the test turns."""

from __future__ import annotations

import pytest

from cometmq.replication.far_slave_rate import FarSlaveRate
from cometmq.replication.group.followers import Followers
from cometmq.replication.group.group_log import GroupLog
from cometmq.replication.group.history import Row
from cometmq.replication.group.messages import Append, AppendAnswer, Membership
from cometmq.replication.group.timing import GroupTiming
from cometmq.replication.terms import SlaveRates

MIB = 1 << 20
TIMING = GroupTiming(part_size=MIB // 4, window_size=4 * MIB)
BEHIND = 1 << 40
NO_LIMIT = 1 << 31  # More than any limit here allows in the time of a test.
CATCH_UP = SlaveRates(catch_up=100 * MIB)


class Leader:
    """The leader n0 of n0, n1 and n2, of which n1 lacks the log and takes what it is sent at once."""

    def __init__(self, rates: SlaveRates = CATCH_UP, *, grows: int = 30 * MIB) -> None:
        membership = Membership(("n0", "n1", "n2"), ("n3",))
        self.log = GroupLog(0, BEHIND, membership=membership, terms=[Row(0, 1)])
        self.followers = Followers(
            "n0", 1, self.log, TIMING, FarSlaveRate(rates), lambda _begin, limit: limit
        )
        self.now = 7_000
        self.grows = grows
        self.sent = 0  # To the member that is behind.

    def answers(self, member: str, end: int) -> None:
        self.followers.answered(AppendAnswer(member, 1, self.now, True, end, end, 1))

    def bytes_in(self, seconds: int, behind: str = "n1", *, hears: tuple[str, ...]) -> int:
        """Send to a member as often as it may be sent to; how much it gets."""
        self.answers(behind, self.sent)
        began, until, beat_at = self.sent, self.now + seconds * 1000, self.now
        while self.now < until and self.sent - began < NO_LIMIT:
            if self.now >= beat_at:
                beat_at += TIMING.beat_ms
                self.log.end += self.grows * TIMING.beat_ms // 1000
                for each in hears:
                    self.answers(each, self.log.end)
                self.followers.set_paces(self.now)
            parts = list(self.followers.parts(behind, self.now, is_beat=False))
            self.sent += sum(
                each.end - each.begin for each in parts if isinstance(each, Append)
            )
            self.answers(behind, self.sent)
            if not parts:
                self.now = min(self.followers.send_at() or beat_at, beat_at)
        return self.sent - began


def test_it_gets_so_much_a_second_that_producers_keep_their_rate():
    got = Leader().bytes_in(10, hears=("n2",))
    assert 0.95 < got / (10 * CATCH_UP.catch_up) <= 1.01


def test_the_limit_of_the_operator_is_kept_and_leaves_no_part_too_large_for_it():
    leader = Leader(SlaveRates(most=MIB))
    assert 0.9 < leader.bytes_in(10, hears=("n2",)) / (10 * MIB) <= 1.01


@pytest.mark.parametrize(
    "leader",
    [Leader(grows=0), Leader(SlaveRates())],
    ids=["nobody sends", "without a limit"],
)
def test_it_gets_what_it_takes_if_nobody_would_notice(leader):
    leader.bytes_in(1, hears=("n2",))  # Until it is known how much the log grows.
    assert leader.bytes_in(1, hears=("n2",)) >= NO_LIMIT


def test_one_that_producers_wait_for_gets_what_it_takes():
    """Without it there is no majority, because n2 is silent."""
    assert Leader().bytes_in(1, hears=()) >= NO_LIMIT


def test_no_producer_waits_for_a_learner():
    assert Leader().bytes_in(2, "n3", hears=()) <= 2.02 * CATCH_UP.catch_up


def test_bytes_that_are_not_in_memory_are_sent_once_they_are_read():
    leader = Leader(SlaveRates())
    are_read = False
    leader.followers._cut = lambda begin, limit: limit if are_read else begin
    leader.answers("n1", 0)
    assert not list(leader.followers.parts("n1", leader.now, is_beat=False))
    assert leader.followers.send_at() == leader.now + 5
    are_read = True
    assert list(leader.followers.parts("n1", leader.now + 5, is_beat=False))
    assert leader.followers.send_at() is None
