"""Which queue a message goes to."""

import random
from collections import Counter

from cometmq.client.producer.queue_selector import (
    RoundRobin,
    at_random,
    by_hash,
    nearby_room,
    round_robin,
)
from cometmq.model.message import Message
from cometmq.model.queue import MessageQueue

QUEUES = [MessageQueue("T", broker, number) for broker in ("a", "b") for number in range(3)]
MESSAGE = Message("T", b"x")


def test_round_robin_serves_every_queue_before_any_twice():
    turn = RoundRobin(random.Random(1))
    chosen = [turn.choose("T", QUEUES) for _ in range(12)]
    assert Counter(chosen) == dict.fromkeys(QUEUES, 2)
    assert set(chosen[:6]) == set(QUEUES)


def test_topics_take_turns_by_themselves():
    turn = RoundRobin(random.Random(1))
    first = turn.choose("T", QUEUES)
    for _ in range(4):
        turn.choose("other", QUEUES)
    after = turn.choose("T", QUEUES)
    assert QUEUES.index(after) == (QUEUES.index(first) + 1) % 6


def test_a_retry_goes_to_another_broker_where_there_is_one():
    turn = RoundRobin(random.Random(1))
    for _ in range(20):
        assert turn.choose("T", QUEUES, ["a"]).broker_name == "b"
    assert turn.choose("T", QUEUES[:3], ["a"]).broker_name == "a"


def test_a_retry_goes_to_a_broker_that_has_not_failed_while_there_is_one():
    turn = RoundRobin(random.Random(1))
    queues = [MessageQueue("T", broker, 0) for broker in ("a", "b", "c")]
    for failed in (["a", "b"], ["b", "a"]):
        assert {turn.choose("T", queues, failed).broker_name for _ in range(5)} == {"c"}
    assert "b" not in {turn.choose("T", queues, ["a", "c", "b"]).broker_name for _ in range(5)}


def test_a_broker_that_is_avoided_is_passed_over_unless_all_are():
    turn = RoundRobin(random.Random(1), lambda broker: broker == "b")
    assert {turn.choose("T", QUEUES).broker_name for _ in range(10)} == {"b"}
    nobody = RoundRobin(random.Random(1), lambda _broker: False)
    assert nobody.choose("T", QUEUES) in QUEUES


def test_a_topic_may_lose_queues_between_two_sends():
    turn = RoundRobin(random.Random(1))
    for count in (6, 2, 1, 5):
        assert turn.choose("T", QUEUES[:count]) in QUEUES[:count]


def test_a_key_always_selects_the_same_queue_as_in_java():
    assert by_hash("TagA")(QUEUES, MESSAGE) is QUEUES[2598919 % 6]
    # TopicTest hashes to -1902610879: its absolute value counts.
    assert by_hash("TopicTest")(QUEUES, MESSAGE) is QUEUES[1902610879 % 6]


def test_random_choice_reaches_all():
    select = at_random(random.Random(7))
    assert {select(QUEUES, MESSAGE) for _ in range(200)} == set(QUEUES)


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
