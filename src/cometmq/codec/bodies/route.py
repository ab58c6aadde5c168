"""The route of a topic: the answer to GET_ROUTEINFO_BY_TOPIC 105 (docs/format/route.md).

Source: TopicRouteData, BrokerData and QueueData of RocketMQ 5.3.3. There are two written forms: old peers get unquoted
broker ids, as fastjson writes integer keys; newer ones get standard JSON. Both can be decoded, and so can
`topicSynFlag`, which 4.4 wrote for `topicSysFlag`.
"""

from typing import Any

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.model.route import BrokerData, QueueData, TopicRoute


def encode_topic_route(route: TopicRoute, *, is_standard: bool = False) -> bytes:
    """Encode the answer to GET_ROUTEINFO_BY_TOPIC 105; `is_standard`: as standard JSON, with quoted broker ids."""
    body: dict[str, Any] = {
        "brokerDatas": [broker_json(broker) for broker in route.brokers],
        "filterServerTable": dict(route.filter_servers),
    }
    if route.order_config is not None:
        body["orderTopicConf"] = route.order_config
    body["queueDatas"] = [_queue_json(queue) for queue in route.queues]
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
        queues=tuple(_queue(part) for part in body.objects("queueDatas")),
        brokers=tuple(broker(part) for part in body.objects("brokerDatas")),
        order_config=body.maybe_text("orderTopicConf"),
        filter_servers=body.table(
            "filterServerTable", lambda part, name: list(part.texts(name))
        ),
        queue_mappings=mappings,
    )


def broker_json(group: BrokerData) -> dict[str, Any]:
    """Convert a broker group to a dict of JSON values, for bodies that contain one."""
    value = {
        "brokerAddrs": dict(group.addresses),
        "brokerName": group.broker_name,
        "cluster": group.cluster,
        "enableActingMaster": group.is_acting_master_enabled,
    }
    if group.zone_name is not None:
        value["zoneName"] = group.zone_name
    return value


def broker(part: JsonObject) -> BrokerData:
    """Decode a broker group from its JSON object; raises CodecError if it is malformed."""
    return BrokerData(
        cluster=part.text("cluster", ""),
        broker_name=part.text("brokerName"),
        addresses=part.numbered("brokerAddrs", JsonObject.text),
        is_acting_master_enabled=part.flag("enableActingMaster", default=False),
        zone_name=part.maybe_text("zoneName"),
    )


def _queue_json(queue: QueueData) -> dict[str, Any]:
    return {
        "brokerName": queue.broker_name,
        "perm": queue.perm,
        "readQueueNums": queue.read_queues,
        "topicSysFlag": queue.sys_flag,
        "writeQueueNums": queue.write_queues,
    }


def _queue(part: JsonObject) -> QueueData:
    flag_name = "topicSysFlag" if "topicSysFlag" in part else "topicSynFlag"
    return QueueData(
        broker_name=part.text("brokerName"),
        read_queues=part.int32("readQueueNums", 0),
        write_queues=part.int32("writeQueueNums", 0),
        perm=part.int32("perm", 0),
        sys_flag=part.int32(flag_name, 0),
    )
