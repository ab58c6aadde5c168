"""Headers about groups and their clients: requests 35, 38, 40, 203, 204, and two of CometMQ."""

from dataclasses import field

from cometmq.codec.fields import wire
from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class UnregisterClient:
    """Header with which a client leaves groups at a broker, UNREGISTER_CLIENT 35."""

    client_id: str = field(metadata=wire("clientID"))
    producer_group: str | None = None
    consumer_group: str | None = None


@dataclass(frozen=True, slots=True)
class ConsumerGroupRequest:
    """Header of GET_CONSUMER_LIST_BY_GROUP 38, NOTIFY_CONSUMER_IDS_CHANGED 40 and GET_CONSUMER_CONNECTION_LIST 203."""

    consumer_group: str


@dataclass(frozen=True, slots=True)
class MaybeGroupRequest:
    """Header with a consumer group, or None for all: GET_GROUP_CONFLICTS and GET_QUEUE_LOCKS, requests of CometMQ."""

    consumer_group: str | None = None


@dataclass(frozen=True, slots=True)
class ProducerGroupRequest:
    """Header to query the connections of a producer group, GET_PRODUCER_CONNECTION_LIST 204."""

    producer_group: str
