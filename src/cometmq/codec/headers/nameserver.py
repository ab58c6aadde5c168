"""Headers of the nameserver's requests: registration, routes, key-value configuration."""

from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """Header with the identity of a broker: UNREGISTER_BROKER 104 and QUERY_DATA_VERSION 322."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


@dataclass(frozen=True, slots=True)
class RegisterBroker(BrokerIdentity):
    """Header of the registration of a broker, REGISTER_BROKER 103; the topics are in the body."""

    ha_server_addr: str = ""
    compressed: bool = False
    body_crc32: int = 0
    heartbeat_timeout_millis: int | None = None
    enable_acting_master: bool | None = None


@dataclass(frozen=True, slots=True)
class RegisterBrokerResponse:
    """Header of the answer to a registration: addresses of a slave's master, or None if unknown; None for a master."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


@dataclass(frozen=True, slots=True)
class DataVersionResponse:
    """Header of the answer to QUERY_DATA_VERSION: whether the nameserver has another version of the broker's topics, or none."""

    changed: bool


@dataclass(frozen=True, slots=True)
class RouteRequest:
    """Header to query the route of a topic, GET_ROUTEINFO_BY_TOPIC 105."""

    topic: str
    accept_standard_json_only: bool | None = None


@dataclass(frozen=True, slots=True)
class KvNamespaceRequest:
    """Header to query all configuration items of a namespace, GET_KVLIST_BY_NAMESPACE 219."""

    namespace: str


@dataclass(frozen=True, slots=True)
class KvConfigRequest(KvNamespaceRequest):
    """Header to query or delete a configuration item, GET_KV_CONFIG 101 and DELETE_KV_CONFIG 102."""

    key: str


@dataclass(frozen=True, slots=True)
class PutKvConfig(KvConfigRequest):
    """Header to set a key-value configuration item, PUT_KV_CONFIG 100."""

    value: str


@dataclass(frozen=True, slots=True)
class KvConfigResponse:
    """Header of the answer to GET_KV_CONFIG: the value of the key; an unknown key gives the code QUERY_NOT_FOUND."""

    value: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterRequest:
    """Header to query the topics of a cluster, GET_TOPICS_BY_CLUSTER 224."""

    cluster: str


@dataclass(frozen=True, slots=True)
class DeleteTopicInNameserver:
    """Header to delete a topic from the routes of one cluster, or (None) of all, DELETE_TOPIC_IN_NAMESRV 216."""

    topic: str
    cluster_name: str | None = None


@dataclass(frozen=True, slots=True)
class BrokerNameRequest:
    """Header to remove or add a broker's write permission in routes, WIPE_ and ADD_WRITE_PERM_OF_BROKER 205 and 327."""

    broker_name: str


@dataclass(frozen=True, slots=True)
class WipeWritePermResponse:
    """Header of the answer to WIPE_WRITE_PERM_OF_BROKER 205: number of the broker's topics in the routes."""

    wipe_topic_count: int


@dataclass(frozen=True, slots=True)
class AddWritePermResponse:
    """Header of the answer to ADD_WRITE_PERM_OF_BROKER 327: number of the broker's topics in the routes."""

    add_topic_count: int


@dataclass(frozen=True, slots=True)
class MemberGroupRequest:
    """Header to query the registered members of a broker group, GET_BROKER_MEMBER_GROUP 901."""

    cluster_name: str
    broker_name: str


@dataclass(frozen=True, slots=True)
class BrokerHeartbeat:
    """Header of a broker's heartbeat to a nameserver, BROKER_HEARTBEAT 904."""

    cluster_name: str
    broker_addr: str
    broker_name: str
