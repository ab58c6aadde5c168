"""Names that derive from legal ones and get longer than a directory's name may be; queues that alone cannot be written."""

import json
import time

import pytest

from cometmq.net.clock import SystemClock
from cometmq.store.appender import encode_topic_block
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.message_store import MessageStore
from cometmq.store.settings import StoreSettings
from tests.attacks.beats import HEART_BEAT, consumer, heartbeat
from tests.attacks.by_hand import pull, send
from tests.attacks.stranger import Answered, Stranger
from tests.support import processes
from tests.support.good_client import GoodClient
from tests.support.request_fields import pop_fields
from tests.support.store_puts import HOST_V4

SEND_BACK, POP, DELETE_TOPIC, DELETE_GROUP = 36, 200050, 215, 207
OK, SYSTEM_ERROR, NOT_SERVING, INVALID = 0, 1, 14, 29
LONG_GROUP = (
    "g" * 251
)  # Legal; `%DLQ%` and `%RETRY%` with it are longer than a directory's name may be.
LONG_TOPIC = "%DLQ%" + LONG_GROUP


def physical_offset(sent: Answered) -> int:
    """Where in the log a message lies: the last half of its id."""
    return int(sent.fields["msgId"][-16:], 16)


def give_back(
    stranger: Stranger, sent: Answered, topic: str, group: str, level: int
) -> Answered:
    """Send a message back, as a consumer of this group that failed."""
    fields = {
        "offset": str(physical_offset(sent)),
        "group": group,
        "delayLevel": str(level),
        "originTopic": topic,
        "originMsgId": sent.fields["msgId"],
        "unitMode": "false",
        "maxReconsumeTimes": "16",
    }
    return stranger.ask(SEND_BACK, fields)


def pop(stranger: Stranger, topic: str, group: str) -> Answered:
    """Pop one message, to be acknowledged within a second."""
    fields = pop_fields(topic, consumerGroup=group, maxMsgNums=1, invisibleTime=1000)
    return stranger.ask(POP, fields)


def assert_all_sends_are_taken(address: str, *, seconds: float = 0.3) -> None:
    """Nobody is refused; 2.5 s are more than a tail of few waits until it is written."""
    deadline = time.monotonic() + seconds
    with Stranger(address) as stranger:
        while time.monotonic() < deadline:
            answer = send(stranger, "Others")
            assert answer.code == OK, answer
            time.sleep(0.05)


def test_a_send_back_whose_dead_letter_topic_has_too_long_a_name_stops_nobody(
    tmp_path, nameserver, broker
):
    with Stranger(broker.address) as stranger, GoodClient(broker.address, broker.pid) as good:
        beat = heartbeat("one", [consumer(LONG_GROUP)])
        assert (
            stranger.ask(HEART_BEAT, body=beat).code == OK
        )  # It may consume, without retries.
        sent = send(stranger, "Given")
        # Dead at once, at the next level, delayed by 1 s.
        answers = [
            give_back(stranger, sent, "Given", LONG_GROUP, level) for level in (-1, 0, 1)
        ]
        assert_all_sends_are_taken(broker.address, seconds=2.5)
        for answer in answers:
            assert answer.code == SYSTEM_ERROR, (
                answer
            )  # As RocketMQ, which says MESSAGE_ILLEGAL.
            assert "MESSAGE_ILLEGAL" in answer.remark
            assert "at most 255 are allowed" in answer.remark
    good.check()
    assert broker.stop() == 0
    assert not (tmp_path / "broker" / "store" / "abort").exists()
    assert "cannot be written" not in broker.log.read_text()


def test_a_pop_whose_retry_topic_has_too_long_a_name_is_refused_and_stops_nobody(broker):
    topic, group = "t" * 120, "g" * 140
    with Stranger(broker.address) as stranger, GoodClient(broker.address, broker.pid) as good:
        assert send(stranger, topic).code == OK
        answer = pop(stranger, topic, group)
        assert_all_sends_are_taken(broker.address, seconds=2.5)
        assert answer.code == INVALID, answer
        assert "at most 255 are allowed" in answer.remark
        assert pop(stranger, topic, "g" * 127).code == OK
    good.check()


