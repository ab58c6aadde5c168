"""Topics, groups and offsets outlive the process, in files as Java keeps them."""

from __future__ import annotations

import asyncio
import json
import platform
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cometmq import __version__
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.broker.tables.locks import BELIEF_SECONDS, LOCK_SECONDS, QueueLocks
from cometmq.broker.tables.logged_table import place_key
from cometmq.broker.tables.topics import Topics
from cometmq.codec.bodies.group_config import encode_group_config
from cometmq.codec.bodies.lock import LockRequest, decode_locked, encode_lock_request
from cometmq.codec.fastjson import loads
from cometmq.codec.remoting import Command
from cometmq.kernel import KERNEL
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.group import GroupConfig
from cometmq.model.queue import MessageQueue
from cometmq.model.topic import TopicConfig
from cometmq.net.channels import Channels
from cometmq.net.loop import loop_clock
from cometmq.net.peer import Peer
from cometmq.store.config_file import ConfigFile
from cometmq.store.real_disk import RealDisk
from tests.support.hand_clock import HandClock
from tests.support.request_fields import topic_fields
from tests.unit.broker.conftest import Served, eventually, serve

CREATE = RequestCode.UPDATE_AND_CREATE_TOPIC


def create_fields(topic="Made", **more):
    return topic_fields(topic, 4) | more


def config(path: Path, name: str):
    return loads((path / "config" / name).read_bytes())


async def test_a_topic_is_on_disk_when_its_maker_is_answered(tmp_path):
    async with serve(tmp_path) as served:
        await served.done(CREATE, create_fields(attributes="+message.type=NORMAL"))
        made = config(tmp_path, "topics.json")["topicConfigTable"]["Made"]
    assert (made["writeQueueNums"], made["perm"]) == (4, 6)
    assert made["attributes"] == {"message.type": "NORMAL"}
    async with serve(tmp_path) as served:
        answer = await served.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "Made"})
        assert json.loads(answer.body)["topicName"] == "Made"


async def test_the_system_has_its_topics_and_groups(served):
    answer = await served.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
    topics = json.loads(answer.body)["topicConfigTable"]
    wanted = {
        "SELF_TEST_TOPIC": (1, 6), "TBW102": (8, 7), "BenchmarkTest": (1024, 6),
        "DefaultCluster": (16, 7), "broker-a": (1, 7), "OFFSET_MOVED_EVENT": (1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 6), "DefaultCluster_REPLY_TOPIC": (1, 6),
        "RMQ_SYS_TRANS_HALF_TOPIC": (1, 6), "rmq_sys_wheel_timer": (1, 6),
    }  # fmt: skip
    found = {name: (t["writeQueueNums"], t["perm"]) for name, t in topics.items()}
    assert found.items() >= wanted.items()
    answer = await served.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    assert "TOOLS_CONSUMER" in json.loads(answer.body)["subscriptionGroupTable"]


