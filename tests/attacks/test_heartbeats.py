"""Heartbeats that are larger than any client's, or make more than anybody uses."""

from tests.attacks.beats import HEART_BEAT, consumer, heartbeat, kept, knows_route
from tests.attacks.stranger import Stranger
from tests.support.good_client import GoodClient
from tests.support.memory import MemoryWatch
from tests.support.processes import wait_until

INVALID_PARAMETER = 29
GROUP_NOT_EXIST = 26


def test_two_heartbeats_that_make_40000_groups_leave_a_table_that_can_be_registered(
    broker, nameserver, tmp_path
):
    with (
        MemoryWatch(broker.pid) as memory,
        GoodClient(broker.address, broker.pid) as good,
        Stranger(broker.address) as peer,
    ):
        for number in range(2):
            groups = [consumer(f"{number}_{i:05}_{'x' * 240}") for i in range(20_000)]
            refused = peer.ask(HEART_BEAT, body=heartbeat("stranger", groups))
            assert refused.code == INVALID_PARAMETER, refused
            assert "1048576" in refused.remark
    good.check()
    memory.check()
    memory.check_back()
    broker.stop()
    broker.start()
    assert knows_route(nameserver.address, "GoodClient")
    assert (
        len(kept(tmp_path / "broker", "subscriptionGroup.json")["subscriptionGroupTable"]) < 50
    )


def test_a_heartbeat_of_3_mb_makes_no_20000_groups_and_retry_topics(broker, tmp_path):
    with GoodClient(broker.address, broker.pid) as good, Stranger(broker.address) as peer:
        groups = [consumer(f"group_{number:05}") for number in range(20_000)]
        assert peer.ask(HEART_BEAT, body=heartbeat("stranger", groups)).code != 0
        # One that is as large as may be makes a hundred groups.
        answer = peer.ask(HEART_BEAT, body=heartbeat("stranger", groups[:1000]))
        assert answer.code == GROUP_NOT_EXIST
        assert (
            "a heartbeat creates at most 100 groups; the next one creates more" in answer.remark
        )
    good.check()
    broker.stop()
    config = tmp_path / "broker"
    made = kept(config, "subscriptionGroup.json")["subscriptionGroupTable"]
    assert 100 <= len(made) < 120
    assert len(kept(config, "topics.json")["topicConfigTable"]) < 150


def test_the_groups_of_a_real_process_are_there_at_once_with_their_retry_topics(broker):
    """A guard: the bounds of the tests around are not felt by who names 50 groups of two topics."""
    groups = [consumer(f"group_{number}", ["A", "B"]) for number in range(50)]
    with Stranger(broker.address) as peer:
        assert peer.ask(HEART_BEAT, body=heartbeat("client", groups)).code == 0
        for number in range(50):
            assert peer.ask(351, {"topic": f"%RETRY%group_{number}"}).code == 0
            assert peer.ask(38, {"consumerGroup": f"group_{number}"}).code == 0


def test_new_groups_are_made_at_a_bounded_rate_and_the_old_ones_serve_meanwhile(broker):
    with Stranger(broker.address) as peer:
        codes = [
            peer.ask(
                HEART_BEAT,
                body=heartbeat("s", [consumer(f"{beat}_{i}") for i in range(100)]),
            ).code
            for beat in range(12)
        ]
        assert codes[:9] == [0] * 9
        assert codes[-1] == GROUP_NOT_EXIST
        again = [consumer(f"0_{number}") for number in range(100)]
        assert peer.ask(HEART_BEAT, body=heartbeat("s", again)).code == 0


def test_a_heartbeat_of_15_mib_of_lenient_json_holds_nobody_up(broker):
    hostile = (
        b"{clientID:'c'," + b",".join(b"k%d:1" % number for number in range(1_400_000)) + b"}",
        b"{clientID:'c',x:[" + b"[]," * 300_000 + b"1]}",
        b"{clientID:'c'," + b",".join(b"k%d:1" % number for number in range(80_000)) + b"}",
        b'{"clientID":"c","x":[' + b"[]," * 300_000 + b"1]}",
    )
    with GoodClient(broker.address, broker.pid) as good, Stranger(broker.address) as peer:
        for body in hostile:
            answer = peer.ask(HEART_BEAT, body=body)
            assert answer.code == INVALID_PARAMETER
            assert answer.remark.startswith("HEART_BEAT: heartbeat: ")
        # What fastjson wrote is read as ever: it is small.
        answer = peer.ask(HEART_BEAT, body=b"{clientID:'c',consumerDataSet:[{groupName:'g'}]}")
        assert answer.code == 0
    good.check()


def test_one_that_names_groups_for_ever_leaves_room_for_those_that_do_not(broker):
    wishes = [f"topic_{number}" for number in range(100)]
    with MemoryWatch(broker.pid) as memory, Stranger(broker.address) as peer:
        refused = 0
        for number in range(100):
            one = consumer(f"group_{number}", wishes, " || ".join(f"t{i}" for i in range(30)))
            refused += peer.ask(HEART_BEAT, body=heartbeat("stranger", [one])).code != 0
        with Stranger(broker.address) as modest:
            beat = heartbeat("modest", [consumer("honest", ["A"])])
            assert modest.ask(HEART_BEAT, body=beat).code == 0
    assert refused
    memory.check()
    memory.check_back()
    wait_until(lambda: not_member(broker.address), seconds=5, what="the stranger has left")


def not_member(address):
    with Stranger(address) as peer:
        return peer.ask(38, {"consumerGroup": "group_0"}).code == 1
