"""A cluster with 1,000 topics and more groups than the dashboard keeps curves of: nothing is left out, and what is looked for is found."""

import json
import socket
from collections.abc import Iterator, Sequence

import pytest

from cometmq import Admin, Message, Producer
from cometmq.dashboard.watcher import LAG_GROUPS_MAX
from tests.dashboard.web import Served, Visitor, text_of, wait_for
from tests.support.frames import json_frame, parts_of, read_frame
from tests.support.programs import small_cluster
from tests.support.request_fields import topic_fields

TOPICS, MADE_AT_ONCE = 1_000, 100
GROUPS = LAG_GROUPS_MAX + 50
ALL_LAG = GROUPS * (GROUPS + 1) // 2
CREATE_TOPIC, CREATE_GROUP, COMMIT = 17, 200, 15


@pytest.fixture(scope="module")
def visitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """Of a group `many-NNN` that number and one more is the lag."""
    folder = tmp_path_factory.mktemp("many")
    with small_cluster(folder) as (names, broker):
        ask(broker.port, [topic(f"of-{number:03d}") for number in range(TOPICS)])
        with Admin(names.address) as admin, Producer(names.address) as producer:
            admin.topics.create("read", queues=1)
            producer.send_many(Message("read", b"x") for _ in range(GROUPS))
        groups = [f"many-{number:03d}" for number in range(GROUPS)]
        ask(broker.port, [group(name) for name in groups])
        ask(broker.port, [at(name, GROUPS - 1 - n) for n, name in enumerate(groups)])
        with Served(folder / "dashboard", names.address) as served:
            yield Visitor(served).log_in()


def topic(name: str) -> bytes:
    return json_frame(CREATE_TOPIC, topic_fields(name))


def group(name: str) -> bytes:
    return json_frame(CREATE_GROUP, {}, json.dumps({"groupName": name}).encode())


def at(name: str, offset: int) -> bytes:
    place = {"consumerGroup": name, "topic": "read", "queueId": "0"}
    return json_frame(COMMIT, {**place, "commitOffset": str(offset)})


def ask(port: int, frames: Sequence[bytes]) -> None:
    """Send them, some at a time; all are answered well."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as peer:
        for start in range(0, len(frames), MADE_AT_ONCE):
            part = frames[start : start + MADE_AT_ONCE]
            peer.sendall(b"".join(part))
            for _ in part:
                header = json.loads(parts_of(read_frame(peer))[1])
                assert header["code"] == 0, header


def test_the_first_page_has_the_lag_of_all_groups_and_those_furthest_behind(visitor):
    last = f"many-{GROUPS - 1:03d}"
    page = wait_for(visitor, "/", f"Lag of all groups {ALL_LAG:,} msg")
    assert f"{last} {GROUPS}" in page
    assert "many-000" not in page.partition("Groups furthest behind")[2]
    curve = wait_for(visitor, "/group", f"Lag {GROUPS} msg", name=last)
    assert "The group has no members" in curve


def test_the_list_of_groups_has_pages_and_a_field_that_finds(visitor):
    first = text_of(visitor.get("/groups"))
    assert f"{GROUPS} groups" in first
    assert first.index(f"many-{GROUPS - 1:03d}") < first.index(f"many-{GROUPS - 2:03d}")
    assert "many-000" not in first
    assert "many-000" in text_of(visitor.get("/groups", page=3))
    found = text_of(visitor.get("/groups", find="MANY-24"))
    assert "10 groups" in found
    assert "many-239" not in found
    assert "many-150" in text_of(visitor.get("/groups", find="-15", page=1))
    assert "No group name matches" in text_of(visitor.get("/groups", find="many-999"))


def test_the_list_of_topics_has_pages_and_a_field_that_finds(visitor):
    assert f"{TOPICS + 1:,} topics" in wait_for(visitor, "/topics", "of-000")
    assert "of-999" in text_of(visitor.get("/topics", find="of-", page=20))
    assert "1 topic" in text_of(visitor.get("/topics", find="of-777"))
