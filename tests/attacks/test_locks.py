"""Queue locks without end: of queues that do not exist, with names of any length, and from a file."""

import json

from tests.attacks.stranger import Stranger
from tests.support import processes
from tests.support.good_client import GoodClient
from tests.support.memory import MemoryWatch
from tests.support.request_fields import topic_fields

LOCK = 41
CREATE_TOPIC = 17
INVALID_PARAMETER = 29


def lock_body(queues, *, group="g", client_id="stranger"):
    mq_set = [{"topic": t, "brokerName": b, "queueId": q} for t, b, q in queues]
    body = {"clientId": client_id, "consumerGroup": group, "mqSet": mq_set}
    return json.dumps(body, separators=(",", ":")).encode()


def obtained(answer):
    return json.loads(answer.body)["lockOKMQSet"]


def test_150000_locks_in_a_request_are_refused_and_only_queues_that_exist_are_locked(broker):
    made_up = [("nothing", "broker-a", number) for number in range(150_000)]
    with GoodClient(broker.address, broker.pid) as good, Stranger(broker.address) as peer:
        refused = peer.ask(LOCK, body=lock_body(made_up))
        assert refused.code == INVALID_PARAMETER
        assert "the limit is" in refused.remark
        # As many as a request may have.
        answer = peer.ask(LOCK, body=lock_body(made_up[:4000]))
        assert obtained(answer) == []
        assert answer.remark == "this broker does not have 4000 of these queues"
        some = [
            ("GoodClient", "broker-a", 0),
            ("GoodClient", "broker-a", 9),
            ("GoodClient", "b", 1),
        ]
        answer = peer.ask(LOCK, body=lock_body(some))
        assert [each["queueId"] for each in obtained(answer)] == [0]
    good.check()


def test_locks_with_names_of_8_mb_take_no_memory_and_no_file(broker, tmp_path):
    with MemoryWatch(broker.pid) as memory, Stranger(broker.address) as peer:
        for number in range(12):
            # Just below what a request may have, or far more.
            name = f"{number}" + "n" * (1_000_000 if number else 8 << 20)
            bodies = (
                lock_body([(name, "broker-a", 0)]),
                lock_body([("TBW102", "broker-a", 0)], group=name),
                lock_body([("TBW102", "broker-a", 0)], client_id=name),
            )
            for body in bodies:
                answer = peer.ask(LOCK, body=body)
                assert answer.code != 0 or obtained(answer) == []
    memory.check()
    memory.check_back()
    broker.stop()
    file = tmp_path / "broker/store/config/queueLocks.json"
    assert not file.exists() or file.stat().st_size < 1000


def test_one_group_that_locks_all_it_can_leaves_room_for_others(broker):
    with Stranger(broker.address) as peer:
        for topic in ("many", "few"):
            fields = topic_fields(topic, 40000)
            assert peer.ask(CREATE_TOPIC, fields).code == 0
        greedy = 0
        for first in range(0, 40_000, 2000):
            queues = [("many", "broker-a", number) for number in range(first, first + 2000)]
            greedy += len(
                obtained(peer.ask(LOCK, body=lock_body(queues, client_id="c" * 1000)))
            )
        assert 1000 < greedy < 10_000
        few = [("few", "broker-a", number) for number in range(100)]
        assert len(obtained(peer.ask(LOCK, body=lock_body(few, group="modest")))) == 100


def test_a_file_of_locks_that_is_too_large_is_not_read(tmp_path, nameserver):
    config = tmp_path / "broker/store/config"
    config.mkdir(parents=True)
    lock = {
        "clientId": "c" * 1000, "consumerGroup": "g", "brokerName": "broker-a", "topic": "t" * 100,
    }  # fmt: skip
    locks = [{**lock, "queueId": number} for number in range(65_000)]
    (config / "queueLocks.json").write_text(json.dumps({"locks": locks}))
    with processes.broker(tmp_path / "broker", nameserver.address) as broker:
        with Stranger(broker.address) as peer:
            answer = peer.ask(LOCK, body=lock_body([("TBW102", "broker-a", 0)]))
            assert obtained(answer) == [], "somebody may still believe in a lock"
        log = (tmp_path / "broker/broker.log").read_text()
        assert "is not read: no queue can be locked for 30 s" in log
