"""Topics as a service: a change is on disk and announced when it is done."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.broker.admin.groups import GroupAdministration, GroupComparison
from cometmq.broker.admin.resets import GroupResets
from cometmq.broker.admin.topics import TopicAdministration
from cometmq.codec.headers.console import (
    CloneOffsetsRequest,
    CorrectionOffsetRequest,
    ResetOffsetRequest,
)
from cometmq.codec.headers.topic import CreateTopic, DeleteGroup
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.group import GroupConfig
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


@pytest.fixture
def group_administration(tables):
    return GroupAdministration(tables)


@pytest.fixture
def comparison(tables):
    return GroupComparison(tables)


def groups_on_disk(tmp_path: Path) -> set[str]:
    path = tmp_path / "config" / "subscriptionGroup.json"
    return set(json.loads(path.read_text())["subscriptionGroupTable"])


async def test_all_groups_are_changed_or_none(group_administration, tables):
    exponential = GroupConfig("patient", retry_policy={"type": "EXPONENTIAL"})
    with pytest.raises(RequestError, match="EXPONENTIAL") as refused:
        await run(group_administration.change([GroupConfig("one"), exponential]))
    assert refused.value.code == ResponseCode.INVALID_PARAMETER
    assert tables.groups.peek("one") is None


async def test_groups_before_the_first_without_room_are_on_disk(
    group_administration, tables, tmp_path
):
    room = len(tables.groups.table().groups) + 1
    tables.groups._settings = replace(tables.settings, groups_max=room)
    with pytest.raises(RequestError, match="other cannot be created"):
        await run(group_administration.change([GroupConfig("one"), GroupConfig("other")]))
    assert "one" in groups_on_disk(tmp_path)


async def test_a_disk_error_in_a_retry_topic_keeps_no_group(
    group_administration, tables, tmp_path
):
    tables.topics.put(TopicConfig("%RETRY%g", 1, 1))
    # It is in the place of a file, and cannot be removed as one.
    (tmp_path / "consumequeue" / "%RETRY%g" / "0" / "file").mkdir(parents=True)
    with pytest.raises(RequestError, match="group g is deleted, but some files"):
        await run(group_administration.delete(DeleteGroup("g", clean_offset=True)))
    assert "g" not in groups_on_disk(tmp_path)
    assert tables.topics.get("%RETRY%g") is None


async def test_attributes_of_a_group_are_changed_by_their_signs(group_administration, tables):
    await run(
        group_administration.change([GroupConfig("one", attributes={"+a": "1", "+b": "2"})])
    )
    await run(group_administration.change([GroupConfig("one", retry_max_times=3)]))
    assert group_administration.find("one").attributes == {"a": "1", "b": "2"}
    await run(
        group_administration.change([GroupConfig("one", attributes={"-a": "", "+b": "3"})])
    )
    assert group_administration.find("one").attributes == {"b": "3"}
    with pytest.raises(RequestError, match=r"write \+key=value") as refused:
        await run(
            group_administration.change(
                [GroupConfig("two"), GroupConfig("one", attributes={"b": ""})]
            )
        )
    assert refused.value.code == ResponseCode.INVALID_PARAMETER
    assert tables.groups.peek("two") is None


@pytest.mark.parametrize("clean_offset", [True, False])
async def test_a_group_goes_with_its_offsets_where_that_is_wanted(
    group_administration, tables, tmp_path, clean_offset
):
    tables.offsets.commit("g", "orders", 0, offset=3)
    await run(group_administration.delete(DeleteGroup("g", clean_offset)))
    assert "g" not in groups_on_disk(tmp_path)
    assert tables.offsets.get("g", "orders", 0) == (None if clean_offset else 3)
    with pytest.raises(RequestError) as refused:
        group_administration.find("g")
    assert refused.value.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_a_topic_is_forbidden_and_permitted_and_asking_changes_nothing(
    group_administration,
):
    assert await run(group_administration.forbid("g", "orders", is_readable=None))
    assert not await run(group_administration.forbid("g", "orders", is_readable=False))
    assert not await run(group_administration.forbid("g", "orders", is_readable=None))
    assert await run(group_administration.forbid("g", "orders", is_readable=True))


async def test_the_least_of_all_groups_is_told_for_each_queue(tables, comparison):
    for group, offset in (("g", 4), ("slow", 2), ("left out", 1)):
        tables.offsets.commit(group, "orders", 0, offset=offset)
    tables.offsets.commit("g", "orders", 1, offset=5)
    tables.offsets.commit("slow", "orders", 1, offset=6)
    least = comparison.least_of_all(CorrectionOffsetRequest("g", "orders", "left out"))
    assert least == {0: 2, 1: 5}


async def test_a_group_goes_on_where_another_one_is(tables, comparison):
    put(tables.store, b"a", b"b")
    tables.topics.put(TopicConfig("other", 1, 1))
    for topic in ("orders", "other", "gone"):
        tables.offsets.commit("g", topic, 0, offset=2)
    tables.world.run(comparison.copy(CloneOffsetsRequest("g", "heir", "other")))
    assert tables.offsets.topics_of("heir") == ["other"]
    tables.offsets.commit("heir", "orders", 0, offset=9)  # It goes back, too.
    tables.world.run(comparison.copy(CloneOffsetsRequest("g", "heir")))
    assert set(tables.offsets.topics_of("heir")) == {"orders", "other"}
    assert tables.offsets.get("heir", "orders", 0) == 2
    assert tables.offsets.get("g", "orders", 0) == 2


@pytest.fixture
def resets(tables):
    put(tables.store, b"a", b"b", b"c")
    return GroupResets(tables)


def moved(result):
    return {queue.queue_id: offset for queue, offset in result.offsets.items()}


async def test_a_group_is_moved_in_all_queues_of_a_topic(tables, resets):
    result = tables.world.run(resets.reset(ResetOffsetRequest("orders", "g")))
    assert (moved(result), result.is_for_members) == ({0: 3, 1: 0}, False)
    assert tables.offsets.has_reset("g", "orders", 0)
    back = tables.world.run(resets.reset(ResetOffsetRequest("orders", "g", 0)))
    assert moved(back) == {0: 0, 1: 0}


async def test_a_group_is_moved_to_an_offset_of_one_queue(tables, resets):
    request = ResetOffsetRequest("orders", "g", 0, queue_id=0, offset=2)
    assert moved(tables.world.run(resets.reset(request))) == {0: 2}


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (ResetOffsetRequest("nothing", "g"), ResponseCode.TOPIC_NOT_EXIST),
        (ResetOffsetRequest("orders", "nobody"), ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        (
            ResetOffsetRequest("orders", "g", 0, queue_id=0, offset=4),
            ResponseCode.SYSTEM_ERROR,
        ),
    ],
)
async def test_what_cannot_be_moves_nothing(tables, resets, request_, code):
    with pytest.raises(RequestError) as refused:
        tables.world.run(resets.reset(request_))
    assert refused.value.code == code
    assert not tables.offsets.has_reset("g", "orders", 0)
