"""Topics, groups and offsets of a group that elects its leader: what was acknowledged outlives the leader."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from cometmq.model.codes import RequestCode as Code
from tests.crash.test_elected_group import new_leader
from tests.support.elected_group import (
    NOT_LEADING,
    OK,
    TOPIC,
    ElectedBrokers,
    elected_brokers,
)
from tests.support.frames import ask
from tests.support.ledger import Ledger
from tests.support.load import read_queue
from tests.support.members import send_to
from tests.support.processes import wait_until
from tests.support.request_fields import topic_fields

# `ROUNDS=50 make crash` is the long run; a round takes 5 to 10 s.
ROUNDS = int(os.environ.get("ROUNDS", "10"))
GROUP = "billing"
LOST_SECONDS_MAX = 1.5  # Offsets are written each second; the rest is for a busy machine.
FILE = 1 << 20


def change(address: str, code: Code, fields: dict[str, str], body: bytes = b"") -> int:
    """Change something at a broker; the code of the answer."""
    return ask(address, code, fields, body)[0]["code"]


def make_topic(address: str, topic: str, queues: int = 2) -> int:
    return change(address, Code.UPDATE_AND_CREATE_TOPIC, topic_fields(topic, queues))


def delete_topic(address: str, topic: str) -> int:
    return change(address, Code.DELETE_TOPIC_IN_BROKER, {"topic": topic})


def make_group(address: str, name: str, retries: int) -> int:
    body = json.dumps({"groupName": name, "retryMaxTimes": retries}).encode()
    return change(address, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)


def commit(address: str, offset: int) -> int:
    fields = {
        "topic": TOPIC, "consumerGroup": GROUP, "queueId": "0", "commitOffset": str(offset),
    }  # fmt: skip
    return change(address, Code.UPDATE_CONSUMER_OFFSET, fields)


def offset_at(address: str) -> int:
    fields = {"topic": TOPIC, "consumerGroup": GROUP, "queueId": "0"}
    header, _ = ask(address, Code.QUERY_CONSUMER_OFFSET, fields)
    return int(header["extFields"]["offset"]) if header["code"] == OK else -1


def topics_of(folder: Path, member: str) -> dict[str, dict[str, object]]:
    """The topics in a member's topics.json."""
    path = folder / member / "store/config/topics.json"
    return json.loads(path.read_text())["topicConfigTable"]


def topics_at(address: str) -> dict[str, dict[str, object]]:
    _, body = ask(address, Code.GET_ALL_TOPIC_CONFIG)
    return json.loads(body)["topicConfigTable"]


