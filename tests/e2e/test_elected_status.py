"""What operators see of a group that elects its leader: by one request, in commands, metrics, the doctor and the dashboard."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.error import URLError

import pytest

from cometmq.codec.bodies.ha_status import HaGroup, decode_ha_status
from cometmq.model.codes import RequestCode
from tests.dashboard.web import Served, Visitor, wait_for
from tests.support.command_line import run
from tests.support.elected_group import ElectedBrokers, elected_brokers
from tests.support.frames import ask
from tests.support.members import end_of
from tests.support.metrics_page import samples
from tests.support.processes import Program, wait_until

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ElectedBrokers]:
    with elected_brokers(tmp_path_factory.mktemp("group")) as made:
        made.wait_for_leader()
        wait_until(lambda: replicas(made)[0] == 0, seconds=60, what="three members in order")
        yield made


def seen_by(program: Program) -> HaGroup:
    """The group as a member reports it."""
    _, body = ask(program.address, RequestCode.GET_BROKER_HA_STATUS)
    found = decode_ha_status(body).group
    assert found is not None
    return found


def replicas(group: ElectedBrokers) -> tuple[int, dict[str, dict[str, Any]]]:
    """The status of `cluster replicas`, and its lines by member."""
    done = run("cluster", "replicas", "--json", nameserver=group.names)
    return done.returncode, {line["member"]: line for line in json.loads(done.stdout)}


def doctor(group: ElectedBrokers) -> str:
    """What the doctor finds about copies of the log."""
    found = json.loads(run("doctor", "--json", nameserver=group.names).stdout)
    return "\n".join(each["text"] for each in found if each["check"] == "replica")


def metric(group: ElectedBrokers, member: str, name: str) -> Mapping[str, float]:
    """The values of a metric that has at most one label of its own, by it; none while there is no page."""
    own = {"member", "elected_role"}
    found: dict[str, float] = {}
    with suppress(URLError):  # The page ends with a role, and begins with the next one.
        for labels, value in samples(group.pages[member], f"cometmq_elected_{name}"):
            found["".join(labels[each] for each in sorted(own & labels.keys()))] = value
    return found


def leader_and_others(group: ElectedBrokers) -> tuple[str, list[str]]:
    leader = group.wait_for_leader()
    return leader, sorted(group.members.keys() - {leader})


def test_one_request_shows_the_whole_group(group):
    leader, others = leader_and_others(group)
    program = group.members[leader]
    wait_until(
        lambda: all(each.gap == 0 for each in seen_by(program).members),
        seconds=30,
        what="copies",
    )
    seen = seen_by(program)
    assert (seen.name, seen.own, seen.role, seen.leader) == (
        "broker-a", leader, "leader", leader,
    )  # fmt: skip
    assert seen.confirmed == end_of(program.address) > 0
    assert 0 < (seen.lease_ms or 0) <= 1_000
    assert seen.elections >= 1
    peers = str(group.settings["dLegerPeers"]).split(";")
    assert [f"{each.member_id}-{each.address}" for each in seen.members] == peers
    assert [each.broker_id for each in seen.members] == [1, 2, 3]
    assert all(each.is_connected and each.error is None for each in seen.members)
    for each in others:
        follower = seen_by(group.members[each])
        assert (follower.own, follower.role, follower.leader) == (each, "follower", leader)
        assert (follower.term, follower.lease_ms) == (seen.term, None)
        assert {member.gap for member in follower.members} == {None}


def test_the_command_shows_each_member(group):
    leader, others = leader_and_others(group)
    status, lines = replicas(group)
    assert status == 0
    assert lines.keys() == group.members.keys()
    term = seen_by(group.members[leader]).term
    for name, line in lines.items():
        assert line["address"] == group.members[name].address
        assert (line["term"], line["connected"], line["error"]) == (term, True, None)
        assert line["confirmed"] <= line["offset"]
    assert (lines[leader]["role"], lines[leader]["state"], lines[leader]["id"]) == (
        "leader", "master", 0,
    )  # fmt: skip
    assert 0 < lines[leader]["lease_s"] <= 1
    for name in others:
        line = lines[name]
        assert (line["role"], line["state"], line["lease_s"]) == ("follower", "copying", None)
    table = run("cluster", "replicas", nameserver=group.names).stdout.decode()
    assert table.split()[:14] == [
        "broker", "id", "address", "state", "offset", "gap", "behind_s",
        "member", "role", "term", "confirmed", "lease_s", "connected", "error",
    ]  # fmt: skip


def test_metrics_of_each_member(group):
    leader, others = leader_and_others(group)
    for name in group.members:
        roles = metric(group, name, "role")
        assert roles == {
            "leader": float(name == leader), "follower": float(name != leader),
            "candidate": 0.0, "stopped": 0.0,
        }  # fmt: skip
        assert metric(group, name, "term") == {"": float(seen_by(group.members[leader]).term)}
        assert metric(group, name, "leader_known") == {"": 1.0}
        assert metric(group, name, "elections_total")[""] >= 1
        connected = metric(group, name, "member_connected")
        assert connected == dict.fromkeys(group.members.keys() - {name}, 1.0)
    assert metric(group, leader, "lag_bytes").keys() == set(others)
    assert 0 < metric(group, leader, "lease_seconds")[""] <= 1
    for name in others:
        assert metric(group, name, "lag_bytes") == {}
        assert metric(group, name, "lease_seconds") == {}


def test_a_dead_member_and_a_lost_majority_are_found_and_end_when_they_are_back(
    group, tmp_path
):
    leader, (first, second) = leader_and_others(group)
    group.members[first].kill()
    wait_until(
        lambda: replicas(group)[1].get(first, {}).get("state") == "away",
        seconds=30, what="a dead member",
    )  # fmt: skip
    status, lines = replicas(group)
    assert status == 1
    assert (lines[first]["connected"], lines[first]["role"]) == (False, None)
    assert lines[first]["address"] in str(group.settings["dLegerPeers"])
    assert lines[leader]["state"] == "master"
    wait_until(
        lambda: metric(group, leader, "member_connected") == {first: 0.0, second: 1.0},
        seconds=30, what="the metric",
    )  # fmt: skip
    assert f"member {first} of its group is away: it cannot be reached" in doctor(group)
    with Served(tmp_path, group.names) as served:
        visitor = Visitor(served).log_in()
        for each in (first, "follower", "leader", "it cannot be reached"):
            wait_for(visitor, "/replicas", each)

    check_without_majority(group, leader, (first, second))
    for each in (first, second):
        group.members[each].start()
    group.wait_for_leader()
    wait_until(lambda: replicas(group)[0] == 0, seconds=60, what="members in order")
    assert doctor(group) == ""


def check_without_majority(group: ElectedBrokers, left: str, dead: tuple[str, str]) -> None:
    """Kill the second of two dead members, so that the one that is left has no majority."""
    group.members[dead[1]].kill()
    wait_until(
        lambda: metric(group, left, "leader_known") == {"": 0.0},
        seconds=30, what="no leader",
    )  # fmt: skip
    wait_until(
        lambda: "its group has no leader and accepts no messages: it is connected to 0 of 2" in doctor(group),
        seconds=30, what="the doctor",
    )  # fmt: skip
    status, lines = replicas(group)
    assert (status, lines[left]["role"] in {"follower", "candidate"}) == (1, True)
    assert {lines[each]["state"] for each in dead} == {"away"}
