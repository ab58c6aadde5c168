"""What `cometmq cluster replicas` makes of what members say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cometmq.admin import (
    BrokerState,
    HaGroup,
    HaGroupMember,
    HaMaster,
    HaSlave,
    HaStatus,
    Replica,
    SettingsReport,
)
from cometmq.cli.brokers import broker_line, config_lines
from cometmq.cli.cluster import ReplicaLine, lines_of
from cometmq.client.admin.copies import judge_copies

MASTER = HaStatus(
    is_master=True, max_offset=1_000, in_sync_slaves=1, needed=2, stored_ms=60_000
)


def member(broker_id: int, status: HaStatus | None, error: str | None = None) -> Replica:
    return Replica("a", broker_id, f"127.0.0.1:{broker_id}", status, error)


def slave(offset: int, *, stored_ms: int | None = None, **more: object) -> HaStatus:
    copied = HaMaster(address="127.0.0.1:9", max_offset=offset, **more)  # type: ignore[arg-type]
    return HaStatus(is_master=False, master=copied, stored_ms=stored_ms)


def judged(*members: Replica) -> list[ReplicaLine]:
    return lines_of(judge_copies([*members]))


def test_a_slave_that_has_all_is_not_behind_however_long_nobody_sends():
    master, copy = judged(member(0, MASTER), member(1, slave(1_000, stored_ms=1)))
    without = [None] * 7
    assert master == ReplicaLine("a", 0, "127.0.0.1:0", "master", 1_000, 0, 0.0, *without)
    assert copy == ReplicaLine("a", 1, "127.0.0.1:1", "copying", 1_000, 0, 0.0, *without)
    assert master.is_well
    assert copy.is_well


@pytest.mark.parametrize(
    ("status", "state", "gap", "behind_s", "error"),
    [
        (slave(400, stored_ms=57_500, is_active=True), "copying", 600, 2.5, None),
        (slave(400), "copying", 600, None, None),
        (slave(400, is_active=False), "stopped", 600, None, None),
        (slave(400, error="the logs differ"), "stopped", 600, None, "the logs differ"),
        (slave(1_000, metadata_error="slow"), "copying", 0, 0.0, "slow"),
        (slave(1_200), "copying", 0, 0.0, None),
    ],
    ids=["behind", "java", "inactive", "stopped", "metadata", "ahead"],
)
def test_how_far_a_slave_is(status, state, gap, behind_s, error):
    _, copy = judged(member(0, MASTER), member(1, status))
    found = copy.state, copy.offset, copy.gap, copy.behind_s, copy.error
    assert found == (state, status.master.max_offset, gap, behind_s, error)
    assert copy.is_well == (state == "copying" and error is None)


@pytest.mark.parametrize(
    ("offset", "stored_ms", "state"),
    [
        (400, 2_000_000 - 61_000, "late"),
        (400, 2_000_000 - 59_000, "copying"),
        (0, None, "copying"),
        (1_000, 1, "copying"),
    ],
)
def test_a_slave_that_is_a_minute_behind_is_no_good_copy(offset, stored_ms, state):
    master = replace(MASTER, stored_ms=2_000_000)
    _, copy = judged(member(0, master), member(1, slave(offset, stored_ms=stored_ms)))
    assert (copy.state, copy.is_well) == (state, state == "copying")


def test_a_slave_that_its_master_does_not_count_as_in_sync_is_no_good_copy():
    told = HaSlave(address="127.0.0.1:5", broker_id=1, acked=400, gap=600, is_in_sync=False)
    master = replace(MASTER, slaves=(told,))
    _, copy = judged(member(0, master), member(1, slave(400)))
    assert copy.state == "late"
    assert "600 bytes" in (copy.error or "")
    # A master of Java does not say which slave is which: its default bound holds.
    far = replace(MASTER, max_offset=1 << 30)
    _, copy = judged(member(0, far), member(1, slave(400)))
    assert copy.state == "late"


def test_who_refuses_to_answer_is_there():
    (line,) = judged(member(0, None, "NO_PERMISSION")._replace(is_refused=True))
    assert (line.state, line.is_well) == ("refused", False)


def test_a_second_broker_of_one_id_is_a_rival():
    both = "two brokers run with brokerId=1 of a: 127.0.0.1:1 and 127.0.0.1:9"
    rival = member(1, slave(400, is_active=True))
    rival = rival._replace(address="127.0.0.1:9", owner="127.0.0.1:1")
    master, copy, line = judged(member(0, MASTER), member(1, slave(1_000)), rival)
    assert master.is_well
    assert copy.is_well
    assert (line.state, line.error, line.is_well) == ("rival", both, False)


def test_who_does_not_answer_is_away_and_its_slaves_are_behind_nobody():
    master, copy = judged(member(0, None, "no route"), member(1, slave(400)))
    assert master[3:] == ("away", *[None] * 9, "no route")
    assert not master.is_well
    assert copy[3:] == ("copying", 400, *[None] * 9)


def test_a_master_whose_sends_wait_in_vain_is_alone():
    (line,) = judged(member(0, HaStatus(is_master=True, max_offset=5, needed=2)))
    assert (line.state, line.error) == ("alone", "sends wait for 2 in-sync members")
    assert not line.is_well


def of_group(
    own: str, role: str, *, leader: str = "n0", away: str = "", learner: str = ""
) -> HaGroup:
    """A group of three as one of its members sees it."""
    members = tuple(
        HaGroupMember(
            member_id=f"n{number}",
            address=f"10.0.0.{number}:1",
            broker_id=number + 1,
            is_connected=f"n{number}" not in away,
            error="refused" if f"n{number}" in away else None,
            votes=f"n{number}" != learner,
        )
        for number in range(3)
    )
    lease_ms = 900 if role == "leader" else None
    return HaGroup(
        name="a", own=own, role=role, term=7, leader=leader, confirmed=990, lease_ms=lease_ms,
        members=members,
    )  # fmt: skip


def follower(own: str, *, is_active: bool = True, **group: str) -> HaStatus:
    status = slave(1_000, stored_ms=1, is_active=is_active)
    return replace(status, group=of_group(own, group.pop("role", "follower"), **group))


def leading(**group: str) -> HaStatus:
    return replace(MASTER, group=of_group("n0", "leader", **group))


def test_members_of_an_elected_group_have_their_columns() -> None:
    leader, copy, _ = judged(
        member(0, leading()), member(2, follower("n1")), member(3, follower("n2"))
    )
    assert leader[7:] == ("n0", "leader", 7, 990, 0.9, True, None)
    assert copy[7:] == ("n1", "follower", 7, 990, None, True, None)


@pytest.mark.parametrize(
    ("members", "lines"),
    [
        (  # Of a member that no nameserver lists, the leader knows.
            [member(0, leading(away="n2")), member(2, follower("n1"))],
            [("n0", "master", None), ("n1", "copying", None), ("n2", "away", "refused")],
        ),
        (
            [member(0, leading()), member(2, follower("n1"))],
            [("n0", "master", None), ("n1", "copying", None), ("n2", "copying", None)],
        ),
        (  # Routes have its address still.
            [member(0, leading(away="n2")), member(2, follower("n1")), member(3, None, "silent")],
            [("n0", "master", None), ("n1", "copying", None), ("n2", "away", "silent")],
        ),
        (
            [member(1, follower("n0", is_active=False, leader="", away="n1 n2"))],
            [
                (
                    "n0", "stopped",
                    "its group has no leader and accepts no messages: it is connected to 0 of 2 other members that vote, and needs 1",
                ),
                ("n1", "away", "refused"),
                ("n2", "away", "refused"),
            ],
        ),
        (
            [member(1, follower("n0", is_active=False, leader="", away="n1", learner="n2"))],
            [
                (
                    "n0", "stopped",
                    "its group has no leader and accepts no messages: it is connected to 0 of 1 other members that vote, and needs 1",
                ),
                ("n1", "away", "refused"),
                ("n2", "copying", None),
            ],
        ),
        (
            [member(0, leading()), member(2, follower("n1")), member(3, follower("n2")), member(4, follower("n3", is_active=False))],
            [
                ("n0", "master", None), ("n1", "copying", None), ("n2", "copying", None),
                ("n3", "stopped", "it is no member of its group"),
            ],
        ),
        (
            [member(0, leading()), member(2, follower("n1", is_active=False)), member(3, follower("n2"))],
            [
                ("n0", "master", None),
                ("n1", "stopped", "it is not connected to the leader, n0"),
                ("n2", "copying", None),
            ],
        ),
        (
            [member(0, leading()), member(2, follower("n1", is_active=False, role="stopped")), member(3, follower("n2"))],
            [("n0", "master", None), ("n1", "stopped", None), ("n2", "copying", None)],
        ),
    ],
    ids=["dead", "unlisted", "silent", "no majority", "learner", "removed", "cut off", "failed"],
)  # fmt: skip
def test_who_is_missing_in_an_elected_group(members, lines) -> None:
    found = judged(*members)
    assert [(each.member, each.state, each.error) for each in found] == lines
    copies = judge_copies(members)
    bad = [each for each in copies if each.state in ("away", "stopped")]
    # A member that routes have, and that is silent, is reported as such.
    assert all(each.advice for each in bad if each.fault != "silent")


def test_a_member_beyond_the_majority_is_not_late_while_its_leader_is_written_to() -> None:
    told = HaSlave(address="127.0.0.1:5", broker_id=2, acked=900, gap=100, is_in_sync=False)
    master = replace(leading(), slaves=(told,), max_offset=1_100)
    _, copy, _ = judged(member(0, master), member(2, follower("n1")), member(3, follower("n2")))
    assert (copy.state, copy.gap) == ("copying", 100)


NUMBERS = {
    "brokerVersionDesc": "V5_3_3",
    "cometmqVersion": "0.1.0",
    "putTps": "12.5 3.0 1.0",
    "getTransferredTps": "7.0 1.0 0.5",
    "commitLogDiskRatio": "0.4321",
    "commitLogMinOffset": "1000",
    "commitLogMaxOffset": "5000",
    "bootTimestamp": "60000",
}


def state(numbers: dict[str, str], **more: object) -> BrokerState:
    given = {"is_writable": True, **more}
    return BrokerState("c", "a", 0, "127.0.0.1:1", runtime=numbers, **given)  # type: ignore[arg-type]


def test_a_line_has_the_numbers_of_ten_seconds() -> None:
    line = broker_line(state(NUMBERS), now_ms=65_999)
    assert line[4:] == ("up", "V5_3_3", "0.1.0", 12.5, 7.0, 43.2, 4000, 5, None)


@pytest.mark.parametrize(
    "numbers", [{}, {"putTps": "", "commitLogDiskRatio": "much", "bootTimestamp": "soon"}]
)
def test_what_a_broker_does_not_say_is_left_out(numbers: dict[str, str]) -> None:
    assert broker_line(state(numbers), 0)[4:] == ("up", *[None] * 8)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"is_writable": False}, "drained"),
        ({"is_writable": None}, "up"),
        ({"is_writable": False, "error": "no answer"}, "away"),
    ],
)
def test_states(more: dict[str, object], said: str) -> None:
    assert broker_line(state({}, **more), 0).state == said


def test_where_a_setting_comes_from() -> None:
    told = SettingsReport(
        {
            "listenPort": "10911",
            "brokerName": "x",
            "maxMsgsNumBatch": "64",
            "storeType": "default",
        },
        frozenset({"maxMsgsNumBatch"}),
        frozenset({"brokerName", "maxMsgsNumBatch"}),
    )
    lines = {line.key: (line.default, line.source) for line in config_lines(told)}
    assert lines["listenPort"] == ("10911", "default")
    assert lines["brokerName"][1] == "set"
    assert lines["maxMsgsNumBatch"] == ("64", "changed")
    assert lines["storeType"] == (None, "default")


def test_a_broker_of_rocketmq_does_not_tell_where_a_setting_comes_from() -> None:
    lines = config_lines(SettingsReport({"listenPort": "10911", "ofJava": "1"}))
    assert [line.source for line in lines] == ["default", "unknown"]
