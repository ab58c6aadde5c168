"""Consumer offsets of queues that do not exist."""

import json

from tests.attacks.stranger import Stranger
from tests.support.good_client import GoodClient
from tests.support.memory import MemoryWatch

COMMIT = 15
QUERY = 14
INVALID_PARAMETER = 29
TOPIC_NOT_EXIST = 17


def commit_fields(group, topic, queue_id, offset=0):
    return {
        "consumerGroup": group, "topic": topic, "queueId": str(queue_id), "commitOffset": str(offset),
    }  # fmt: skip


def test_offsets_of_made_up_queues_are_refused_and_none_is_kept(broker, tmp_path):
    with (
        MemoryWatch(broker.pid) as memory,
        GoodClient(broker.address, broker.pid) as good,
        Stranger(broker.address) as peer,
    ):
        made_up = range(8, 65_536, 16)
        codes = set()
        for first in made_up[::64]:
            some = range(first, min(first + 1024, 65_536), 16)
            for queue_id in some:
                peer.send(COMMIT, commit_fields("g", "GoodClient", queue_id))
            codes |= {peer.read().code for _ in some}
        assert codes == {INVALID_PARAMETER}
        assert peer.ask(COMMIT, commit_fields("g", "nothing", 0)).code == TOPIC_NOT_EXIST
        assert peer.ask(COMMIT, commit_fields("g" * 256, "GoodClient", 0)).code != 0
        for queue_id in range(4):
            assert peer.ask(COMMIT, commit_fields("g", "GoodClient", queue_id)).code == 0
    good.check()
    memory.check()
    memory.check_back()
    broker.stop()
    offsets = (tmp_path / "broker/store/config/consumerOffset.json").read_text()
    assert "GoodClient@g" in offsets
    assert len(offsets) < 2000


def test_groups_are_not_made_without_end_by_their_offsets(broker, tmp_path):
    with Stranger(broker.address) as peer:
        groups = range(1500)
        for number in groups:
            peer.send(COMMIT, commit_fields(f"group_{number}", "TBW102", 0))
        refused = [answer for answer in (peer.read() for _ in groups) if answer.code]
        assert refused
        assert "20 groups per second" in refused[0].remark
    broker.stop()
    groups_file = tmp_path / "broker/store/config/subscriptionGroup.json"
    assert 1000 <= len(json.loads(groups_file.read_text())["subscriptionGroupTable"]) < 1300