def groups_at(address: str) -> dict[str, dict[str, object]]:
    _, body = ask(address, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    return json.loads(body)["subscriptionGroupTable"]


def everywhere(folder: Path, group: ElectedBrokers, topic: str, *, is_there: bool) -> None:
    """Wait until the topics.json of all members have a topic, or none has it."""
    wait_until(
        lambda: all((topic in topics_of(folder, own)) is is_there for own in group.members),
        seconds=20,
        what=f"topic {topic}, {'there' if is_there else 'gone'} at all members",
    )


def wait_for_bodies(address: str, bodies: list[bytes]) -> None:
    wait_until(
        lambda: [body for _, body in read_queue(address, TOPIC, 0)] == bodies,
        seconds=20,
        what=f"exactly these messages at {address}: {bodies}",
    )


@pytest.mark.timeout(60 + 30 * ROUNDS)
def test_what_was_answered_is_there_when_the_leader_is_killed_at_once(tmp_path):
    with elected_brokers(tmp_path) as group:
        leader = group.wait_for_leader()
        for number in range(ROUNDS):
            program = group.members[leader]
            address = program.address
            assert send_to(address)[0] == OK
            assert make_group(address, GROUP, number + 1) == OK
            reset = {"topic": TOPIC, "group": GROUP, "timestamp": "-1", "isForce": "true"}
            assert change(address, Code.INVOKE_BROKER_TO_RESET_OFFSET, reset) == OK
            end = len(read_queue(address, TOPIC, 0))
            assert make_topic(address, f"topic{number}", queues=number + 3) == OK
            program.kill()
            leader = new_leader(group, leader)
            address = group.members[leader].address
            topics = topics_at(address)
            found = [topics.get(f"topic{each}", {}) for each in range(number + 1)]
            assert [each.get("readQueueNums") for each in found] == [*range(3, number + 4)]
            assert groups_at(address)[GROUP]["retryMaxTimes"] == number + 1
            assert offset_at(address) == end
            program.start()
        everywhere(tmp_path, group, f"topic{ROUNDS - 1}", is_there=True)


def test_at_most_a_second_of_commits_is_lost(tmp_path):
    with elected_brokers(tmp_path) as group:
        leader = group.wait_for_leader()
        program = group.members[leader]
        Ledger(TOPIC).send(program.address, 400)
        assert make_group(program.address, GROUP, 3) == OK
        commits: list[tuple[float, int]] = []
        for offset in range(1, 90):
            assert commit(program.address, offset) == OK
            commits.append((time.monotonic(), offset))
            time.sleep(0.04)
        program.kill()
        killed = time.monotonic()
        leader = new_leader(group, leader)
        old = [offset for at, offset in commits if at < killed - LOST_SECONDS_MAX]
        assert offset_at(group.members[leader].address) >= old[-1]


def test_a_deleted_topic_stays_deleted_and_a_new_one_has_none_of_its_messages(tmp_path):
    with elected_brokers(tmp_path) as group:
        leader = group.wait_for_leader()
        for number in range(3):
            program = group.members[leader]
            address = program.address
            assert make_topic(address, TOPIC) == OK
            assert read_queue(address, TOPIC, 0) == []
            assert send_to(address, b"old")[0] == OK
            everywhere(tmp_path, group, TOPIC, is_there=True)
            assert delete_topic(address, TOPIC) == OK
            if number == 1:  # Created again before the kill.
                assert make_topic(address, TOPIC, queues=5) == OK
                assert send_to(address, b"new")[0] == OK
            program.kill()
            leader = new_leader(group, leader)
            address = group.members[leader].address
            assert (TOPIC in topics_at(address)) is (number == 1)
            program.start()
            if number == 1:
                for each in group.members.values():
                    wait_for_bodies(each.address, [b"new"])
                assert delete_topic(address, TOPIC) == OK
            everywhere(tmp_path, group, TOPIC, is_there=False)


def test_what_no_majority_has_is_refused_and_dropped_by_the_old_leader(tmp_path):
    with elected_brokers(tmp_path) as group:
        leader = group.wait_for_leader()
        old = group.members[leader]
        assert make_topic(old.address, TOPIC) == OK
        assert send_to(old.address, b"kept")[0] == OK
        others = [each for name, each in group.members.items() if name != leader]
        for each in others:
            each.kill()
        began = time.monotonic()
        assert make_topic(old.address, "lost") == NOT_LEADING
        assert time.monotonic() - began < 5
        header, _ = ask(old.address, Code.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})
        assert header["code"] != OK
        old.kill()
        for each in others:
            each.start()
        name = new_leader(group, leader)
        assert make_topic(group.members[name].address, "next") == OK
        old.start()
        everywhere(tmp_path, group, "next", is_there=True)
        everywhere(tmp_path, group, "lost", is_there=False)
        everywhere(tmp_path, group, TOPIC, is_there=True)
        wait_for_bodies(old.address, [b"kept"])


def retries_of(folder: Path, member: str) -> int | None:
    """How often a member lets the group retry; None if it does not know the group. Each table is saved by itself."""
    file = folder / member / "store/config/subscriptionGroup.json"
    groups = json.loads(file.read_text())["subscriptionGroupTable"] if file.exists() else {}
    return groups[GROUP]["retryMaxTimes"] if GROUP in groups else None


def test_a_new_member_has_everything_though_the_first_files_are_deleted(tmp_path):
    with elected_brokers(tmp_path, mappedFileSizeCommitLog=FILE) as group:
        leader = group.wait_for_leader()
        address = group.members[leader].address
        assert make_topic(address, "early", queues=7) == OK
        assert make_topic(address, "gone") == OK
        assert delete_topic(address, "gone") == OK
        Ledger(TOPIC).send(address, 20)
        assert make_group(address, GROUP, 5) == OK
        assert commit(address, 3) == OK
        lost = next(name for name in group.members if name != leader)
        group.members[lost].stop()
        (tmp_path / lost / "store").rename(tmp_path / lost / "old")
        log = tmp_path / leader / "store/commitlog"
        while len(list(log.iterdir())) < 4:
            assert send_to(address, b"x" * 60_000)[0] == OK
        time.sleep(2.5)  # A snapshot is written within a second.
        first = min(log.iterdir())

        def is_gone() -> bool:
            os.utime(first, (1, 1))
            assert change(address, Code.DELETE_EXPIRED_COMMITLOG, {}) == OK
            time.sleep(0.2)
            return not first.exists()

        wait_until(is_gone, seconds=60, what="the deletion of the first file")
        group.members[lost].start()
        wait_until(
            lambda: "early" in topics_of(tmp_path, lost), seconds=30, what="the first topic"
        )
        assert topics_of(tmp_path, lost)["early"]["readQueueNums"] == 7
        assert "gone" not in topics_of(tmp_path, lost)
        wait_until(lambda: retries_of(tmp_path, lost) == 5, seconds=30, what="the group")
        assert offset_at(group.members[lost].address) == 3
