"""Damaged files beside the log: the .bak, what the log tells, or a refusal; never silence or a traceback."""

import json
from pathlib import Path

import pytest

from cometmq.codec.record import decode_records
from cometmq.model.codes import RequestCode
from tests.attacks.stranger import Stranger
from tests.attacks.test_starts import TOPIC, filled_store, refused
from tests.support import processes
from tests.support.frames import ask
from tests.support.processes import Program, wait_until
from tests.support.request_fields import pull_fields, word_send_fields


def read_count(program: Program, topic: str) -> int:
    """How many messages the first queue of a topic is said to have, by a pull."""
    fields = pull_fields(topic)
    header, _ = ask(program.address, RequestCode.PULL_MESSAGE, fields)
    assert header["code"] == 0, header
    return int(header["extFields"]["maxOffset"])


def timer_facts(program: Program) -> tuple[str, str]:
    """Messages that are not in the wheel yet, and those in it."""
    table = json.loads(ask(program.address, RequestCode.GET_BROKER_RUNTIME_INFO)[1])["table"]
    return table["timerOffsetBehind"], table["timerCongestNum"]


def bodies_of_key(program: Program, key: str) -> list[bytes]:
    """What a query finds by a key."""
    fields = {
        "topic": TOPIC, "key": key, "maxNum": "8", "beginTimestamp": "0",
        "endTimestamp": str(1 << 60),
    }  # fmt: skip
    header, body = ask(program.address, RequestCode.QUERY_MESSAGE, fields)
    assert header["code"] == 0, header
    return [record.body for record in decode_records(body)]


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
            f"recreated with read and write permission and as many queues as have messages: {TOPIC}"
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


def halve(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def write_garbage(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"garbage!" * 512)


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [halve, write_garbage, make_directory])
def test_damaged_derived_files_are_put_aside_and_built_again(tmp_path, damage):
    """Index, queue, timer wheel and timer log: the broker starts, says so, and has every message and key."""
    store = filled_store(tmp_path)
    with processes.broker(tmp_path, "") as program, Stranger(program.address) as peer:
        fields = word_send_fields(
            TOPIC, properties="TIMER_DELAY_SEC\x013600\x02", defaultTopicQueueNums=1
        )
        assert peer.ask(RequestCode.SEND_MESSAGE, fields, b"later").code == 0
        wait_until(lambda: timer_facts(program) == ("0", "1"), seconds=10, what="the timer")
    [index] = (store / "index").iterdir()
    derived = [index, store / "timerwheel", store / "timerlog" / ("0" * 20)]
    if damage is not write_garbage:  # Of entries that are wrong: test_damaged_queues.
        derived.append(store / "consumequeue" / TOPIC / "0" / ("0" * 20))
    for path in derived:
        damage(path)
    with processes.broker(tmp_path, "") as program:
        assert read_count(program, TOPIC) == 30
        assert bodies_of_key(program, "k7") == [b"7"]
        wait_until(lambda: timer_facts(program) == ("0", "1"), seconds=10, what="the timer")
    said = program.log.read_text()
    assert "Traceback" not in said
    if damage is not write_garbage:
        kept = {path.name for path in (store / "damaged").iterdir()}
        assert {
            "timerwheel",
            f"consumequeue_{TOPIC}_0_{'0' * 20}",
            f"index_{index.name}",
        } <= kept
        assert said.count("it was moved to") == 2


def test_an_empty_index_file_is_built_again(tmp_path):
    """It made queries by key find nothing, without a word."""
    store = filled_store(tmp_path)
    [index] = (store / "index").iterdir()
    index.write_bytes(b"")
    with processes.broker(tmp_path, "") as program:
        for number in range(30):
            assert bodies_of_key(program, f"k{number}") == [b"%d" % number]
    assert index.name in program.log.read_text()
