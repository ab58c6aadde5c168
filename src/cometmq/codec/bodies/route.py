"""The route of a topic: the answer to GET_ROUTEINFO_BY_TOPIC 105 (docs/format/route.md).

Source: TopicRouteData, BrokerData and QueueData of RocketMQ 5.3.3. There are two written forms: old peers get unquoted
broker ids, as fastjson writes integer keys; newer ones get standard JSON. Both can be decoded, and so can
`topicSynFlag`, which 4.4 wrote for `topicSysFlag`.
"""

from typing import Any

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.codec.bodies.members import JsonMember, JsonMembers
from cometmq.model.route import BrokerData, QueueData, TopicRoute


def _addresses(part: JsonObject, key: str) -> dict[int, str]:
    return part.numbered(key, JsonObject.text)


def _sys_flag(part: JsonObject, key: str) -> int:
    return part.int32(key if key in part else "topicSynFlag", 0)


BROKER = JsonMembers(
    BrokerData,
    JsonMember("brokerAddrs", "addresses", _addresses, write=dict),
    JsonMember("brokerName", "broker_name", JsonObject.text),
    JsonMember("cluster", "cluster", JsonObject.text, ""),
    JsonMember(
        "enableActingMaster", "is_acting_master_enabled", JsonObject.flag, default=False
    ),
    JsonMember("zoneName", "zone_name", JsonObject.maybe_text),
)
_QUEUE = JsonMembers(
    QueueData,
    JsonMember("brokerName", "broker_name", JsonObject.text),
    JsonMember("perm", "perm", JsonObject.int32, 0),
    JsonMember("readQueueNums", "read_queues", JsonObject.int32, 0),
    JsonMember("topicSysFlag", "sys_flag", _sys_flag),
    JsonMember("writeQueueNums", "write_queues", JsonObject.int32, 0),
)


def encode_topic_route(route: TopicRoute, *, is_standard: bool = False) -> bytes:
    """Encode the answer to GET_ROUTEINFO_BY_TOPIC 105; `is_standard`: as standard JSON, with quoted broker ids."""
    body: dict[str, Any] = {
        "brokerDatas": BROKER.list_of(route.brokers),
        "filterServerTable": dict(route.filter_servers),
    }
    if route.order_config is not None:
        body["orderTopicConf"] = route.order_config
    body["queueDatas"] = _QUEUE.list_of(route.queues)
    if route.queue_mappings is not None:
        body["topicQueueMappingByBroker"] = dict(route.queue_mappings)
    return fastjson.dumps(body, quote_keys=is_standard)


def decode_topic_route(content: bytes | str) -> TopicRoute:
    """Decode a route with quoted or unquoted broker ids. Raises CodecError if the body is malformed."""
    body = load_object(content, "topic route")
    mappings = None
    if "topicQueueMappingByBroker" in body:
        mappings = body.table(
            "topicQueueMappingByBroker", lambda part, name: part.member(name).raw()
        )
    return TopicRoute(
        queues=_QUEUE.all_of(body, "queueDatas"),
        brokers=BROKER.all_of(body, "brokerDatas"),
        order_config=body.maybe_text("orderTopicConf"),
        filter_servers=body.table(
            "filterServerTable", lambda part, name: list(part.texts(name))
        ),
        queue_mappings=mappings,
    )
