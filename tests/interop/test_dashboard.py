"""The dashboard on a cluster of Java's: each page is there, and what it says is what `mqadmin` says."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cometmq import Admin, Message, Producer, PullConsumer
from cometmq.admin import GroupConfig
from tests.dashboard.web import READER, READER_PASSWORD, Served, Visitor, text_of, wait_for
from tests.interop import admin_jvm
from tests.interop.conftest import Cluster
from tests.interop.ours import new_topic

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

COUNT, COMMITTED = 40, 3


@dataclass
class World:
    """What the Java cluster holds, and who looks at it."""

    names: str
    topic: str
    group: str
    visitor: Visitor
    folder: Path

    def mqadmin(self, *arguments: str) -> str:
        return admin_jvm.mqadmin(self.folder, self.names, *arguments)


@pytest.fixture(scope="module")
def world(java_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    names = java_cluster.nameserver.address
    topic = new_topic(names)
    group = f"seen_{time.time_ns()}"
    with Producer(names, group="seen_by_all") as producer:
        for number in range(COUNT):
            producer.send(Message(topic, b"java %d" % number, tag="t", keys=f"k{number}"))
    with Admin(names) as admin:
        admin.groups.create(GroupConfig(group))
        # mqadmin asks for its route, which the first consumer of a group makes.
        admin.topics.create(f"%RETRY%{group}", queues=1)
    with PullConsumer(names, group=group) as consumer:
        for queue in consumer.queues(topic):
            consumer.commit(queue, COMMITTED)
    folder = tmp_path_factory.mktemp("dashboard")
    with Served(folder, names) as served:
        visitor = Visitor(served).log_in()
        wait_for(visitor, "/", "1 of 1")
        yield World(names, topic, group, visitor, folder)


def table(page: str) -> list[list[str]]:
    """The cells of a page's tables, row by row, without marks between thousands."""
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    return [
        [
            re.sub(r"<[^>]*>", "", cell).strip().replace(",", "")
            for cell in re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL)
        ]
        for row in rows
    ]


def test_a_topics_queues_are_those_of_topic_status(world):
    said = world.mqadmin("topicStatus", "-t", world.topic)
    theirs = sorted(
        tuple(line.split()[:4]) for line in said.splitlines() if line.startswith("broker-a")
    )
    page = world.visitor.get("/topic", name=world.topic).text
    ours = sorted(
        tuple(row[:4]) for row in table(page) if len(row) == 6 and row[0] == "broker-a"
    )
    assert len(ours) == 4
    assert ours == theirs


def test_a_groups_lag_is_that_of_consumer_progress(world):
    said = world.mqadmin("consumerProgress", "-g", world.group)
    theirs = sorted(
        (each[1], each[2], each[4], each[3])
        for each in (line.split() for line in said.splitlines())
        if each and each[0] == world.topic
    )
    total = re.search(r"Consume Diff Total: (\d+)|Diff Total: (\d+)", said)
    page = world.visitor.get("/group", name=world.group)
    ours = sorted(tuple(row[1:5]) for row in table(page.text) if len(row) == 8)
    assert len(ours) == 4
    assert ours == theirs
    assert total
    assert f"Lag {total[1] or total[2]} msg" in text_of(page)


def test_the_brokers_are_those_of_cluster_list(world):
    said = world.mqadmin("clusterList")
    (line,) = (each.split() for each in said.splitlines() if " broker-a " in each)
    text = text_of(world.visitor.get("/brokers"))
    for each in (line[0], line[1], line[3], line[4]):
        assert each in text


def test_a_brokers_settings_are_those_of_get_broker_config(world):
    text = text_of(world.visitor.get("/broker", name="broker-a", id=0))
    address = re.search(r"at (127\.0\.0\.1:\d+) in cluster", text)
    assert address
    said = world.mqadmin("getBrokerConfig", "-b", address[1])
    theirs = dict(re.findall(r"^(\w+)\s+=\s+(\S+)\s*$", said, re.MULTILINE))
    assert len(theirs) > 200
    for key in (
        "flushDiskType",
        "brokerClusterName",
        "deleteWhen",
        "maxMessageSize",
        "transactionTimeOut",
    ):
        assert f"{key} {theirs[key]} " in text


def test_messages_are_found_and_read(world):
    visitor = world.visitor
    seen: list[str] = []
    first = visitor.get("/messages", by="time", topic=world.topic)
    assert f"{COUNT} messages" in text_of(first)
    (until,) = set(re.findall(r"until=(\d+)", first.text))
    for page in (1, 2):
        said = visitor.get("/messages", by="time", topic=world.topic, until=until, page=page)
        seen += re.findall(r"java (\d+)", text_of(said))
    assert sorted(map(int, seen)) == list(range(COUNT))
    found = visitor.get("/messages", by="key", topic=world.topic, key="k7")
    place = re.search(r'href="(/message\?[^"]+)"', found.text)
    assert place
    message = text_of(visitor.get(place[1].replace("&amp;", "&")))
    ids = re.search(r"Id ([0-9A-F]{32}) .*Offset id ([0-9A-F]{32})", message)
    at = re.search(r"queue (\d+) of broker-a ?, offset (\d+)", message)
    assert ids
    assert at
    said = world.mqadmin("queryMsgByUniqueKey", "-t", world.topic, "-i", ids[1])
    assert re.search(rf"Queue ID: +{at[1]}\n", said)
    assert re.search(rf"Queue Offset: +{at[2]}\n", said)
    assert "java 7" in text_of(visitor.get("/messages", by="id", topic=world.topic, id=ids[1]))
    assert "java 7" in text_of(visitor.get("/messages", by="id", id=ids[2]))


def test_what_is_done_is_seen_by_mqadmin(world):
    visitor = world.visitor
    name = f"By_Hand_{time.time_ns()}"
    assert "is created" in text_of(
        visitor.post("/topics/create", name=name, write="2", read="2")
    )
    assert name in world.mqadmin("topicList")
    wait_for(visitor, "/topic", "Send a message", name=name)
    sent = visitor.post("/topic/send", name=name, body="by hand", keys="hand")
    assert "Stored in queue" in text_of(sent)
    said = visitor.post("/group/reset", name=world.group, topic=world.topic, to="latest")
    assert "continues at the end in 4 queues" in text_of(said)
    with Admin(world.names) as admin:
        assert sum(admin.offsets.lag(world.group, world.topic).values()) == 0
    assert "is deleted" in text_of(visitor.post("/topic/delete", name=name, sure=name))
    assert name not in world.mqadmin("topicList")


def test_every_other_page_is_there(world):
    reader = Visitor(world.visitor.served).log_in(READER, READER_PASSWORD)
    for path in (
        "/",
        "/brokers",
        "/replicas",
        "/doctor",
        "/dead",
        "/waiting",
        "/waiting?kind=time",
        "/waiting?kind=half",
        "/waiting?kind=discarded",
        "/trace",
        "/topics",
        "/topics?all=1",
        "/groups",
        "/groups?all=1",
        f"/tail?topic={world.topic}",
    ):
        said = reader.get(path)
        assert said.status_code == 200, text_of(said)
    assert "broker-a" in text_of(reader.get("/replicas"))
    # Other tests of this cluster leave more groups than a page of the list has.
    wait_for(reader, "/groups", world.group, find=world.group)


def test_a_cluster_without_users_says_so(world):
    said = world.visitor.get("/users")
    assert said.status_code == 200
    assert "No broker lists users." in text_of(said)
    assert "broker-a:0" in text_of(said)
