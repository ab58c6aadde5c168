"""Shares of queues: every member works out the same, and nothing is left over or taken twice."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.client.consumer.allocation import (
    Allocation,
    ConsistentHash,
    FixedQueues,
    MachineRooms,
    NearbyRoom,
    allocate_averagely,
    allocate_in_circle,
)
from cometmq.client.producer.queue_selector import (
    RoundRobin,
    at_random,
    by_hash,
    nearby_room,
    round_robin,
)
from cometmq.model.errors import SettingsError
from cometmq.model.message import Message
from cometmq.model.queue import MessageQueue

QUEUES = st.lists(
    st.builds(
        MessageQueue, st.just("T"), st.sampled_from(["b-0", "b-1", "b-10"]), st.integers(0, 64)
    ),
    unique=True,
    max_size=40,
)
MEMBERS = st.lists(st.text("abc@#0123", min_size=1, max_size=6), unique=True, min_size=1)


@given(QUEUES, MEMBERS)
def test_shares_are_disjoint_complete_and_even(queues, members):
    shares = [allocate_averagely(queues, members, member) for member in members]
    taken = [queue for share in shares for queue in share]
    assert sorted(taken) == sorted(queues)
    sizes = {len(share) for share in shares}
    assert max(sizes) - min(sizes) <= 1


@given(QUEUES, MEMBERS, st.randoms())
def test_the_order_in_which_one_was_told_does_not_matter(queues, members, chance):
    shuffled, others = list(queues), list(members)
    chance.shuffle(shuffled)
    chance.shuffle(others)
    for member in members:
        assert allocate_averagely(queues, members, member) == allocate_averagely(
            shuffled, others, member
        )


@given(QUEUES, MEMBERS)
def test_java_members_work_out_the_same(queues, members):
    for member in members:
        assert allocate_averagely(queues, members, member) == as_java(queues, members, member)


def as_java(queues, members, own_id):
    """AllocateMessageQueueAveragely of 5.3.3, line by line."""
    queues, members = sorted(queues), sorted(members)
    index = members.index(own_id)
    mod = len(queues) % len(members)
    if len(queues) <= len(members):
        size = 1
    elif mod > 0 and index < mod:
        size = len(queues) // len(members) + 1
    else:
        size = len(queues) // len(members)
    start = index * size if mod > 0 and index < mod else index * size + mod
    count = min(size, len(queues) - start)
    return queues[start : start + max(count, 0)]


def test_a_stranger_gets_nothing():
    assert allocate_averagely([MessageQueue("T", "b", 0)], ["a", "b"], "c") == []


# --- the others, as Java's classes


GOLDEN = Path(__file__).parents[2] / "golden" / "allocation" / "java-5.3.3.json"
BROKERS = ("hz@broker-a", "hz@broker-b", "sh@broker-c")
ALLOCATIONS: dict[str, Allocation] = {
    "average": allocate_averagely,
    "circle": allocate_in_circle,
    "consistent_hash": ConsistentHash(),
    "consistent_hash_40": ConsistentHash(40),
    "machine_room": MachineRooms({"hz"}),
    "nearby_room": NearbyRoom(
        lambda queue: queue.broker_name.split("@")[0], lambda member: member.split("@")[0]
    ),
}


def golden_cases():
    """What Alloc.java (beside the file) printed with the Java client 5.3.3."""
    return json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("how", ALLOCATIONS)
def test_each_member_gets_what_java_gives_it(how):
    cases = golden_cases()
    checked = 0
    for case in cases:
        if case["how"] != how:
            continue
        queues = [
            MessageQueue("orders", broker, n)
            for broker in BROKERS
            for n in range(case["queues"])
        ]
        members = sorted(
            {
                each["own"]
                for each in cases
                if (each["queues"], each["members"]) == (case["queues"], case["members"])
            }
        )
        assert len(members) == case["members"]
        share = ALLOCATIONS[how](queues[::-1], members[::-1], case["own"])
        assert [f"{each.broker_name}:{each.queue_id}" for each in share] == case["share"], case
        checked += 1
    assert checked == 18


@settings(deadline=None)
@given(QUEUES, MEMBERS)
@pytest.mark.parametrize("how", ["circle", "consistent_hash"])
def test_no_queue_is_left_over_or_taken_twice(how, queues, members):
    allocate = ALLOCATIONS[how]
    taken = [queue for member in members for queue in allocate(queues, members, member)]
    assert sorted(taken) == sorted(queues)


@settings(deadline=None)
@given(MEMBERS)
def test_with_consistent_hash_only_the_queues_of_who_leaves_move(members):
    queues = [MessageQueue("T", "b", number) for number in range(64)]
    allocate = ConsistentHash()
    gone, left = members[0], members[1:]
    for member in left:
        before = set(allocate(queues, members, member))
        assert before <= set(allocate(queues, left, member)), gone


@pytest.mark.parametrize("how", ALLOCATIONS)
def test_a_stranger_gets_nothing_of_any(how):
    queue = MessageQueue("T", "hz@b", 0)
    assert ALLOCATIONS[how]([queue], ["hz@a", "hz@b"], "hz@c") == []


def test_fixed_queues_are_those_of_the_topic_that_are_there():
    mine = [MessageQueue("T", "b", 1), MessageQueue("T", "b", 9), MessageQueue("U", "b", 0)]
    queues = [MessageQueue("T", "b", number) for number in range(4)]
    assert FixedQueues(mine)(queues, ["a", "b"], "a") == [MessageQueue("T", "b", 1)]


def test_a_ring_without_nodes_is_refused():
    with pytest.raises(SettingsError, match="needs at least one"):
        ConsistentHash(0)


THREE = [MessageQueue("T", broker, number) for broker in ("a", "b") for number in range(3)]
MESSAGE = Message("T", b"x")


def test_round_robin_serves_every_queue_before_any_twice():
    turn = RoundRobin(random.Random(1))
    chosen = [turn.choose("T", THREE) for _ in range(12)]
    assert Counter(chosen) == dict.fromkeys(THREE, 2)
    assert set(chosen[:6]) == set(THREE)


def test_topics_take_turns_by_themselves():
    turn = RoundRobin(random.Random(1))
    first = turn.choose("T", THREE)
    for _ in range(4):
        turn.choose("other", THREE)
    after = turn.choose("T", THREE)
    assert THREE.index(after) == (THREE.index(first) + 1) % 6


def test_a_retry_goes_to_another_broker_where_there_is_one():
    turn = RoundRobin(random.Random(1))
    for _ in range(20):
        assert turn.choose("T", THREE, ["a"]).broker_name == "b"
    assert turn.choose("T", THREE[:3], ["a"]).broker_name == "a"


def test_a_retry_goes_to_a_broker_that_has_not_failed_while_there_is_one():
    turn = RoundRobin(random.Random(1))
    queues = [MessageQueue("T", broker, 0) for broker in ("a", "b", "c")]
    for failed in (["a", "b"], ["b", "a"]):
        assert {turn.choose("T", queues, failed).broker_name for _ in range(5)} == {"c"}
    assert "b" not in {turn.choose("T", queues, ["a", "c", "b"]).broker_name for _ in range(5)}


def test_a_broker_that_is_avoided_is_passed_over_unless_all_are():
    turn = RoundRobin(random.Random(1), lambda broker: broker == "b")
    assert {turn.choose("T", THREE).broker_name for _ in range(10)} == {"b"}
    nobody = RoundRobin(random.Random(1), lambda _broker: False)
    assert nobody.choose("T", THREE) in THREE


def test_a_topic_may_lose_queues_between_two_sends():
    turn = RoundRobin(random.Random(1))
    for count in (6, 2, 1, 5):
        assert turn.choose("T", THREE[:count]) in THREE[:count]


def test_a_key_always_selects_the_same_queue_as_in_java():
    assert by_hash("TagA")(THREE, MESSAGE) is THREE[2598919 % 6]
    # TopicTest hashes to -1902610879: its absolute value counts.
    assert by_hash("TopicTest")(THREE, MESSAGE) is THREE[1902610879 % 6]


def test_random_choice_reaches_all():
    select = at_random(random.Random(7))
    assert {select(THREE, MESSAGE) for _ in range(200)} == set(THREE)


def test_round_robin_as_a_selector_takes_each_queue_in_turn():
    select = round_robin(random.Random(7))
    queues = [MessageQueue("T", "b", number) for number in range(4)]
    chosen = [select(queues, Message("T", b"")).queue_id for _ in range(8)]
    assert sorted(chosen[:4]) == [0, 1, 2, 3]
    assert chosen[4:] == chosen[:4]


def test_queues_of_the_own_room_come_first_and_others_only_where_there_are_none():
    queues = [MessageQueue("T", f"{room}-{n}", 0) for room in ("hz", "sh") for n in range(3)]

    def room_of(broker: str) -> str:
        return broker.split("-", maxsplit=1)[0]

    message = Message("T", b"")
    for room in ("hz", "sh"):
        select = nearby_room(room_of, room)
        chosen = {select(queues, message).broker_name for _ in range(6)}
        assert chosen == {f"{room}-{n}" for n in range(3)}
    far = nearby_room(room_of, "bj", within=lambda given, _message: given[-1])
    assert far(queues, message) == queues[-1]
