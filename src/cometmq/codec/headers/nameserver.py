"""Headers of the nameserver's requests: registration, routes, key-value configuration."""

from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class RegisterBroker:
    """The registration of a broker with its topics, REGISTER_BROKER 103."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int
    ha_server_addr: str = ""
    compressed: bool = False
    body_crc32: int = 0
    heartbeat_timeout_millis: int | None = None
    enable_acting_master: bool | None = None


@dataclass(frozen=True, slots=True)
class RegisterBrokerResponse:
    """The answer to a registration, which names a slave's master; both fields are None for a master, or without one."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """The identity of a broker: UNREGISTER_BROKER 104 and QUERY_DATA_VERSION 322."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


@dataclass(frozen=True, slots=True)
class DataVersionResponse:
    """The answer to QUERY_DATA_VERSION: whether the broker's table differs from the nameserver's."""

    changed: bool


@dataclass(frozen=True, slots=True)
class RouteRequest:
    """Query the route of a topic, GET_ROUTEINFO_BY_TOPIC 105."""

    topic: str
    accept_standard_json_only: bool | None = None


@dataclass(frozen=True, slots=True)
class PutKvConfig:
    """Set a key-value configuration item, PUT_KV_CONFIG 100."""

    namespace: str
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class KvConfigRequest:
    """Query or delete a configuration item, GET_KV_CONFIG 101 and DELETE_KV_CONFIG 102."""

    namespace: str
    key: str


@dataclass(frozen=True, slots=True)
class KvConfigResponse:
    """The answer to GET_KV_CONFIG: the value of a key, or None."""

    value: str | None = None


@dataclass(frozen=True, slots=True)
class KvNamespaceRequest:
    """Query all configuration items of a namespace, GET_KVLIST_BY_NAMESPACE 219."""

    namespace: str


@dataclass(frozen=True, slots=True)
class ClusterRequest:
    """Query the topics of a cluster, GET_TOPICS_BY_CLUSTER 224."""

    cluster: str


@dataclass(frozen=True, slots=True)
class DeleteTopicInNameserver:
    """Delete a topic in one cluster, or without a cluster in all, DELETE_TOPIC_IN_NAMESRV 216."""

    topic: str
    cluster_name: str | None = None


@dataclass(frozen=True, slots=True)
class BrokerNameRequest:
    """Remove or restore write permission on a broker, WIPE_WRITE_PERM_OF_BROKER 205 and ADD_WRITE_PERM_OF_BROKER 327."""

    broker_name: str


@dataclass(frozen=True, slots=True)
class WipeWritePermResponse:
    """The answer to WIPE_WRITE_PERM_OF_BROKER 205: number of the broker's topics, none of which may be written now."""

    wipe_topic_count: int


@dataclass(frozen=True, slots=True)
class AddWritePermResponse:
    """The answer to ADD_WRITE_PERM_OF_BROKER 327: number of the broker's topics, all of which may be written now."""

    add_topic_count: int


@dataclass(frozen=True, slots=True)
class MemberGroupRequest:
    """Query the living members of a broker group, GET_BROKER_MEMBER_GROUP 901."""

    cluster_name: str
    broker_name: str


@dataclass(frozen=True, slots=True)
class BrokerHeartbeat:
    """A heartbeat of a broker, BROKER_HEARTBEAT 904."""

    cluster_name: str
    broker_addr: str
    broker_name: str
