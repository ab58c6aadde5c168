"""Topics as a service: a change is on disk and announced when it is done."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.broker.admin.topics import TopicAdministration
from cometmq.codec.headers.topic import CreateTopic
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.topic import TopicConfig
from tests.support.steps import run
from tests.support.store_puts import put


class Announcements:
    """Counts how often the nameservers would have been told."""

    def __init__(self):
        self.count = 0

    def __call__(self):
        self.count += 1
        yield from ()


@pytest.fixture
def announce():
    return Announcements()


@pytest.fixture
def administration(tables, announce):
    return TopicAdministration(tables, announce=announce)


def on_disk(tmp_path: Path) -> dict[str, dict[str, object]]:
    table = json.loads((tmp_path / "config" / "topics.json").read_text())["topicConfigTable"]
    assert isinstance(table, dict)
    return table


async def test_topics_before_the_first_without_room_are_on_disk_and_announced(
    administration, announce, tables, tmp_path
):
    tables.topics._settings = replace(tables.settings, topics_max=2)  # One is there.
    with pytest.raises(RequestError, match="other"):
        await run(administration.change_many([TopicConfig("one"), TopicConfig("other")]))
    assert "one" in on_disk(tmp_path)
    assert announce.count == 1


async def test_a_deletion_that_leaves_files_is_on_disk_and_announced(
    administration, announce, tmp_path
):
    # It is in the place of a file, and cannot be removed as one.
    (tmp_path / "consumequeue" / "orders" / "0" / "file").mkdir(parents=True)
    with pytest.raises(RequestError, match="topic orders is deleted, but some"):
        await run(administration.delete("orders"))
    assert "orders" not in on_disk(tmp_path)
    assert announce.count == 1


async def test_a_change_is_on_disk_and_announced(administration, announce, tmp_path):
    await run(
        administration.change(CreateTopic("made", 3, 4, attributes="+message.type=NORMAL"))
    )
    made = on_disk(tmp_path)["made"]
    assert (made["readQueueNums"], made["writeQueueNums"]) == (3, 4)
    assert announce.count == 1
    await run(administration.change(CreateTopic("made", 5, 5)))
    assert administration.find("made").attributes == {"message.type": "NORMAL"}
    await run(administration.change(CreateTopic("made", 5, 5, attributes="-message.type")))
    assert administration.find("made").attributes == {}


async def test_a_list_changes_attributes_by_their_signs(administration):
    await run(
        administration.change_many([TopicConfig("made", attributes={"+message.type": "FIFO"})])
    )
    assert administration.find("made").attributes == {"message.type": "FIFO"}
    await run(administration.change_many([TopicConfig("made", 5, 5)]))
    assert administration.find("made").attributes == {"message.type": "FIFO"}
    await run(
        administration.change_many([TopicConfig("made", attributes={"-message.type": ""})])
    )
    assert administration.find("made").attributes == {}
    with pytest.raises(RequestError, match=r"write \+key=value"):
        await run(
            administration.change_many(
                [TopicConfig("other"), TopicConfig("made", attributes={"message.type": "FIFO"})]
            )
        )
    with pytest.raises(RequestError, match="No topic in this broker"):
        administration.find("other")


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (CreateTopic("TBW102", 1, 1), "conflict with system topic"),
        (CreateTopic("made", 0, 0), "0 read and 0 write queues"),
        (CreateTopic("made", -1, 4), "-1 read and 4 write queues"),
        (CreateTopic("made", 1, 1, perm=16), "perm 16 of topic made is not a permission"),
        (CreateTopic("made", 1, 1, attributes="cleanup"), "write .key=value"),
    ],
)
async def test_what_cannot_be_is_refused_and_announced_to_nobody(
    administration, announce, tables, request_, words
):
    with pytest.raises(RequestError, match=words) as refused:
        await run(administration.change(request_))
    assert refused.value.code == ResponseCode.INVALID_PARAMETER
    assert tables.topics.get("made") is None
    assert announce.count == 0


async def test_of_many_all_are_made_or_none(administration, announce, tables, tmp_path):
    good = [TopicConfig(f"made-{number}", 1, 1) for number in range(3)]
    with pytest.raises(RequestError, match="conflict with system topic"):
        await run(administration.change_many([*good, TopicConfig("TBW102", 1, 1)]))
    assert tables.topics.get("made-0") is None
    await run(administration.change_many(good))
    assert {config.name for config in good} <= set(on_disk(tmp_path))
    assert announce.count == 1


async def test_a_topic_goes_with_its_messages_and_offsets(
    administration, announce, tables, tmp_path
):
    put(tables.store, b"a", b"b")
    tables.offsets.commit("g", "orders", 0, offset=1)
    await run(administration.delete("orders"))
    assert "orders" not in on_disk(tmp_path)
    assert tables.store.queue("orders", 0) is None
    assert tables.offsets.get("g", "orders", 0) is None
    assert announce.count == 1
    with pytest.raises(RequestError) as refused:
        administration.find("orders")
    assert refused.value.code == ResponseCode.TOPIC_NOT_EXIST
    with pytest.raises(RequestError, match="conflict with system topic"):
        await run(administration.delete("TBW102"))
