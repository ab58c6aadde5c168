"""Administrative requests to one broker, about its settings, role, topics, groups, members and their progress."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from cometmq.client.answer_bodies import read_body
from cometmq.client.api.asking import BrokerRequests, read_fields, unless
from cometmq.codec.bodies.assignment import RequestModeConfig, encode_request_mode
from cometmq.codec.bodies.conflicts import Conflict, decode_conflicts
from cometmq.codec.bodies.connection import (
    ClientConnection,
    ConsumerConnections,
    decode_all_producers,
    decode_consumer_connections,
    decode_producer_connections,
)
from cometmq.codec.bodies.group_config import (
    decode_group_config,
    decode_group_table,
    encode_group_config,
)
from cometmq.codec.bodies.ha_status import HaStatus, decode_ha_status
from cometmq.codec.bodies.kv import decode_kv_table
from cometmq.codec.bodies.lock import decode_locks_file
from cometmq.codec.bodies.queue_offsets import decode_queue_offsets
from cometmq.codec.bodies.running import (
    DirectOutcome,
    RunningState,
    decode_direct,
    decode_running,
)
from cometmq.codec.bodies.stats import (
    ConsumeStats,
    QueueProgress,
    StatsWindows,
    TopicStats,
    decode_all_consume_stats,
    decode_consume_stats,
    decode_group_list,
    decode_stats_windows,
    decode_topic_stats,
)
from cometmq.codec.bodies.topic_config import decode_topic_config, decode_topic_table
from cometmq.codec.bodies.topic_list import decode_topic_list
from cometmq.codec.headers.client import (
    ConsumerGroupRequest,
    MaybeGroupRequest,
    ProducerGroupRequest,
)
from cometmq.codec.headers.console import (
    CHANGED_KEYS,
    SET_KEYS,
    AllConsumeStatsRequest,
    BrokerStatsRequest,
    ConsumeStatsRequest,
    DirectRequest,
    ResetOffsetRequest,
    RunningRequest,
)
from cometmq.codec.headers.replication import (
    GroupMemberChange,
    GroupMembers,
    RoleChange,
    RoleChanged,
)
from cometmq.codec.headers.topic import CreateTopic, DeleteGroup, GroupRequest, TopicRequest
from cometmq.codec.headers.transaction import ResumeCheck
from cometmq.codec.java_properties import decode_java_properties, encode_properties_text
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import BrokerRefused, SettingsError
from cometmq.model.group import GroupConfig
from cometmq.model.names import TRANS_CHECK_MAX_TIME_TOPIC
from cometmq.model.queue import MessageQueue
from cometmq.model.text import in_quotes
from cometmq.model.topic import TopicConfig

# Creating and deleting topics accesses files and notifies nameservers: mqadmin allows 5 s.
_CHANGE_TIMEOUT_MS = 10_000
# A change of the role waits for a slave, for files, and for the nameservers.
_ROLE_TIMEOUT_MS = 60_000
# RocketMQ's relay of a request to a member waits 10 s for it (Broker2Client); mqadmin waits 15 s.
_MEMBER_TIMEOUT_MS = 15_000
# End of the remark about a producer group without members; its code is that of any error.
_NO_PRODUCER = "] not exist"
# Error of a Java broker in its first second: StoreStatsService of 5.3.3 reads the last of its samples, and has none yet.
_TOO_YOUNG = "java.util.NoSuchElementException"
_TOO_YOUNG_PAUSES = 20
_TOO_YOUNG_SECONDS = 0.25


class SettingsReport(NamedTuple):
    """The settings of a broker.

    Attributes:
        values: Effective values, by key.
        changed: Keys that were changed by requests since the broker's start; empty for a Java broker, which reports none.
        set_keys: Keys whose value is not that broker's default; None for a Java broker, which does not report them.
    """

    values: Mapping[str, str]
    changed: frozenset[str] = frozenset()
    set_keys: frozenset[str] | None = None


class BrokerApi(BrokerRequests):
    """Sends administrative requests, each to one broker; methods raise BrokerRefused, NetError and CodecError."""

    # --- broker

    async def runtime(self, address: str) -> dict[str, str]:
        """Return the runtime values of a broker, by RocketMQ's names; retry for about 5 s if a Java broker just started."""
        for _ in range(_TOO_YOUNG_PAUSES):
            try:
                return await self._runtime(address)
            except BrokerRefused as refused:
                if not refused.remark.startswith(_TOO_YOUNG):
                    raise
            await asyncio.sleep(_TOO_YOUNG_SECONDS)
        return await self._runtime(address)

    async def _runtime(self, address: str) -> dict[str, str]:
        answer = await self._ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return await read_body(decode_kv_table, answer.body, f"the numbers of {address}")

    async def settings(self, address: str) -> SettingsReport:
        """Return a `SettingsReport` with the effective settings that a broker reports."""
        answer = await self._ask(address, RequestCode.GET_BROKER_CONFIG)
        changed, told = answer.fields.get(CHANGED_KEYS, ""), answer.fields.get(SET_KEYS)
        return SettingsReport(
            decode_java_properties(answer.body),
            _names(changed),
            None if told is None else _names(told),
        )

    async def change_settings(self, address: str, values: Mapping[str, str]) -> None:
        """Change settings of a running broker; a CometMQ broker changes all of them or none."""
        body = encode_properties_text(values)
        await self._ask(
            address, RequestCode.UPDATE_BROKER_CONFIG, body=body, timeout_ms=_CHANGE_TIMEOUT_MS
        )

    async def change_role(self, address: str, wish: RoleChange) -> RoleChanged:
        """Make a CometMQ broker a master or a slave; return its new id and its log's end when the change is complete."""
        answer = await self._ask(
            address, RequestCode.NOTIFY_BROKER_ROLE_CHANGED, wish, timeout_ms=_ROLE_TIMEOUT_MS
        )
        return read_fields(RoleChanged, answer, f"the answer of {address} about its role")

    async def ask_leader(self, address: str, code: RequestCode, member: str) -> GroupMembers:
        """Change the leader or the members of a group by a request to its leader; return the group after the change."""
        answer = await self._ask(
            address, code, GroupMemberChange(member), timeout_ms=_ROLE_TIMEOUT_MS
        )
        return read_fields(GroupMembers, answer, f"the answer of {address} about its group")

    async def stats(self, address: str, name: str, key: str) -> StatsWindows:
        """Return the sums and rates of a RocketMQ statistic in the last minute, hour and day, by its name and key."""
        header = BrokerStatsRequest(name, key)
        answer = await self._ask(address, RequestCode.VIEW_BROKER_STATS_DATA, header)
        return decode_stats_windows(answer.body)

    # --- topics

    async def topic_stats(self, address: str, topic: str) -> TopicStats:
        """Return the first and end offsets and last store time of each queue of a topic at a broker, and its store rate."""
        answer = await self._ask(address, RequestCode.GET_TOPIC_STATS_INFO, TopicRequest(topic))
        what = f"the queues of {topic} at {address}"
        return await read_body(decode_topic_stats, answer.body, what)

    async def groups_of_topic(self, address: str, topic: str) -> tuple[str, ...]:
        """Return the names of the groups that have, at a broker, offsets in a topic or members that subscribe to it."""
        header = TopicRequest(topic)
        answer = await self._ask(address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header)
        return decode_group_list(answer.body)

    async def change_topic(
        self,
        address: str,
        topic: str,
        changes: Mapping[str, Any],
        *,
        flags: Mapping[int, bool] | None = None,
        attributes: Mapping[str, str | None] | None = None,
        is_made: bool = False,
    ) -> TopicConfig | None:
        """Change a topic's settings at a broker and return the new ones; None without `is_made` if it lacks the topic.

        Args:
            address: Address of the broker.
            topic: Name of the topic.
            changes: Fields of `TopicConfig`, except its attributes; the others are kept.
            flags: Bits of `model.flags.PERM_*` to set (True) or to clear (False).
            attributes: Added to the topic's attributes; those that are None are removed.
            is_made: Whether to create the topic, with defaults for other fields, if the broker does not have it or does
                not permit this user to read it.

        Raises:
            SettingsError: `changes` has the name, the attributes or an unknown field.
        """
        _check_fields(changes, TopicConfig, "name", "attributes")
        try:
            known = await self.topic_config(address, topic)
        except BrokerRefused as error:
            unknown = {ResponseCode.TOPIC_NOT_EXIST} | (
                {ResponseCode.NO_PERMISSION} if is_made else set()
            )
            if error.code not in unknown:
                raise
            if not is_made:
                return None
            known = TopicConfig(topic)
        config = replace(known, **changes)
        for flag, is_set in (flags or {}).items():
            config = replace(config, perm=config.perm | flag if is_set else config.perm & ~flag)
        given = attributes or {}
        header = CreateTopic(
            topic,
            config.read_queues,
            config.write_queues,
            config.perm,
            topic_filter_type=config.filter_type,
            topic_sys_flag=config.sys_flag,
            order=config.ordered,
            attributes=_attributes_text(given),
        )
        await self._change(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        merged = {**config.attributes, **given}
        kept = {key: value for key, value in merged.items() if value is not None}
        return replace(config, attributes=kept)

    async def delete_topic(self, address: str, topic: str) -> None:
        """Delete a topic and its queues at this broker, so that its messages cannot be consumed any more."""
        await self._change(address, RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic))

    async def topic_config(self, address: str, topic: str) -> TopicConfig:
        """Return the settings of a topic at a broker of version 4 or 5; raise BrokerRefused if it does not have the topic."""
        try:
            answer = await self._ask(address, RequestCode.GET_TOPIC_CONFIG, TopicRequest(topic))
        except BrokerRefused as error:
            if (
                error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            ):  # Only 5.x supports the request.
                raise
            return await self._topic_config_of_4(address, topic)
        return decode_topic_config(answer.body)

    async def topics(self, address: str) -> dict[str, TopicConfig]:
        """Return the settings of all topics at a broker, by name."""
        answer = await self._ask(address, RequestCode.GET_ALL_TOPIC_CONFIG)
        table = await read_body(decode_topic_table, answer.body, f"the topics of {address}")
        return dict(table.topics)

    async def _topic_config_of_4(self, address: str, topic: str) -> TopicConfig:
        topics = await self.topics(address)
        if topic not in topics:
            raise BrokerRefused(
                ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} does not exist", address
            )
        return topics[topic]

    # --- groups

    async def create_group(
        self, address: str, group: GroupConfig, *, known: Mapping[str, str] | None = None
    ) -> None:
        """Create a consumer group at a broker, or replace its settings.

        `known` are the current attributes of the group at the broker; those that are missing in `group` are removed.
        """
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        known = known or {}
        changes = {
            f"+{key}": value
            for key, value in group.attributes.items()
            if known.get(key) != value
        }
        changes.update((f"-{key}", "") for key in known.keys() - group.attributes.keys())
        body = encode_group_config(replace(group, attributes=changes))
        await self._ask(address, code, body=body, timeout_ms=_CHANGE_TIMEOUT_MS)

    async def change_group(
        self, address: str, group: str, changes: Mapping[str, Any]
    ) -> GroupConfig | None:
        """Change fields of a group's settings and return the resulting ones; None if the broker does not have the group.

        Raises SettingsError if `changes` has the name or an unknown field.
        """
        _check_fields(changes, GroupConfig, "name")
        known = (await self.groups(address)).get(group)
        if known is None:
            return None
        changed = replace(known, **changes)
        await self.create_group(address, changed, known=known.attributes)
        return changed

    async def delete_group(self, address: str, group: str, *, offsets: bool) -> None:
        """Delete a consumer group at a broker; with `offsets`, also its offsets and, on CometMQ brokers, its own retry topics."""
        header = DeleteGroup(group, clean_offset=offsets)
        await self._change(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    async def groups(self, address: str) -> dict[str, GroupConfig]:
        """Return the settings of all consumer groups of a broker, by name."""
        answer = await self._ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        table = await read_body(decode_group_table, answer.body, f"the groups of {address}")
        return dict(table.groups)

    async def group_config(self, address: str, group: str) -> GroupConfig:
        """Return the settings of a consumer group at a broker of 5.x; raise BrokerRefused if it does not have the group."""
        code = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
        return decode_group_config((await self._ask(address, code, GroupRequest(group))).body)

    async def ha_status(self, address: str) -> HaStatus:
        """Return the replication status of a broker: the slaves of a master, or the progress of a slave."""
        answer = await self._ask(address, RequestCode.GET_BROKER_HA_STATUS)
        return await read_body(decode_ha_status, answer.body, f"the copies of {address}")

    async def set_request_mode(self, address: str, config: RequestModeConfig) -> None:
        """Set whether a group pulls or pops a topic; this concerns members whose queues are assigned by brokers."""
        code, body = RequestCode.SET_MESSAGE_REQUEST_MODE, encode_request_mode(config)
        await self._ask(address, code, body=body, timeout_ms=_CHANGE_TIMEOUT_MS)

    async def topics_of_group(self, address: str, group: str) -> tuple[str, ...]:
        """Return the names of the topics in which a group has offsets at a broker."""
        header = GroupRequest(group)
        answer = await self._ask(address, RequestCode.QUERY_TOPICS_BY_CONSUMER, header)
        return decode_topic_list(answer.body).topics

    async def progress(
        self, address: str, group: str, topic: str | None
    ) -> Mapping[MessageQueue, QueueProgress]:
        """Return the offsets and times of a group at a broker, by queue of one topic, or of all if `topic` is None."""
        return (await self.consume_stats(address, group, topic)).queues

    async def consume_stats(self, address: str, group: str, topic: str | None) -> ConsumeStats:
        """Return a group's progress at a broker in a topic (None: in all), and its estimated consumed messages per second."""
        header = ConsumeStatsRequest(group, topic)
        answer = await self._ask(address, RequestCode.GET_CONSUME_STATS, header)
        what = f"the progress of {group} at {address}"
        return await read_body(decode_consume_stats, answer.body, what)

    async def all_consume_stats(self, address: str) -> dict[str, tuple[ConsumeStats, ...]]:
        """Return the progress of all groups at a broker, by group name: a tuple with one entry for each topic."""
        header = AllConsumeStatsRequest()
        answer = await self._ask(address, RequestCode.GET_BROKER_CONSUME_STATS, header)
        what = f"the progress of all groups at {address}"
        return await read_body(decode_all_consume_stats, answer.body, what)

    async def reset_offsets(
        self, address: str, group: str, topic: str, timestamp_ms: int
    ) -> dict[MessageQueue, int] | None:
        """Move a group in a topic at a broker to the first message stored at or after a time, ms since 1970; -1: to the ends.

        Returns the new offset of each queue; None if only members could apply the reset and none is connected.
        """
        header = ResetOffsetRequest(topic, group, timestamp_ms)
        asked = self._ask(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        answer = await unless((ResponseCode.CONSUMER_NOT_ONLINE,), asked)
        return answer and decode_queue_offsets(answer.body)

    async def put_offset(
        self, address: str, group: str, queue: MessageQueue, offset: int
    ) -> None:
        """Move a group to an offset of one queue.

        A Java broker of 4.9 or with useServerSideResetOffset=false instead moves the members to the ends of all queues.
        """
        header = ResetOffsetRequest(queue.topic, group, queue_id=queue.queue_id, offset=offset)
        await self._ask(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)

    # --- members

    async def consumer_connections(
        self, address: str, group: str
    ) -> ConsumerConnections | None:
        """Return the members of a consumer group at a broker and their subscriptions; None if it has no connected member."""
        header = ConsumerGroupRequest(group)
        asked = self._ask(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        answer = await unless((ResponseCode.CONSUMER_NOT_ONLINE,), asked)
        return answer and decode_consumer_connections(answer.body)

    async def all_producers(
        self, address: str
    ) -> dict[str, tuple[tuple[ClientConnection, int], ...]]:
        """Return the producers connected to a broker by group, each with the time of its last heartbeat, ms since 1970."""
        answer = await self._ask(address, RequestCode.GET_ALL_PRODUCER_INFO)
        return await read_body(decode_all_producers, answer.body, f"the producers of {address}")

    async def producer_connections(
        self, address: str, group: str
    ) -> tuple[ClientConnection, ...]:
        """Return the members of a producer group that are connected to a broker."""
        header = ProducerGroupRequest(group)
        try:
            answer = await self._ask(address, RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
        except BrokerRefused as refused:
            if refused.remark.endswith(_NO_PRODUCER):
                return ()
            raise
        return decode_producer_connections(answer.body)

    async def running_state(
        self, address: str, group: str, client_id: str, *, stacks: bool = False
    ) -> RunningState:
        """Return the state that a member of a group reports through its broker; `stacks` adds its thread stacks."""
        header = RunningRequest(group, client_id, jstack_enable=stacks)
        answer = await self._ask(
            address,
            RequestCode.GET_CONSUMER_RUNNING_INFO,
            header,
            timeout_ms=_MEMBER_TIMEOUT_MS,
        )
        return decode_running(answer.body)

    async def consume_directly(
        self, address: str, group: str, client_id: str, offset_message_id: str
    ) -> DirectOutcome:
        """Have a member of a group run its listener on one message now, without committing; return the outcome."""
        header = DirectRequest(group, client_id, offset_message_id)
        answer = await self._ask(
            address, RequestCode.CONSUME_MESSAGE_DIRECTLY, header, timeout_ms=_MEMBER_TIMEOUT_MS
        )
        return decode_direct(answer.body)

    # --- only CometMQ brokers

    async def conflicts(self, address: str, group: str | None) -> tuple[Conflict, ...]:
        """Return the conflicts that a CometMQ broker sees between members of a group (None: of any), for example in subscriptions."""
        header = MaybeGroupRequest(group)
        answer = await self._ask(address, RequestCode.GET_GROUP_CONFLICTS, header)
        return decode_conflicts(answer.body)

    async def queue_locks(
        self, address: str, group: str | None
    ) -> dict[tuple[str, MessageQueue], str]:
        """Return the client ids that hold locks at a CometMQ broker, by group and queue; of one group, or (None) any."""
        header = MaybeGroupRequest(group)
        answer = await self._ask(address, RequestCode.GET_QUEUE_LOCKS, header)
        return decode_locks_file(answer.body)

    async def resume_check(self, address: str, offset_message_id: str) -> None:
        """Have a broker check a half message again that it discarded, because it was checked too often or too old."""
        header = ResumeCheck(offset_message_id, TRANS_CHECK_MAX_TIME_TOPIC)
        await self._ask(address, RequestCode.RESUME_CHECK_HALF_MESSAGE, header)

    # --- sending

    async def _change(self, address: str, code: RequestCode, header: object) -> None:
        await self._ask(address, code, header, timeout_ms=_CHANGE_TIMEOUT_MS)


def _attributes_text(attributes: Mapping[str, str | None]) -> str | None:
    """Return attribute changes as "+key=value,-deleted" (AttributeParser of RocketMQ 5.3.3); None without any."""
    changes = (
        f"-{key}" if value is None else f"+{key}={value}" for key, value in attributes.items()
    )
    return ",".join(changes) or None


def _names(text: str) -> frozenset[str]:
    return frozenset(filter(None, text.split(",")))


def _check_fields(
    changes: Mapping[str, Any], config: type[TopicConfig | GroupConfig], *fixed: str
) -> None:
    known = [each for each in config.__dataclass_fields__ if each not in fixed]
    if odd := changes.keys() - set(known):
        raise SettingsError(
            f"changes: {in_quotes(min(map(str, odd)), 80)} is not a field of {config.__name__} that can be changed; "
            f"these are {', '.join(known)}"
        )
