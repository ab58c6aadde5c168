"""The page of messages marks those of a deleted topic of the same name, and leads from them to no other message."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cometmq import Admin, Message, Producer
from cometmq.embedded import Embedded
from tests.dashboard.web import Served, Visitor


@pytest.fixture
def nameserver() -> Iterator[str]:
    with Embedded() as cluster:
        yield cluster.nameserver


@pytest.fixture
def admin(nameserver: str) -> Iterator[Admin]:
    with Admin(nameserver) as made:
        yield made


@pytest.fixture
def visitor(nameserver: str, tmp_path: Path) -> Iterator[Visitor]:
    with Served(tmp_path, nameserver) as served:
        yield Visitor(served).log_in()


def test_a_page_marks_messages_of_a_deleted_topic_of_the_same_name_and_links_none(
    admin: Admin, nameserver: str, visitor: Visitor
) -> None:
    topic = "made-again"
    for life, queues in (("old", 4), ("new", 2)):
        admin.topics.create(topic, queues=queues)
        with Producer(nameserver) as producer:
            for number in range(5):
                producer.send(Message(topic, f"{life} {number}".encode(), keys="all"))
        if life == "old":
            admin.topics.delete(topic)
    page = visitor.get("/messages", by="key", topic=topic, key="all").text
    rows = [row for row in page.split("<tr>") if "old " in row or "new " in row]
    assert len(rows) == 10
    for row in rows:
        assert ("of a deleted topic" in row) == ("old " in row)
        assert ("/message?" in row) == ("new " in row)
    [dead] = [each for each in admin.messages.by_key(topic, "all") if each.body == b"old 3"]
    page = visitor.get("/messages", by="id", topic=topic, id=dead.message_id).text
    assert "of a deleted topic" in page
    assert "old 3" in page
