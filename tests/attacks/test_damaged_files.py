"""Damaged files beside the log: the .bak, what the log tells, or a refusal; never silence or a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cometmq.model.codes import RequestCode
from tests.attacks.test_starts import TOPIC, filled_store, refused
from tests.support import processes
from tests.support.frames import ask
from tests.support.processes import Program


def read_count(program: Program, topic: str) -> int:
    """How many messages the first queue of a topic is said to have, by a pull."""
    fields = {
        "consumerGroup": "g", "topic": topic, "queueId": "0", "queueOffset": "0",
        "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0",
        "subscription": "*", "subVersion": "0", "expressionType": "TAG",
    }  # fmt: skip
    header, _ = ask(program.address, RequestCode.PULL_MESSAGE, fields)
    assert header["code"] == 0, header
    return int(header["extFields"]["maxOffset"])


def old_backup(config: Path) -> None:
    """Let the .bak of topics.json know no topic of users: it is that of the first start."""
    table = json.loads((config / "topics.json").read_text())
    del table["topicConfigTable"][TOPIC]
    (config / "topics.json.bak").write_text(json.dumps(table))


def test_topics_with_queues_outlive_a_damaged_topics_json(tmp_path):
    """Cut, and then a directory in its place: the line names the file, what is missing is made again."""
    config = filled_store(tmp_path) / "config"
    program = processes.broker(tmp_path, "")
    topics = config / "topics.json"
    for number in range(2):
        old_backup(config)
        if number:
            topics.unlink()
            topics.mkdir()
        else:
            topics.write_bytes(topics.read_bytes()[:300])
        with program.start():
            assert read_count(program, TOPIC) == 30
        program.process = None
        said = program.log.read_text()
        assert said.count(f"{topics} cannot be read") == number + 1
        assert (
            f"made again with read and write permission and as many queues as have messages: {TOPIC}"
            in said
        )
        assert "Traceback" not in said


def test_offsets_that_are_lost_are_said_or_refused(tmp_path):
    """An empty file gives way to its .bak with a line, and without one the start is refused."""
    config = filled_store(tmp_path) / "config"
    offsets = config / "consumerOffset.json"
    offsets.write_text("")
    (config / "consumerOffset.json.bak").write_text('{"offsetTable":{"Kept@g":{0:7}}}')
    with processes.broker(tmp_path, "") as program:
        fields = {"consumerGroup": "g", "topic": TOPIC, "queueId": "0"}
        header, _ = ask(program.address, RequestCode.QUERY_CONSUMER_OFFSET, fields)
        assert header["extFields"]["offset"] == "7"
        assert f"{offsets} cannot be read: it is empty" in program.log.read_text()
    for path in config.glob("consumerOffset.json*"):
        path.unlink()
    offsets.write_text("")
    assert f"{offsets} and its .bak cannot be read: it is empty" in refused(
        processes.broker(tmp_path, "")
    )


@pytest.mark.parametrize("name", ["subscriptionGroup.json", "delayOffset.json"])
def test_a_directory_in_place_of_a_file_is_refused_with_what_to_do(tmp_path, name):
    config = tmp_path / "store" / "config"
    (config / name).mkdir(parents=True)
    said = refused(processes.broker(tmp_path, ""))
    assert f"{config / name} and its .bak cannot be read" in said
    assert "move both away" in said


def test_a_damaged_kv_configuration_gives_way_to_its_backup(tmp_path):
    """The nameserver's file keeps the same rule."""
    table = {"configTable": {"NS": {"key": "old"}}}
    (tmp_path / "kvConfig.json.bak").write_text(json.dumps(table))
    (tmp_path / "kvConfig.json").write_text('{"configTable":{"NS"')
    with processes.nameserver(tmp_path) as program:
        header, _ = ask(
            program.address, RequestCode.GET_KV_CONFIG, {"namespace": "NS", "key": "key"}
        )
        assert header["extFields"]["value"] == "old"
        assert f"{tmp_path / 'kvConfig.json'} cannot be read" in program.log.read_text()
