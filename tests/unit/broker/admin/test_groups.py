"""Groups as a service: changed, forbidden topics, and where they stand beside each other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cometmq.broker.admin.groups import GroupAdministration, GroupComparison
from cometmq.codec.headers.console import CloneOffsetsRequest, CorrectionOffsetRequest
from cometmq.codec.headers.topic import DeleteGroup
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.group import GroupConfig
from cometmq.model.topic import TopicConfig
from tests.support.steps import run
from tests.support.store_puts import put


@pytest.fixture
def administration(tables):
    return GroupAdministration(tables)


@pytest.fixture
def comparison(tables):
    return GroupComparison(tables)


def on_disk(tmp_path: Path) -> set[str]:
    path = tmp_path / "config" / "subscriptionGroup.json"
    return set(json.loads(path.read_text())["subscriptionGroupTable"])


async def test_all_groups_are_changed_or_none(administration, tables):
    exponential = GroupConfig("patient", retry_policy={"type": "EXPONENTIAL"})
    with pytest.raises(RequestError, match="EXPONENTIAL") as refused:
        await run(administration.change([GroupConfig("one"), exponential]))
    assert refused.value.code == ResponseCode.INVALID_PARAMETER
    assert tables.groups.peek("one") is None


async def test_groups_before_the_first_without_room_are_on_disk(
    administration, tables, tmp_path
):
    room = len(tables.groups.table().groups) + 1
    tables.groups._settings = replace(tables.settings, groups_max=room)
    with pytest.raises(RequestError, match="other cannot be created"):
        await run(administration.change([GroupConfig("one"), GroupConfig("other")]))
    assert "one" in on_disk(tmp_path)


async def test_a_disk_error_in_a_retry_topic_keeps_no_group(administration, tables, tmp_path):
    tables.topics.put(TopicConfig("%RETRY%g", 1, 1))
    # It is in the place of a file, and cannot be removed as one.
    (tmp_path / "consumequeue" / "%RETRY%g" / "0" / "file").mkdir(parents=True)
    with pytest.raises(RequestError, match="group g is deleted, but some files"):
        await run(administration.delete(DeleteGroup("g", clean_offset=True)))
    assert "g" not in on_disk(tmp_path)
    assert tables.topics.get("%RETRY%g") is None


async def test_attributes_of_a_group_are_changed_by_their_signs(administration, tables):
    await run(administration.change([GroupConfig("one", attributes={"+a": "1", "+b": "2"})]))
    await run(administration.change([GroupConfig("one", retry_max_times=3)]))
    assert administration.find("one").attributes == {"a": "1", "b": "2"}
    await run(administration.change([GroupConfig("one", attributes={"-a": "", "+b": "3"})]))
    assert administration.find("one").attributes == {"b": "3"}
    with pytest.raises(RequestError, match=r"write \+key=value") as refused:
        await run(
            administration.change(
                [GroupConfig("two"), GroupConfig("one", attributes={"b": ""})]
            )
        )
    assert refused.value.code == ResponseCode.INVALID_PARAMETER
    assert tables.groups.peek("two") is None


@pytest.mark.parametrize("clean_offset", [True, False])
async def test_a_group_goes_with_its_offsets_where_that_is_wanted(
    administration, tables, tmp_path, clean_offset
):
    tables.offsets.commit("g", "orders", 0, offset=3)
    await run(administration.delete(DeleteGroup("g", clean_offset)))
    assert "g" not in on_disk(tmp_path)
    assert tables.offsets.get("g", "orders", 0) == (None if clean_offset else 3)
    with pytest.raises(RequestError) as refused:
        administration.find("g")
    assert refused.value.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_a_topic_is_forbidden_and_permitted_and_asking_changes_nothing(administration):
    assert await run(administration.forbid("g", "orders", is_readable=None))
    assert not await run(administration.forbid("g", "orders", is_readable=False))
    assert not await run(administration.forbid("g", "orders", is_readable=None))
    assert await run(administration.forbid("g", "orders", is_readable=True))


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
    comparison.copy(CloneOffsetsRequest("g", "heir", "other"))
    assert tables.offsets.topics_of("heir") == ["other"]
    tables.offsets.commit("heir", "orders", 0, offset=9)  # It goes back, too.
    comparison.copy(CloneOffsetsRequest("g", "heir"))
    assert set(tables.offsets.topics_of("heir")) == {"orders", "other"}
    assert tables.offsets.get("heir", "orders", 0) == 2
    assert tables.offsets.get("g", "orders", 0) == 2
