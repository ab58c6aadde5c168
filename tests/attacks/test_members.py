"""Members of consumer groups: many at once, and with names of any length."""

import json
from contextlib import ExitStack

from tests.attacks.beats import HEART_BEAT, consumer, heartbeat
from tests.attacks.stranger import Stranger
from tests.support.good_client import GoodClient
from tests.support.memory import MemoryWatch
from tests.support.processes import wait_until

MEMBERS = 38
JOINING = 500
CHANGED = 40
INVALID_PARAMETER = 29


def members(peer, group):
    """The ids of a group's members; none where it has none, which is answered by an error."""
    answer = peer.ask(MEMBERS, {"consumerGroup": group})
    return json.loads(answer.body)["consumerIdList"] if answer.code == 0 else []


def test_500_members_that_join_one_group_hold_nobody_up(broker):
    """All stand in the broker before the first joins, so that they join in one turn of the loop; then all leave."""
    beats = [
        heartbeat(f"member_{number}", [consumer("joined", ["GoodClient"])])
        for number in range(JOINING)
    ]
    with (
        Stranger(broker.address) as stays,
        ExitStack() as stack,
        GoodClient(broker.address, broker.pid) as good,
    ):
        peers = [stack.enter_context(Stranger(broker.address)) for _ in beats]
        for peer in peers:
            assert members(peer, "joined") == []
        for peer, beat in zip(peers, beats, strict=True):
            peer.send(HEART_BEAT, body=beat)
        for peer in peers:
            while not peer.read().is_answer:
                pass
        assert len(members(peers[0], "joined")) == JOINING
        for peer in peers:
            peer.socket.close()
        wait_until(lambda: not members(stays, "joined"), seconds=20, what="all have left")
    good.check()


def test_a_group_that_grows_is_told_at_once_and_then_with_the_last_member_in_it(broker):
    with Stranger(broker.address, seconds=5) as first, ExitStack() as stack:
        first.ask(HEART_BEAT, body=heartbeat("first", [consumer("told", ["T"])]))
        for number in range(20):
            peer = stack.enter_context(Stranger(broker.address))
            peer.ask(HEART_BEAT, body=heartbeat(f"m{number}", [consumer("told", ["T"])]))
        told = 0
        while True:  # A change is told within 100 ms; then the list has all.
            answer = first.read()
            assert answer.code == CHANGED
            told += 1
            opaque = first.send(MEMBERS, {"consumerGroup": "told"})
            while not (answer := first.read()).is_answer:
                told += 1
            assert answer.opaque == opaque
            if len(json.loads(answer.body)["consumerIdList"]) == 21:
                break
        assert told <= 12


def test_20_client_ids_of_14_mib_are_refused_and_members_get_their_list(broker):
    with (
        MemoryWatch(broker.pid) as memory,
        Stranger(broker.address) as honest,
        ExitStack() as stack,
    ):
        beat = heartbeat("192.0.2.1@77#1234567890@unit", [consumer("g", ["T"])])
        assert honest.ask(HEART_BEAT, body=beat).code == 0
        for number in range(20):
            # Just as many bytes as a heartbeat may have, or far more.
            size = 1_000_000 if number else 14 << 20
            peer = stack.enter_context(Stranger(broker.address))
            refused = peer.ask(
                HEART_BEAT, body=heartbeat(f"{number}" + "i" * size, [consumer("g", ["T"])])
            )
            assert refused.code == INVALID_PARAMETER, refused
        answer = honest.ask(MEMBERS, {"consumerGroup": "g"})
        assert json.loads(answer.body)["consumerIdList"] == ["192.0.2.1@77#1234567890@unit"]
    memory.check()
    memory.check_back()


def test_members_that_contradict_each_other_with_long_ids_write_no_long_lines(broker, tmp_path):
    with ExitStack() as stack:
        for number in range(6):
            peer = stack.enter_context(Stranger(broker.address))
            expression = f"tag{number} || " + "x" * 100_000
            id_ = f"evil\n2026-01-01 FORGED {number}" + "i" * 900
            peer.ask(HEART_BEAT, body=heartbeat(id_, [consumer("g", ["T"], expression)]))
    log = (tmp_path / "broker" / "broker.log").read_bytes()
    assert b"members have different subscriptions" in log
    assert len(log) < 40_000
    assert not [line for line in log.splitlines() if line.startswith(b"2026-01-01 FORGED")]


def test_names_that_are_longer_than_any_group_or_topic_are_refused(broker):
    with Stranger(broker.address) as peer:
        for part in (consumer("g" * 256, ["T"]), consumer("g", ["T" * 256])):
            refused = peer.ask(HEART_BEAT, body=heartbeat("c", [part]))
            assert refused.code == INVALID_PARAMETER
            assert "256 characters, but a group or topic can have at most 255" in refused.remark
