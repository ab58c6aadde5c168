"""Connected clients: answers to GET_CONSUMER_LIST_BY_GROUP 38 (ids only), 203, 204 (producers) and 328 (all producers).

Source: GetConsumerListByGroupResponseBody, ConsumerConnection, ProducerConnection, Connection and ProducerTableInfo of RocketMQ 5.3.3.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from cometmq.codec import fastjson
from cometmq.codec.bodies.heartbeat import (
    CLUSTERING,
    CONSUME_PASSIVELY,
    FROM_LAST,
    subscription_json,
    subscription_of,
)
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.codec.bodies.members import JsonMember, JsonMembers
from cometmq.model.codes import Language
from cometmq.model.frozen import dataclass
from cometmq.model.subscription import Subscription


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """A connected client.

    Attributes:
        client_id: Id that the client has chosen.
        address: "ip:port" that it connected from; empty if not reported.
        language: Number in `model.codes.Language`; OTHER for an unknown language.
        version: Ordinal of its RocketMQ version.
    """

    client_id: str
    address: str
    language: int = int(Language.JAVA)
    version: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerConnections:
    """The clients of a consumer group, and the group's subscriptions and modes."""

    connections: tuple[ClientConnection, ...] = ()
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    consume_type: str = CONSUME_PASSIVELY
    model: str = CLUSTERING
    from_where: str = FROM_LAST


def _language(part: JsonObject, key: str) -> int:
    name = part.text(key, Language.OTHER.name)
    return int(Language[name] if name in Language.__members__ else Language.OTHER)


def _subscriptions(part: JsonObject, key: str) -> dict[str, Subscription]:
    return part.table(key, lambda table, topic: subscription_of(table.member(topic)))


def _subscriptions_json(table: Mapping[str, Subscription]) -> dict[str, Any]:
    return {topic: subscription_json(each) for topic, each in table.items()}


_CONNECTION = JsonMembers(
    ClientConnection,
    JsonMember("clientAddr", "address", JsonObject.text, ""),
    JsonMember("clientId", "client_id", JsonObject.text),
    JsonMember("language", "language", _language, write=lambda number: Language(number).name),
    JsonMember("version", "version", JsonObject.int32, 0),
)
_CONSUMERS = JsonMembers(
    ConsumerConnections,
    JsonMember("connectionSet", "connections", _CONNECTION.all_of, write=_CONNECTION.list_of),
    JsonMember("consumeFromWhere", "from_where", JsonObject.text, FROM_LAST),
    JsonMember("consumeType", "consume_type", JsonObject.text, CONSUME_PASSIVELY),
    JsonMember("messageModel", "model", JsonObject.text, CLUSTERING),
    JsonMember("subscriptionTable", "subscriptions", _subscriptions, write=_subscriptions_json),
)


def encode_consumer_ids(client_ids: Iterable[str]) -> bytes:
    """Encode the JSON body of the answer to GET_CONSUMER_LIST_BY_GROUP 38."""
    return fastjson.dumps({"consumerIdList": list(client_ids)})


def decode_consumer_ids(content: bytes | str) -> tuple[str, ...]:
    """Decode the answer to GET_CONSUMER_LIST_BY_GROUP 38; empty without a list. Raises CodecError if it is malformed."""
    return load_object(content, "consumer ids").texts("consumerIdList")


def encode_consumer_connections(group: ConsumerConnections) -> bytes:
    """Encode the JSON body of the answer to GET_CONSUMER_CONNECTION_LIST 203."""
    return fastjson.dumps(_CONSUMERS.to_json(group))


def decode_consumer_connections(content: bytes | str) -> ConsumerConnections:
    """Decode the answer to GET_CONSUMER_CONNECTION_LIST 203. Raises CodecError if it is malformed."""
    return _CONSUMERS.of(load_object(content, "consumer connections"))


def encode_producer_connections(connections: Iterable[ClientConnection]) -> bytes:
    """Encode the JSON body of the answer to GET_PRODUCER_CONNECTION_LIST 204."""
    return fastjson.dumps({"connectionSet": _CONNECTION.list_of(connections)})


def decode_producer_connections(content: bytes | str) -> tuple[ClientConnection, ...]:
    """Decode the answer to GET_PRODUCER_CONNECTION_LIST 204. Raises CodecError if it is malformed."""
    return _CONNECTION.all_of(load_object(content, "producer connections"), "connectionSet")


def encode_all_producers(
    groups: Mapping[str, Iterable[tuple[ClientConnection, int]]],
) -> bytes:
    """Encode the answer to GET_ALL_PRODUCER_INFO 328: each producer with its last heartbeat, ms since 1970."""
    return fastjson.dumps(
        {
            "data": {
                group: [_producer_json(each, seen_ms) for each, seen_ms in producers]
                for group, producers in groups.items()
            }
        }
    )


def decode_all_producers(
    content: bytes | str,
) -> dict[str, tuple[tuple[ClientConnection, int], ...]]:
    """Decode the answer to GET_ALL_PRODUCER_INFO 328 to (producer, last heartbeat in ms) by group.

    Raises CodecError if it is malformed.
    """
    data = load_object(content, "producers").member("data")
    return {
        group: tuple(
            (
                _CONNECTION.of(part, address=part.text("remoteIP", "").lstrip("/")),
                part.int64("lastUpdateTimestamp", 0),
            )
            for part in data.objects(group)
        )
        for group in data.names()
    }


def _producer_json(producer: ClientConnection, seen_ms: int) -> dict[str, Any]:
    return {
        "clientId": producer.client_id,
        "language": Language(producer.language).name,
        "lastUpdateTimestamp": seen_ms,
        "remoteIP": f"/{producer.address}",  # Java's form of an address without host name.
        "version": producer.version,
    }