def poison(folder) -> None:
    """Leave in a store what the old broker left: a record of a topic that can have no directory, and the topic."""
    settings = StoreSettings(commitlog_file_size=64 << 20)
    store = MessageStore.open(folder, settings, clock=SystemClock())
    store.store_host = HOST_V4
    queue = ConsumeQueue(LONG_TOPIC, 0)
    block = encode_topic_block(LONG_TOPIC)
    store.put_many([(queue, block, b"dead", b"", 0, 0, 0, 1, HOST_V4, 0, 0, 0)])
    store._directory.release()  # As one that was killed: nothing else is written.
    topics = folder / "config" / "topics.json"
    table = json.loads(topics.read_text())
    made = dict(table["topicConfigTable"]["Kept"], topicName=LONG_TOPIC)
    table["topicConfigTable"][LONG_TOPIC] = made
    topics.write_text(json.dumps(table))


def test_a_store_with_a_topic_of_too_long_a_name_serves_again_and_the_topic_can_be_deleted(
    tmp_path, nameserver
):
    broker = processes.broker(tmp_path / "broker", nameserver.address)
    with broker, Stranger(broker.address) as stranger:
        assert send(stranger, "Kept", body=b"kept").code == OK
    poison(tmp_path / "broker" / "store")
    for end in (broker.kill, broker.stop):
        broker.start()
        assert_all_sends_are_taken(broker.address)
        end()
    assert "in no queue: 1 record of topic %DLQ%ggg" in broker.log.read_text()
    with broker.start(), Stranger(broker.address) as stranger:
        assert b"kept" in pull(stranger, "Kept", 0).body
        assert stranger.ask(DELETE_TOPIC, {"topic": LONG_TOPIC}).code == OK
        assert_all_sends_are_taken(broker.address)
    table = json.loads((tmp_path / "broker/store/config/topics.json").read_text())
    assert LONG_TOPIC not in table["topicConfigTable"]


def test_a_file_where_a_queue_s_directory_should_be_stops_that_queue_alone(
    tmp_path, nameserver
):
    broker = processes.broker(tmp_path / "broker", nameserver.address)
    in_the_way = tmp_path / "broker" / "store" / "consumequeue" / "Blocked"
    with broker:
        in_the_way.write_text("somebody's")
        with Stranger(broker.address) as stranger:
            assert send(stranger, "Blocked", body=b"before").code == OK
            processes.wait_until(
                lambda: send(stranger, "Blocked", 1).code, seconds=10, what="a refusal"
            )
            refused = send(stranger, "Blocked", 1)
            assert refused.code == NOT_SERVING
            assert "of topic[Blocked] cannot be written (Not a directory" in refused.remark
            assert_all_sends_are_taken(broker.address)
            assert b"before" in pull(stranger, "Blocked", 0).body
            in_the_way.unlink()
            processes.wait_until(
                lambda: send(stranger, "Blocked", 1).code == OK, seconds=5, what="a cure"
            )
        in_the_way.with_name("Later").write_text("somebody's")
        with Stranger(broker.address) as stranger:
            assert send(stranger, "Later").code == OK
    assert not (tmp_path / "broker" / "store" / "abort").exists()  # It was closed in order.
    with broker.start(), Stranger(broker.address) as stranger:
        assert b"before" in pull(stranger, "Blocked", 0).body
        assert_all_sends_are_taken(broker.address)


@pytest.mark.parametrize(
    "name",
    ["G/../orders", "G/../../consumequeue/orders", "..", ".", "/", "no\0name", "g" * 300],
)
def test_a_group_deleted_by_a_name_that_leads_elsewhere_takes_no_queue_along(
    tmp_path, nameserver, name
):
    """A directory %RETRY%G is there, from which the way led up: queues of `orders` lay on disk, and went."""
    queues = tmp_path / "broker" / "store" / "consumequeue"
    broker = processes.broker(tmp_path / "broker", nameserver.address)
    with broker, Stranger(broker.address) as stranger:
        assert send(stranger, "orders", body=b"kept").code == OK
    (queues / "%RETRY%G" / "0").mkdir(parents=True)
    with broker.start(), Stranger(broker.address) as stranger:
        before = sorted(path for path in queues.rglob("*") if path.is_file())
        fields = {"groupName": name, "cleanOffset": "true"}
        assert stranger.ask(DELETE_GROUP, fields).code in {OK, INVALID}
        assert sorted(path for path in queues.rglob("*") if path.is_file()) == before
        assert b"kept" in pull(stranger, "orders", 0).body
        assert "Traceback" not in broker.log.read_text()
