"""Connected clients: answers to GET_CONSUMER_CONNECTION_LIST 203, 204 (producers) and 328 (all producers).

Source: ConsumerConnection, ProducerConnection, Connection and ProducerTableInfo of RocketMQ 5.3.3.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
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


def encode_consumer_connections(group: ConsumerConnections) -> bytes:
    """Encode the JSON body of the answer to GET_CONSUMER_CONNECTION_LIST 203."""
    return fastjson.dumps(
        {
            "connectionSet": [_connection_json(each) for each in group.connections],
            "consumeFromWhere": group.from_where,
            "consumeType": group.consume_type,
            "messageModel": group.model,
            "subscriptionTable": {
                topic: subscription_json(each) for topic, each in group.subscriptions.items()
            },
        }
    )


def decode_consumer_connections(content: bytes | str) -> ConsumerConnections:
    """Decode the answer to GET_CONSUMER_CONNECTION_LIST 203. Raises CodecError if it is malformed."""
    body = load_object(content, "consumer connections")
    return ConsumerConnections(
        tuple(_connection(part) for part in body.objects("connectionSet")),
        body.table("subscriptionTable", lambda part, name: subscription_of(part.member(name))),
        body.text("consumeType", CONSUME_PASSIVELY),
        body.text("messageModel", CLUSTERING),
        body.text("consumeFromWhere", FROM_LAST),
    )


def encode_producer_connections(connections: Iterable[ClientConnection]) -> bytes:
    """Encode the JSON body of the answer to GET_PRODUCER_CONNECTION_LIST 204."""
    return fastjson.dumps({"connectionSet": [_connection_json(each) for each in connections]})


def decode_producer_connections(content: bytes | str) -> tuple[ClientConnection, ...]:
    """Decode the answer to GET_PRODUCER_CONNECTION_LIST 204. Raises CodecError if it is malformed."""
    body = load_object(content, "producer connections")
    return tuple(_connection(part) for part in body.objects("connectionSet"))


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
    """Decode the answer to GET_ALL_PRODUCER_INFO 328, as `encode_all_producers`. Raises CodecError if it is malformed."""
    data = load_object(content, "producers").member("data")
    return {
        group: tuple(
            (
                replace(_connection(part), address=part.text("remoteIP", "").lstrip("/")),
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


def _connection_json(connection: ClientConnection) -> dict[str, Any]:
    return {
        "clientAddr": connection.address,
        "clientId": connection.client_id,
        "language": Language(connection.language).name,
        "version": connection.version,
    }


def _connection(part: JsonObject) -> ClientConnection:
    name = part.text("language", Language.OTHER.name)
    language = Language[name] if name in Language.__members__ else Language.OTHER
    return ClientConnection(
        part.text("clientId"),
        part.text("clientAddr", ""),
        int(language),
        part.int32("version", 0),
    )
