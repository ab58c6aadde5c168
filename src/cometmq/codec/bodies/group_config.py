"""Consumer groups of a broker: bodies of 200, 201, 225 and 352, and subscriptionGroup.json.

Source: SubscriptionGroupConfig, SubscriptionGroupWrapper and SubscriptionGroupManager of RocketMQ 5.3.3. 4.9 lacks attributes,
consumeMessageOrderly, consumeTimeoutMinute, groupRetryPolicy, groupSysFlag and forbiddenTable; both forms can be decoded.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, NamedTuple

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object, load_request
from cometmq.codec.bodies.members import JsonMember, JsonMembers
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


class GroupEntry(NamedTuple):
    """The entry of a group in a table: its settings, if it exists, and what it may not do with topics."""

    config: GroupConfig | None
    forbidden: Mapping[str, int]


NO_GROUP = GroupEntry(None, {})


def _retry_policy(part: JsonObject, key: str) -> Mapping[str, Any]:
    return part.member(key).raw() or {"type": "CUSTOMIZED"}


_GROUP = JsonMembers(
    GroupConfig,
    JsonMember("attributes", "attributes", JsonObject.text_table, write=dict),
    JsonMember("brokerId", "broker_id", JsonObject.int64, 0),
    JsonMember("consumeBroadcastEnable", "broadcast_enabled", JsonObject.flag, default=True),
    JsonMember("consumeEnable", "consume_enabled", JsonObject.flag, default=True),
    JsonMember(
        "consumeFromMinEnable", "consume_from_min_enabled", JsonObject.flag, default=True
    ),
    JsonMember("consumeMessageOrderly", "orderly", JsonObject.flag, default=False),
    JsonMember("consumeTimeoutMinute", "consume_timeout_minutes", JsonObject.int32, 15),
    JsonMember("groupName", "name", JsonObject.text),
    JsonMember("groupRetryPolicy", "retry_policy", _retry_policy, write=dict),
    JsonMember("groupSysFlag", "sys_flag", JsonObject.int32, 0),
    JsonMember(
        "notifyConsumerIdsChangedEnable", "notify_changes", JsonObject.flag, default=True
    ),
    JsonMember("retryMaxTimes", "retry_max_times", JsonObject.int32, 16),
    JsonMember("retryQueueNums", "retry_queues", JsonObject.int32, 1),
    JsonMember("whichBrokerWhenConsumeSlowly", "slow_broker_id", JsonObject.int64, 1),
)


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
        body.table("subscriptionGroupTable", _named_group),
        body.table("forbiddenTable", lambda part, name: part.table(name, JsonObject.int32)),
    )


def encode_group_config(group: GroupConfig) -> bytes:
    """Encode the body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP 200 and of the answer to GET_SUBSCRIPTIONGROUP_CONFIG 352."""
    return fastjson.dumps(_GROUP.to_json(group))


def decode_group_config(content: bytes | str) -> GroupConfig:
    """Decode the body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP 200 or the answer to GET_SUBSCRIPTIONGROUP_CONFIG 352.

    Raises CodecError if it is malformed or too large.
    """
    return _GROUP.of(load_request(content, "subscription group"))


def decode_group_configs(content: bytes | str) -> tuple[GroupConfig, ...]:
    """Decode the body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST 225.

    Raises CodecError if it is malformed or too large.
    """
    body = load_request(content, "subscription groups")
    return _GROUP.all_of(body, "groupConfigList")


def _table_json(table: GroupTable) -> dict[str, Any]:
    return {
        "dataVersion": table.version.to_json(),
        "forbiddenTable": {group: dict(topics) for group, topics in table.forbidden.items()},
        "subscriptionGroupTable": {
            name: _GROUP.to_json(group) for name, group in table.groups.items()
        },
    }


def group_entry_json(entry: GroupEntry) -> dict[str, Any]:
    """Convert an entry of a table of groups to a dict of JSON values, with the members of one."""
    config = None if entry.config is None else _GROUP.to_json(entry.config)
    return {"config": config, "forbidden": dict(entry.forbidden)}


def group_entry(part: JsonObject, name: str) -> GroupEntry:
    """Decode the entry of a group in a table of entries. Raises CodecError if it is malformed."""
    entry = part.member(name)
    config = _named_group(entry, "config") if "config" in entry else None
    return GroupEntry(config, entry.table("forbidden", JsonObject.int32))


def _named_group(part: JsonObject, name: str) -> GroupConfig:
    group = part.member(name)
    return _GROUP.of(group, name=group.text("groupName", name))
