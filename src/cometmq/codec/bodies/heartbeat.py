"""Heartbeats of clients with their groups and subscriptions (HEART_BEAT 34), and a subscription to be checked (46).

Source: HeartbeatData, ProducerData, ConsumerData, SubscriptionData and CheckClientRequestBody of RocketMQ 5.3.3.
"""

from collections.abc import Callable
from typing import Any

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_request
from cometmq.codec.bodies.members import JsonMember, JsonMembers
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


def _subscriptions(part: JsonObject, key: str) -> tuple[Subscription, ...]:
    return tuple(map(subscription_of, part.objects(key)))


def _subscriptions_json(subscriptions: tuple[Subscription, ...]) -> list[dict[str, Any]]:
    return list(map(subscription_json, subscriptions))


def _name_among(*names: str) -> Callable[[JsonObject, str, str], str]:
    """Return a reader of an enum: C++ clients write the place of a name instead of the name, which fastjson takes, too."""

    def read(part: JsonObject, key: str, default: str) -> str:
        place = part.raw().get(key)
        if type(place) is int and 0 <= place < len(names):
            return names[place]
        return part.text(key, default)

    return read


_PLACE = _name_among(
    FROM_LAST,
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)
_TYPE = _name_among(CONSUME_ACTIVELY, CONSUME_PASSIVELY, "CONSUME_POP")
_MODEL = _name_among(BROADCASTING, CLUSTERING, "LITE_SELECTIVE")
_PRODUCER = JsonMembers(ProducerPart, JsonMember("groupName", "group", JsonObject.text))
_CONSUMER = JsonMembers(
    ConsumerPart,
    JsonMember("consumeFromWhere", "from_where", _PLACE, FROM_LAST),
    JsonMember("consumeType", "consume_type", _TYPE, CONSUME_PASSIVELY),
    JsonMember("groupName", "group", JsonObject.text),
    JsonMember("messageModel", "model", _MODEL, CLUSTERING),
    JsonMember(
        "subscriptionDataSet", "subscriptions", _subscriptions, write=_subscriptions_json
    ),
    JsonMember("unitMode", "is_unit", JsonObject.flag, default=False),
)
_HEARTBEAT = JsonMembers(
    Heartbeat,
    JsonMember("clientID", "client_id", JsonObject.text),
    JsonMember("consumerDataSet", "consumers", _CONSUMER.all_of, write=_CONSUMER.list_of),
    JsonMember("heartbeatFingerprint", "fingerprint", JsonObject.int32, 0),
    JsonMember("producerDataSet", "producers", _PRODUCER.all_of, write=_PRODUCER.list_of),
    JsonMember("withoutSub", "is_without_subscriptions", JsonObject.flag, default=False),
)


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    """Encode the JSON body of HEART_BEAT."""
    return fastjson.dumps(_HEARTBEAT.to_json(heartbeat))


@keep_short(1024, length_max=1024)  # A client sends the same every 30 s.
def decode_heartbeat(content: bytes | str) -> Heartbeat:
    """Decode the body of HEART_BEAT. Raises CodecError if it is malformed or too large."""
    return _HEARTBEAT.of(load_request(content, "heartbeat"))


def decode_client_config(content: bytes) -> Subscription | None:
    """Return the subscription in a CHECK_CLIENT_CONFIG body, or None. Raises CodecError if it is malformed or too large."""
    if not content:
        return None
    body = load_request(content, "client configuration")
    return (
        subscription_of(body.member("subscriptionData")) if "subscriptionData" in body else None
    )


def client_config_group(content: bytes) -> str | None:
    """Return the consumer group in a CHECK_CLIENT_CONFIG body, or None. Raises CodecError if it is malformed or too large."""
    return (
        load_request(content, "client configuration").maybe_text("group") if content else None
    )
