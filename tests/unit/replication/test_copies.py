"""Who has how much of a log, and what follows for a send."""

import pytest

from cometmq.replication.copies import Copies, CopyRule

FAR = 1 << 40


def copies(rule: CopyRule, **acked: int) -> Copies:
    made = Copies(rule)
    for member, offset in acked.items():
        made.acked(member, offset)
    return made


@pytest.mark.parametrize(
    ("needed", "acked", "in_sync", "end"),
    [
        (2, {}, 1, 0),
        (2, {"a": 70}, 2, 70),
        (2, {"a": 70, "b": 90}, 3, 90),
        (3, {"a": 70, "b": 90}, 3, 70),
        (3, {"a": 70}, 2, 0),
        (4, {"a": 70, "b": 90, "c": 80}, 4, 70),
    ],
)
def test_as_many_members_as_are_needed_have_the_log_up_to_there(needed, acked, in_sync, end):
    count = copies(CopyRule(needed=needed), **acked).count(100)
    assert (count.in_sync, count.end) == (in_sync, end)
    assert count.is_enough is (in_sync >= needed)


def test_nobody_waits_where_the_master_is_enough():
    assert copies(CopyRule(needed=1), a=70).count(100).end is None


def test_1155_a_member_is_counted_once_however_many_connections_it_has():
    made = copies(CopyRule(needed=3), a=70)
    made.acked("a", 90)
    made.acked("a", 80)
    count = made.count(100)
    assert (count.in_sync, count.is_enough) == (2, False)


def test_who_lacks_too_much_is_not_in_sync():
    made = copies(CopyRule(needed=2, gap_max=30), a=70)
    assert made.count(99).is_enough
    assert not made.count(100).is_enough
    made.acked("a", 71)
    assert made.count(100).is_enough
    made.gone("a")
    assert made.count(100).in_sync == 1


def test_a_log_that_is_not_compared_yet_is_in_sync_and_confirms_nothing():
    made = copies(CopyRule(needed=2, gap_max=50), a=60)
    made.acked("b", 90, is_compared=False)
    assert made.count(100) == (3, 2, 60)
    made.gone("a")
    assert made.count(100) == (2, 2, 0)
    made.acked("b", 95)
    assert made.count(100) == (2, 2, 95)


def test_the_need_falls_to_who_is_in_sync_and_no_lower_than_the_least():
    rule = CopyRule(needed=3, least=2, is_adapted=True)
    assert not copies(rule).count(100).is_enough
    assert copies(rule, a=70).count(100).end == 70
    assert copies(rule, a=70, b=60).count(100).end == 60
    alone = copies(CopyRule(needed=3, is_adapted=True)).count(100)
    assert (alone.end, alone.is_enough) == (100, True)
