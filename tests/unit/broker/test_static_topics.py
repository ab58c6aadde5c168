"""Static topics are refused by name: a mapped queue is never taken for a plain one."""

from __future__ import annotations

import json
import threading

import pytest

from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import SettingsError
from tests.unit.broker.conftest import serve


def left_by_java(folder, mappings: dict[str, object]) -> None:
    config = folder / "config"
    config.mkdir(parents=True, exist_ok=True)
    version = {"counter": 1, "stateVersion": 0, "timestamp": 1_700_000_000_000}
    text = json.dumps({"dataVersion": version, "topicQueueMappingInfoMap": mappings})
    (config / "topicQueueMapping.json").write_text(text)


async def test_a_broker_that_finds_mapped_queues_does_not_start(
    tmp_path,
):
    left_by_java(tmp_path, {"Static": {"topic": "Static", "totalQueues": 4}})
    before = {thread.ident for thread in threading.enumerate()}
    with pytest.raises(SettingsError, match="Static"):
        async with serve(tmp_path):
            pass
    assert {thread.ident for thread in threading.enumerate()} == before
    (tmp_path / "config" / "topicQueueMapping.json").unlink()
    async with serve(tmp_path) as served:  # Neither its lock nor its store is in the way.
        assert served.broker.port


async def test_a_file_without_mappings_is_no_reason(tmp_path):
    left_by_java(tmp_path, {})
    async with serve(tmp_path) as served:
        await served.refused(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            "static topics",
            RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC,
        )
