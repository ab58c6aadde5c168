"""Heartbeats of clients of other languages, which do not say all that Java's does."""

from __future__ import annotations

import json

import pytest

from cometmq.codec.bodies.heartbeat import (
    BROADCASTING,
    CONSUME_ACTIVELY,
    ConsumerPart,
    Heartbeat,
    decode_heartbeat,
)
from cometmq.model.errors import CodecError
from cometmq.model.subscription import SQL92, Subscription, parse_subscription


def beat(**consumer: object) -> str:
    consumers = [{"groupName": "g", **consumer}]
    return json.dumps({"clientID": "c1", "consumerDataSet": consumers, "producerDataSet": []})


def test_a_consumer_that_says_little_has_defaults():
    wanted = parse_subscription("Orders", "*", version=0)
    said = beat(subscriptionDataSet=[{"topic": "Orders"}])
    assert decode_heartbeat(said) == Heartbeat("c1", (), (ConsumerPart("g", (wanted,)),))


def test_tags_follow_from_the_expression_whatever_else_a_client_says():
    wishes = [
        {"topic": "T", "subString": "A || B", "subVersion": 1, "tagsSet": [], "codeSet": []},
        {"topic": "S", "subString": "a > 1", "expressionType": "SQL92"},
    ]
    (part,) = decode_heartbeat(beat(subscriptionDataSet=wishes)).consumers
    assert part.subscriptions == (
        parse_subscription("T", "A || B", version=1),
        Subscription("S", "a > 1", SQL92, version=0),
    )
    assert part.subscriptions[0].tags


def test_a_cpp_client_writes_enums_as_numbers_and_numbers_as_texts():
    subscription = {"topic": "T", "subString": "*", "subVersion": "1796056871254"}
    said = beat(
        consumeFromWhere=4, consumeType=0, messageModel=0, subscriptionDataSet=[subscription]
    )
    (part,) = decode_heartbeat(said).consumers
    assert (part.from_where, part.consume_type, part.model) == (
        "CONSUME_FROM_FIRST_OFFSET", CONSUME_ACTIVELY, BROADCASTING,
    )  # fmt: skip
    assert part.subscriptions == (parse_subscription("T", "*", version=1796056871254),)


@pytest.mark.parametrize("place", [-1, 6, True, 1.0, []])
def test_an_enum_that_is_no_name_and_no_place_is_refused(place):
    with pytest.raises(CodecError, match="consumeFromWhere must be a text"):
        decode_heartbeat(beat(consumeFromWhere=place))
