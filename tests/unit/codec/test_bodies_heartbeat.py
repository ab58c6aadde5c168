"""Heartbeats of clients of other languages, which do not say all that Java's does."""

from __future__ import annotations

import json

from cometmq.codec.bodies.heartbeat import ConsumerPart, Heartbeat, decode_heartbeat
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
