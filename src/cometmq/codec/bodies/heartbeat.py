"""Heartbeats of clients with their groups and subscriptions: the body of HEART_BEAT 34.

Source: HeartbeatData, ProducerData, ConsumerData and SubscriptionData of RocketMQ 5.3.3.
"""

from typing import Any

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_request
from cometmq.model.bounded_cache import keep_short
from cometmq.model.errors import CodecError, SubscriptionError
from cometmq.model.frozen import dataclass
from cometmq.model.subscription import SQL92, TAG, Subscription, parse_subscription

CONSUME_ACTIVELY = "CONSUME_ACTIVELY"  # A pull consumer.
CONSUME_PASSIVELY = "CONSUME_PASSIVELY"  # A push consumer.
BROADCASTING = "BROADCASTING"
CLUSTERING = "CLUSTERING"
FROM_LAST = "CONSUME_FROM_LAST_OFFSET"


@dataclass(frozen=True, slots=True)
class ProducerPart:
    """A producer group of a client."""

    group: str


@dataclass(frozen=True, slots=True)
class ConsumerPart:
    """A consumer group of a client.

    Attributes:
        subscriptions: Its subscriptions, usually one per topic.
        consume_type: CONSUME_ACTIVELY, CONSUME_PASSIVELY or CONSUME_POP.
        model: CLUSTERING or BROADCASTING.
        from_where: Where a new group starts, such as CONSUME_FROM_LAST_OFFSET.
        is_unit: Whether it consumes in unit mode (unitMode).
    """

    group: str
    subscriptions: tuple[Subscription, ...] = ()
    consume_type: str = CONSUME_PASSIVELY
    model: str = CLUSTERING
    from_where: str = FROM_LAST
    is_unit: bool = False


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A heartbeat of a client.

    Attributes:
        client_id: Id that the client has chosen.
        producers: Groups that it produces for.
        consumers: Groups that it consumes for.
        fingerprint: Hash of the full heartbeat; 0 for clients without heartbeat V2.
        is_without_subscriptions: Whether subscriptions are omitted because they have not changed.
    """

    client_id: str
    producers: tuple[ProducerPart, ...] = ()
    consumers: tuple[ConsumerPart, ...] = ()
    fingerprint: int = 0
    is_without_subscriptions: bool = False


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    """Encode the JSON body of HEART_BEAT."""
    return fastjson.dumps(
        {
            "clientID": heartbeat.client_id,
            "consumerDataSet": [_consumer_json(state) for state in heartbeat.consumers],
            "heartbeatFingerprint": heartbeat.fingerprint,
            "producerDataSet": [{"groupName": part.group} for part in heartbeat.producers],
            "withoutSub": heartbeat.is_without_subscriptions,
        }
    )


@keep_short(1024, length_max=1024)  # A client sends the same every 30 s.
def decode_heartbeat(content: bytes | str) -> Heartbeat:
    """Decode the body of HEART_BEAT. Raises CodecError if it is malformed or too large."""
    body = load_request(content, "heartbeat")
    return Heartbeat(
        client_id=body.text("clientID"),
        producers=tuple(
            ProducerPart(part.text("groupName")) for part in body.objects("producerDataSet")
        ),
        consumers=tuple(_consumer(part) for part in body.objects("consumerDataSet")),
        fingerprint=body.int32("heartbeatFingerprint", 0),
        is_without_subscriptions=body.flag("withoutSub", default=False),
    )


def subscription_json(subscription: Subscription) -> dict[str, Any]:
    """Convert a subscription to a dict of JSON values."""
    return {
        "classFilterMode": False,
        "codeSet": sorted(subscription.codes),
        "expressionType": subscription.kind,
        "subString": subscription.expression,
        "subVersion": subscription.version,
        "tagsSet": list(subscription.tags),
        "topic": subscription.topic,
    }


def subscription_of(part: JsonObject) -> Subscription:
    """Decode a subscription; tags and their hashes are computed from a tag expression, other types count as SQL92.

    Raises CodecError if it is malformed, or asks for a class filter, which is not supported.
    """
    if part.flag("classFilterMode", default=False):
        raise CodecError(f"{part}: class filters are not supported; use tags or SQL92")
    topic = part.text("topic")
    expression = part.text("subString", "*")
    version = part.int64("subVersion", 0)
    if part.text("expressionType", TAG) != TAG:
        return Subscription(topic, expression, SQL92, version=version)
    try:
        return parse_subscription(topic, expression, version=version)
    except SubscriptionError as error:
        raise CodecError(f"{part}: {error}") from None


def _consumer_json(state: ConsumerPart) -> dict[str, Any]:
    return {
        "consumeFromWhere": state.from_where,
        "consumeType": state.consume_type,
        "groupName": state.group,
        "messageModel": state.model,
        "subscriptionDataSet": [subscription_json(each) for each in state.subscriptions],
        "unitMode": state.is_unit,
    }


def _consumer(part: JsonObject) -> ConsumerPart:
    return ConsumerPart(
        group=part.text("groupName"),
        subscriptions=tuple(
            subscription_of(each) for each in part.objects("subscriptionDataSet")
        ),
        consume_type=part.text("consumeType", CONSUME_PASSIVELY),
        model=part.text("messageModel", CLUSTERING),
        from_where=part.text("consumeFromWhere", FROM_LAST),
        is_unit=part.flag("unitMode", default=False),
    )
