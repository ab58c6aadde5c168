"""The registered members of a broker group: the answer to GET_BROKER_MEMBER_GROUP 901.

Source: GetBrokerMemberGroupResponseBody and BrokerMemberGroup of RocketMQ 5.3.3.
"""

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.model.route import BrokerData


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
