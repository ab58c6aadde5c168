"""What `cometmq cluster replicas` makes of what members say."""

from __future__ import annotations

import pytest

from cometmq.cli.cluster import ReplicaLine, lines_of
from cometmq.client import HaMaster, HaStatus, Replica

MASTER = HaStatus(
    is_master=True, max_offset=1_000, in_sync_slaves=1, needed=2, stored_ms=60_000
)


def member(broker_id: int, status: HaStatus | None, error: str | None = None) -> Replica:
    return Replica("a", broker_id, f"127.0.0.1:{broker_id}", status, error)


def slave(offset: int, *, stored_ms: int | None = None, **more: object) -> HaStatus:
    copied = HaMaster(address="127.0.0.1:9", max_offset=offset, **more)  # type: ignore[arg-type]
    return HaStatus(is_master=False, master=copied, stored_ms=stored_ms)


def test_a_slave_that_has_all_is_not_behind_however_long_nobody_sends():
    master, copy = lines_of([member(0, MASTER), member(1, slave(1_000, stored_ms=1))])
    assert master == ReplicaLine("a", 0, "127.0.0.1:0", "master", 1_000, 0, 0.0, None)
    assert copy == ReplicaLine("a", 1, "127.0.0.1:1", "copying", 1_000, 0, 0.0, None)
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
    _, copy = lines_of([member(0, MASTER), member(1, status)])
    assert copy[3:] == (state, status.master.max_offset, gap, behind_s, error)
    assert copy.is_well == (state == "copying")


def test_who_does_not_answer_is_away_and_its_slaves_are_behind_nobody():
    master, copy = lines_of([member(0, None, "no route"), member(1, slave(400))])
    assert master[3:] == ("away", None, None, None, "no route")
    assert not master.is_well
    assert copy[3:] == ("copying", 400, None, None, None)


def test_a_master_whose_sends_wait_in_vain_is_alone():
    (line,) = lines_of([member(0, HaStatus(is_master=True, max_offset=5, needed=2))])
    assert (line.state, line.error) == ("alone", "sends wait for 2 members")
    assert not line.is_well