REFUSED = {
    "a path": create_fields("../x"),
    "128 characters": create_fields("t" * 128),
    "nothing": create_fields(""),
    "control characters": create_fields("a\x00b"),
    "a topic of the system": create_fields("TBW102"),
    "no queue at all": create_fields(readQueueNums="0", writeQueueNums="0"),
    "more queues than memory": create_fields(writeQueueNums="2000000000"),
    "a permission that is none": create_fields(perm="99"),
    "an attribute without a sign": create_fields(attributes="a=b"),
    "a missing field": {"topic": "T"},
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_topic_that_cannot_be_is_refused(served, case):
    answer = await served.ask(CREATE, REFUSED[case])
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert answer.remark


async def test_a_topic_stays_as_it_is_where_the_store_is_busy_and_goes_later(served):
    await served.ask(CREATE, create_fields())
    place = {"consumerGroup": "g", "topic": "Made", "queueId": "0"}
    await served.ask(RequestCode.UPDATE_CONSUMER_OFFSET, place | {"commitOffset": "3"})
    served.broker._store._acceptance.hold("the log is being truncated to 0")
    await served.refused(
        ResponseCode.SYSTEM_BUSY,
        "the log is being truncated",
        RequestCode.DELETE_TOPIC_IN_BROKER,
        {"topic": "Made"},
    )
    await served.done(RequestCode.GET_TOPIC_CONFIG, {"topic": "Made"})
    assert (await served.ask(RequestCode.QUERY_CONSUMER_OFFSET, place)).fields["offset"] == "3"
    served.broker._store._acceptance.release()
    await served.done(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Made"})


async def test_a_group_is_made_changed_and_deleted(tmp_path):
    async with serve(tmp_path) as served:
        body = encode_group_config(GroupConfig("g", retry_max_times=3))
        await served.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        saved = config(tmp_path, "subscriptionGroup.json")["subscriptionGroupTable"]["g"]
        assert saved["retryMaxTimes"] == 3
        answer = await served.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"})
        assert json.loads(answer.body)["retryMaxTimes"] == 3
        fields = {"groupName": "g", "cleanOffset": "true"}
        await served.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)
        answer = await served.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"})
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_a_group_whose_settings_grow_too_large_is_refused(tmp_path):
    async with serve(tmp_path) as served:
        answers = []
        for number in range(3):  # Each adds to the attributes.
            attributes = {f"+attribute{number}": "x" * 400_000}
            body = encode_group_config(GroupConfig("g", attributes=attributes))
            code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            answers.append(await served.ask(code, body=body))
        assert [each.code for each in answers[:2]] == [0, 0]
        assert answers[2].code == ResponseCode.INVALID_PARAMETER
        assert "group g is refused: its attributes" in answers[2].remark
        answer = await served.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"})
        assert set(json.loads(answer.body)["attributes"]) == {"attribute0", "attribute1"}


async def test_committed_offsets_outlive_a_clean_stop(tmp_path):
    place = {"consumerGroup": "g", "topic": "Made", "queueId": "2"}
    async with serve(tmp_path) as served:
        await served.ask(CREATE, create_fields())
        await served.ask(RequestCode.UPDATE_CONSUMER_OFFSET, place | {"commitOffset": "17"})
    assert config(tmp_path, "consumerOffset.json")["offsetTable"] == {"Made@g": {2: 17}}
    async with serve(tmp_path) as served:
        answer = await served.ask(RequestCode.QUERY_CONSUMER_OFFSET, place)
        assert answer.fields["offset"] == "17"


async def test_with_light_queues_offsets_lie_in_the_file_that_java_keeps_then(tmp_path):
    def place(group: str) -> dict[str, str]:
        return {"consumerGroup": group, "topic": "Made", "queueId": "0"}

    async def offset_of(served, group: str) -> str | None:
        answer = await served.ask(RequestCode.QUERY_CONSUMER_OFFSET, place(group))
        return answer.fields.get("offset")

    async with serve(tmp_path) as served:
        await served.ask(CREATE, create_fields())
        for group in ("g", "%LMQ%g"):
            fields = place(group) | {"commitOffset": "17"}
            await served.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    async with serve(tmp_path, is_light_read=True) as served:  # The setting is new here.
        assert await offset_of(served, "g") == await offset_of(served, "%LMQ%g") == "17"
        fields = place("%LMQ%g") | {"commitOffset": "19"}
        await served.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    saved = config(tmp_path, "lmqConsumerOffset.json")
    assert saved["lmqOffsetTable"] == {"Made@%LMQ%g": 19}
    assert saved["offsetTable"] == {"Made@g": {0: 17}}
    (tmp_path / "config" / "consumerOffset.json").unlink()
    async with serve(tmp_path, is_light_read=True) as served:
        assert await offset_of(served, "g") == "17"
        assert await offset_of(served, "%LMQ%g") == "19"


async def test_committed_offsets_are_saved_by_time(tmp_path):
    place = {"consumerGroup": "g", "topic": "Made", "queueId": "0", "commitOffset": "5"}
    async with serve(tmp_path, flush_offsets_interval_ms=100) as served:
        await served.ask(CREATE, create_fields())
        await served.ask(RequestCode.UPDATE_CONSUMER_OFFSET, place)
        await eventually((tmp_path / "config" / "consumerOffset.json").exists)


async def test_a_table_that_cannot_be_saved_says_so_and_is_saved_later(tmp_path, monkeypatch):
    async with serve(tmp_path, flush_offsets_interval_ms=100) as served:
        file = served.broker._topics.saver._file
        real = file.save

        def full(_text):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(file, "save", full)
        answer = await served.ask(CREATE, create_fields())
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        monkeypatch.setattr(file, "save", real)
        await eventually(lambda: "Made" in config(tmp_path, "topics.json")["topicConfigTable"])


async def test_runtime_numbers_are_there_for_consoles(served):
    answer = await served.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    table = json.loads(answer.body)["table"]
    assert table["brokerVersionDesc"] == "V5_3_3"
    assert table["cometmqVersion"] == __version__
    assert table["cometmqKernel"] == ("compiled" if KERNEL == "fast" else "plain")
    assert table["cometmqPython"] == platform.python_version()
    for name in ("putTps", "getTotalTps", "bootTimestamp", "runtime", "commitLogMaxOffset"):
        assert table[name]


async def test_administration_from_elsewhere_is_refused(served, monkeypatch):
    monkeypatch.setattr(
        Peer, "is_on_own_machine", property(lambda _: False, lambda *_: None), raising=False
    )
    channels = Channels(loop_clock())
    command = Command(RequestCode.DELETE_TOPIC_IN_BROKER, fields={"topic": "Made"})
    answer = await channels.call(served.broker.address, command)
    await channels.close()
    assert answer.code == ResponseCode.NO_PERMISSION
    assert "DELETE_TOPIC_IN_BROKER" in (answer.remark or "")


async def test_a_topic_is_on_disk_as_soon_as_its_save_is_done(tmp_path):
    """A send in the same turn of the loop comes before what the save calls back; it must not begin another save."""
    with ThreadPoolExecutor(1) as pool:
        file = ConfigFile(str(tmp_path / "topics.json"), RealDisk())
        topics = Topics(file, BrokerSettings(), clock=HandClock(), pool=pool)
        topics.load()
        saving = topics.put(TopicConfig("new"))
        assert topics.saving_of("new") is saving
        turns = asyncio.Event()
        found: list[object] = []

        def look() -> None:
            if saving.done():
                found.append(topics.saving_of("new"))
                turns.set()
            else:
                asyncio.get_running_loop().call_soon(look)

        look()
        await turns.wait()
        assert found == [None]
        await topics.saver.close()


QUEUES = [MessageQueue("TBW102", "broker-a", queue_id) for queue_id in range(3)]


@pytest.fixture
async def locks(tmp_path: Path, clock: HandClock):
    with ThreadPoolExecutor(1) as pool:
        made = QueueLocks(
            ConfigFile(str(tmp_path / "queueLocks.json"), RealDisk()), clock=clock, pool=pool
        )
        made.load()
        yield made
        await made.saver.close()


def taken(locks: QueueLocks, queues: list[MessageQueue], group: str, client_id: str):
    return locks.lock(queues, group=group, client_id=client_id)[0]


async def test_a_locked_queue_is_one_clients_until_it_is_given_back_or_forgotten(locks, clock):
    assert taken(locks, QUEUES[:2], "g", "a") == QUEUES[:2]
    assert taken(locks, QUEUES, "g", "b") == QUEUES[2:]
    assert taken(locks, QUEUES[:1], "other", "b") == QUEUES[:1]
    assert [locks.holder("g", queue) for queue in QUEUES] == ["a", "a", "b"]
    locks.unlock(QUEUES, group="g", client_id="a")
    assert taken(locks, QUEUES[:1], "g", "b") == QUEUES[:1]
    clock.turn(LOCK_SECONDS + 1)
    assert locks.holder("g", QUEUES[0]) is None
    assert not locks.is_group_ordered("g")
    locks.expire()
    assert taken(locks, QUEUES, "g", "a") == QUEUES


async def test_a_renewed_lock_lasts_and_writes_nothing(locks, clock):
    _, saving = locks.lock(QUEUES, group="g", client_id="a")
    await saving
    for _ in range(3):
        clock.turn(LOCK_SECONDS - 1)
        obtained, saving = locks.lock(QUEUES, group="g", client_id="a")
        assert (obtained, saving) == (QUEUES, None)
    assert taken(locks, QUEUES, "g", "b") == []
    assert locks.is_group_ordered("g")


async def test_a_lock_that_expired_is_written_when_its_owner_renews_it(locks, clock):
    """Since it expired, a snapshot of the locks may have been written that lacks it."""
    noted: list[str] = []
    locks.on_change.append(noted.append)
    await locks.lock(QUEUES[:1], group="g", client_id="a")[1]
    clock.turn(LOCK_SECONDS)
    obtained, saving = locks.lock(QUEUES[:1], group="g", client_id="a")
    assert obtained == QUEUES[:1]
    assert saving is not None
    assert noted == [place_key("g", "TBW102", 0)] * 2


async def test_a_lock_whose_save_failed_is_not_granted_before_another_save(locks, tmp_path):
    """A client that repeated its request would have had a lock that no later start knows of."""
    folder = tmp_path / "queueLocks.json"
    folder.mkdir()
    _, saving = locks.lock(QUEUES, group="g", client_id="a")
    with pytest.raises(RequestError, match="could not be written"):
        await saving
    folder.rmdir()
    obtained, saving = locks.lock(QUEUES, group="g", client_id="a")
    assert obtained == QUEUES
    await saving
    assert '"clientId":"a"' in folder.read_text()


async def ask(served: Served, client_id: str) -> tuple[MessageQueue, ...]:
    body = encode_lock_request(LockRequest("g", client_id, tuple(QUEUES)))
    return decode_locked((await served.ask(RequestCode.LOCK_BATCH_MQ, body=body)).body)


async def test_a_lock_outlives_the_broker_and_ends_when_nobody_renews_it(tmp_path, clock):
    async with serve(tmp_path / "store", clock=clock) as served:
        assert await ask(served, "a") == tuple(QUEUES)
        # What the answer says is on the disk by then, whatever happens to the broker.
        assert '"clientId":"a"' in (tmp_path / "store/config/queueLocks.json").read_text()
    async with serve(tmp_path / "store", clock=clock) as served:
        assert await ask(served, "b") == ()
        assert await ask(served, "a") == tuple(QUEUES)
        clock.turn(LOCK_SECONDS + 1)
        assert await ask(served, "b") == tuple(QUEUES)
    async with serve(tmp_path / "store", clock=clock) as served:
        clock.turn(BELIEF_SECONDS - 1)
        assert await ask(served, "a") == ()
        clock.turn(1)
        assert await ask(served, "a") == tuple(QUEUES)


async def test_a_queue_that_is_given_back_twice_in_a_request_is_given_back(locks):
    taken(locks, QUEUES[:1], "g", "a")
    locks.unlock(QUEUES, group="g", client_id="")  # Nobody's name holds nothing.
    locks.unlock([QUEUES[0], QUEUES[0]], group="g", client_id="a")
    assert taken(locks, QUEUES[:1], "g", "b") == QUEUES[:1]
