"""Clusters and their brokers: the answers to GET_BROKER_CLUSTER_INFO 106 and GET_BROKER_MEMBER_GROUP 901.

Source: ClusterInfo, GetBrokerMemberGroupResponseBody and BrokerMemberGroup of RocketMQ 5.3.3.
"""

from collections.abc import Mapping
from dataclasses import field

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.codec.bodies.route import BROKER
from cometmq.model.frozen import dataclass
from cometmq.model.route import BrokerData


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The brokers that a nameserver knows.

    Attributes:
        brokers: Broker groups by name.
        broker_names: Names of the broker groups in each cluster.
    """

    brokers: Mapping[str, BrokerData] = field(default_factory=dict)
    broker_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def encode_cluster_info(clusters: ClusterInfo) -> bytes:
    """Encode the body of the answer to GET_BROKER_CLUSTER_INFO 106 in fastjson's form, with numbers as keys."""
    return fastjson.dumps(
        {
            "brokerAddrTable": {
                name: BROKER.to_json(group) for name, group in clusters.brokers.items()
            },
            "clusterAddrTable": {
                name: list(members) for name, members in clusters.broker_names.items()
            },
        }
    )


def decode_cluster_info(content: bytes | str) -> ClusterInfo:
    """Decode the answer to GET_BROKER_CLUSTER_INFO 106. Raises CodecError if it is malformed."""
    body = load_object(content, "cluster info")
    return ClusterInfo(
        brokers=body.table("brokerAddrTable", BROKER.in_field),
        broker_names=body.table("clusterAddrTable", JsonObject.texts),
    )


def encode_member_group(group: BrokerData) -> bytes:
    """Encode the body of the answer to GET_BROKER_MEMBER_GROUP 901 in fastjson's form, with numbers as keys."""
    members = {
        "brokerAddrs": dict(group.addresses),
        "brokerName": group.broker_name,
        "cluster": group.cluster,
    }
    return fastjson.dumps({"brokerMemberGroup": members})


def decode_member_group(content: bytes | str) -> BrokerData:
    """Decode the answer to GET_BROKER_MEMBER_GROUP 901. Raises CodecError if it is malformed."""
    members = load_object(content, "broker member group").member("brokerMemberGroup")
    return BrokerData(
        cluster=members.text("cluster", ""),
        broker_name=members.text("brokerName"),
        addresses=members.numbered("brokerAddrs", JsonObject.text),
    )
