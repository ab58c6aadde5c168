"""Consumer groups of a broker: bodies of 200, 201, 225 and 352, and subscriptionGroup.json.

Source: SubscriptionGroupConfig, SubscriptionGroupWrapper and SubscriptionGroupManager of RocketMQ 5.3.3. 4.9 lacks attributes,
consumeMessageOrderly, consumeTimeoutMinute, groupRetryPolicy, groupSysFlag and forbiddenTable; both forms can be decoded.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object, load_request
from cometmq.model.data_version import DataVersion
from cometmq.model.frozen import dataclass
from cometmq.model.group import GroupConfig


@dataclass(frozen=True, slots=True)
class GroupTable:
    """The consumer groups of a broker.

    Attributes:
        version: Version of the table, which changes increase.
        groups: Settings by group name.
        forbidden: Bits of what a group may not do with a topic, by group and topic (5.x).
    """

    version: DataVersion
    groups: Mapping[str, GroupConfig] = field(default_factory=dict)
    forbidden: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def encode_group_table(table: GroupTable) -> bytes:
    """Encode the JSON body of the answer to GET_ALL_SUBSCRIPTIONGROUP_CONFIG 201."""
    return fastjson.dumps(_table_json(table))


def encode_groups_file(table: GroupTable) -> str:
    """Encode a table of groups as the text of subscriptionGroup.json."""
    return fastjson.dumps(_table_json(table), pretty=True).decode()


def decode_group_table(content: bytes | str) -> GroupTable:
    """Decode a table of groups from a body or subscriptionGroup.json. Raises CodecError if it is malformed."""
    body = load_object(content, "group table")
    return GroupTable(
        body.version("dataVersion"),
        body.table(
            "subscriptionGroupTable", lambda part, name: _group(part.member(name), name)
        ),
        body.table("forbiddenTable", lambda part, name: part.table(name, JsonObject.int32)),
    )


def encode_group_config(group: GroupConfig) -> bytes:
    """Encode the body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP 200 and of the answer to GET_SUBSCRIPTIONGROUP_CONFIG 352."""
    return fastjson.dumps(_group_json(group))


def decode_group_config(content: bytes | str) -> GroupConfig:
    """Decode the body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP 200 or the answer to GET_SUBSCRIPTIONGROUP_CONFIG 352.

    Raises CodecError if it is malformed or too large.
    """
    return _group(load_request(content, "subscription group"))


def decode_group_configs(content: bytes | str) -> tuple[GroupConfig, ...]:
    """Decode the body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST 225.

    Raises CodecError if it is malformed or too large.
    """
    body = load_request(content, "subscription groups")
    return tuple(_group(part) for part in body.objects("groupConfigList"))


def _table_json(table: GroupTable) -> dict[str, Any]:
    return {
        "dataVersion": table.version.to_json(),
        "forbiddenTable": {group: dict(topics) for group, topics in table.forbidden.items()},
        "subscriptionGroupTable": {
            name: _group_json(group) for name, group in table.groups.items()
        },
    }


def _group_json(group: GroupConfig) -> dict[str, Any]:
    return {
        "attributes": dict(group.attributes),
        "brokerId": group.broker_id,
        "consumeBroadcastEnable": group.broadcast_enabled,
        "consumeEnable": group.consume_enabled,
        "consumeFromMinEnable": group.consume_from_min_enabled,
        "consumeMessageOrderly": group.orderly,
        "consumeTimeoutMinute": group.consume_timeout_minutes,
        "groupName": group.name,
        "groupRetryPolicy": dict(group.retry_policy),
        "groupSysFlag": group.sys_flag,
        "notifyConsumerIdsChangedEnable": group.notify_changes,
        "retryMaxTimes": group.retry_max_times,
        "retryQueueNums": group.retry_queues,
        "whichBrokerWhenConsumeSlowly": group.slow_broker_id,
    }


def _group(part: JsonObject, name: str | None = None) -> GroupConfig:
    return GroupConfig(
        name=part.text("groupName", name),
        consume_enabled=part.flag("consumeEnable", default=True),
        consume_from_min_enabled=part.flag("consumeFromMinEnable", default=True),
        broadcast_enabled=part.flag("consumeBroadcastEnable", default=True),
        orderly=part.flag("consumeMessageOrderly", default=False),
        retry_queues=part.int32("retryQueueNums", 1),
        retry_max_times=part.int32("retryMaxTimes", 16),
        retry_policy=part.member("groupRetryPolicy").raw() or {"type": "CUSTOMIZED"},
        broker_id=part.int64("brokerId", 0),
        slow_broker_id=part.int64("whichBrokerWhenConsumeSlowly", 1),
        notify_changes=part.flag("notifyConsumerIdsChangedEnable", default=True),
        sys_flag=part.int32("groupSysFlag", 0),
        consume_timeout_minutes=part.int32("consumeTimeoutMinute", 15),
        attributes=part.text_table("attributes"),
    )
