"""A member that leads, and what it sends when it loses the lead, with messages and a clock by hand."""

from __future__ import annotations

from cometmq.replication.far_slave_rate import FarSlaveRate
from cometmq.replication.group.group_log import GroupLog
from cometmq.replication.group.history import Row
from cometmq.replication.group.member import HardState, RaftMember, RaftRole
from cometmq.replication.group.messages import (
    Append,
    AppendAnswer,
    Membership,
    VoteAnswer,
)
from cometmq.replication.group.timing import GroupTiming
from cometmq.replication.terms import SlaveRates

NOW = 1_000


def leader() -> RaftMember:
    """Return n0, which leads n1 and n2 in the term 1, with a log of 100 bytes that n1 has."""
    member = RaftMember(
        "n0", GroupLog(0, 0, membership=Membership(("n0", "n1", "n2"))), HardState(run=1),
        timing=GroupTiming(), is_flushed=False, rate=FarSlaveRate(SlaveRates()),
        cut=lambda _begin, limit: limit, chance=lambda: 0.0, now=NOW,
    )  # fmt: skip
    member.tick(NOW)
    for is_pre in (True, False):
        member.step(VoteAnswer("n1", 1, is_pre, is_granted=True, is_sure=True), NOW)
    assert member.role is RaftRole.LEADER
    assert member.ready().record is not None
    member.appended(100, NOW)
    member.step(AppendAnswer("n1", 1, NOW, True, 0, 0, 1), NOW)
    member.step(AppendAnswer("n1", 1, NOW, True, 100, 100, 1), NOW)
    member.ready()
    return member


def test_no_part_of_an_earlier_term_is_sent_with_the_bytes_of_a_later_one():
    member = leader()
    member.appended(150, NOW)
    other = Append("n2", 2, NOW, 100, 200, 1, 0, 0, terms=(Row(100, 2),))
    member.step(other, NOW)
    ready = member.ready()
    assert (ready.truncate_to, ready.writes[0].offset) == (100, 100)
    assert [type(message) for _, message in ready.messages] == [AppendAnswer]
