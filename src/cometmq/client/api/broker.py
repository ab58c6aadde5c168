"""Requests of an administrator to one broker: its topics, its groups, who is connected, how far they are.

Each method takes the address of the broker and raises what `Asks.ask` raises: BrokerRefused, NetError and CodecError.

Next: cometmq.client.api.asking
"""

from collections.abc import Mapping

from cometmq.client.answer_bodies import read_body
from cometmq.client.api.asking import Asks
from cometmq.codec.bodies.assignment import RequestModeConfig, encode_request_mode
from cometmq.codec.bodies.conflicts import Conflict, decode_conflicts
from cometmq.codec.bodies.connection import (
    ClientConnection,
    ConsumerConnections,
    decode_consumer_connections,
    decode_producer_connections,
)
from cometmq.codec.bodies.group_config import decode_group_table, encode_group_config
from cometmq.codec.bodies.ha_status import HaStatus, decode_ha_status
from cometmq.codec.bodies.lock import decode_locks_file
from cometmq.codec.bodies.queue_offsets import decode_queue_offsets
from cometmq.codec.bodies.running import RunningState, decode_running
from cometmq.codec.bodies.stats import QueueProgress, decode_consume_stats
from cometmq.codec.bodies.topic_config import decode_topic_config
from cometmq.codec.bodies.topic_list import decode_topic_list
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.client import (
    ConsumerGroupRequest,
    MaybeGroupRequest,
    ProducerGroupRequest,
)
from cometmq.codec.headers.console import (
    ConsumeStatsRequest,
    ResetOffsetRequest,
    RunningRequest,
)
from cometmq.codec.headers.topic import CreateTopic, DeleteGroup, TopicRequest
from cometmq.codec.headers.transaction import ResumeCheck
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import BrokerRefused
from cometmq.model.group import GroupConfig
from cometmq.model.names import TRANS_CHECK_MAX_TIME_TOPIC
from cometmq.model.queue import MessageQueue
from cometmq.model.topic import TopicConfig

# Making and deleting topics touches files and tells nameservers: mqadmin allows 5 s.
_CHANGE_TIMEOUT_MS = 10_000


class BrokerApi:
    """Asks brokers, one at a time."""

    def __init__(self, asks: Asks) -> None:
        """Over these connections."""
        self._asks = asks

    # --- topics

    async def create_topic(
        self,
        address: str,
        topic: str,
        *,
        read_queues: int,
        write_queues: int,
        perm: int,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        """Make a topic, or change it."""
        added = ",".join(f"+{key}={value}" for key, value in (attributes or {}).items())
        header = CreateTopic(
            topic,
            read_queues,
            write_queues,
            perm,
            topic_sys_flag=0,
            attributes=added or None,
        )
        await self._change(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def delete_topic(self, address: str, topic: str) -> None:
        """Delete a topic and all its messages at this broker."""
        await self._change(address, RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequest(topic))

    async def topic_config(self, address: str, topic: str) -> TopicConfig:
        """A topic's settings."""
        answer = await self._ask(address, RequestCode.GET_TOPIC_CONFIG, TopicRequest(topic))
        return decode_topic_config(answer.body)

    # --- groups

    async def create_group(self, address: str, group: GroupConfig) -> None:
        """Make a consumer group, or change it."""
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        command = Command(code, body=encode_group_config(group))
        await self._asks.ask(address, command, timeout_ms=_CHANGE_TIMEOUT_MS)

    async def delete_group(self, address: str, group: str, *, offsets: bool) -> None:
        """Delete a consumer group, and where it stood where `offsets` is true."""
        header = DeleteGroup(group, clean_offset=offsets)
        await self._change(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    async def groups(self, address: str) -> dict[str, GroupConfig]:
        """All consumer groups by name."""
        command = Command(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        answer = await self._asks.ask(address, command)
        table = await read_body(decode_group_table, answer.body, f"the groups of {address}")
        return dict(table.groups)

    async def ha_status(self, address: str) -> HaStatus:
        """How its copies stand, or how far it is as a copy."""
        answer = await self._asks.ask(address, Command(RequestCode.GET_BROKER_HA_STATUS))
        return await read_body(decode_ha_status, answer.body, f"the copies of {address}")

    async def set_request_mode(self, address: str, config: RequestModeConfig) -> None:
        """Say how a group consumes a topic whose queues brokers share out."""
        command = Command(
            RequestCode.SET_MESSAGE_REQUEST_MODE, body=encode_request_mode(config)
        )
        await self._asks.ask(address, command, timeout_ms=_CHANGE_TIMEOUT_MS)

    async def topics_of_group(self, address: str, group: str) -> tuple[str, ...]:
        """The topics in which a group has offsets."""
        header = ConsumerGroupRequest(group)
        answer = await self._ask(address, RequestCode.QUERY_TOPICS_BY_CONSUMER, header)
        return decode_topic_list(answer.body).topics

    async def progress(
        self, address: str, group: str, topic: str | None
    ) -> Mapping[MessageQueue, QueueProgress]:
        """How far a group is in the queues of a topic, or of all topics where that is None."""
        header = ConsumeStatsRequest(group, topic)
        answer = await self._ask(address, RequestCode.GET_CONSUME_STATS, header)
        what = f"the progress of {group} at {address}"
        return (await read_body(decode_consume_stats, answer.body, what)).queues

    async def reset_offsets(
        self, address: str, group: str, topic: str, timestamp_ms: int
    ) -> dict[MessageQueue, int] | None:
        """Send a group to the first message of each queue stored at a time or later; -1: to the ends.

        Returns:
            Where it goes on; None where its members would have to move themselves and none is there.
        """
        header = ResetOffsetRequest(topic, group, timestamp_ms)
        try:
            answer = await self._ask(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        except BrokerRefused as refused:
            if refused.code == ResponseCode.CONSUMER_NOT_ONLINE:
                return None
            raise
        return decode_queue_offsets(answer.body)

    # --- who is there

    async def consumer_connections(
        self, address: str, group: str
    ) -> ConsumerConnections | None:
        """The members of a consumer group that are connected; None where nobody is."""
        header = ConsumerGroupRequest(group)
        try:
            answer = await self._ask(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        except BrokerRefused as refused:
            if refused.code == ResponseCode.CONSUMER_NOT_ONLINE:
                return None
            raise
        return decode_consumer_connections(answer.body)

    async def producer_connections(
        self, address: str, group: str
    ) -> tuple[ClientConnection, ...]:
        """The members of a producer group that are connected."""
        header = ProducerGroupRequest(group)
        answer = await self._ask(address, RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
        return decode_producer_connections(answer.body)

    async def running_state(self, address: str, group: str, client_id: str) -> RunningState:
        """What a member of a group says of itself, by way of its broker."""
        header = RunningRequest(group, client_id)
        answer = await self._ask(address, RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        return decode_running(answer.body)

    # --- what only our brokers answer

    async def conflicts(self, address: str, group: str | None) -> tuple[Conflict, ...]:
        """Members that contradict each other, of one group or of all."""
        header = MaybeGroupRequest(group)
        answer = await self._ask(address, RequestCode.GET_GROUP_CONFLICTS, header)
        return decode_conflicts(answer.body)

    async def queue_locks(
        self, address: str, group: str | None
    ) -> dict[tuple[str, MessageQueue], str]:
        """Who holds queues for consumption in order, by group and queue; of one group or of all."""
        header = MaybeGroupRequest(group)
        answer = await self._ask(address, RequestCode.GET_QUEUE_LOCKS, header)
        return decode_locks_file(answer.body)

    async def resume_check(self, address: str, offset_message_id: str) -> None:
        """Have a half message checked again that was put aside after too many checks."""
        header = ResumeCheck(offset_message_id, TRANS_CHECK_MAX_TIME_TOPIC)
        await self._ask(address, RequestCode.RESUME_CHECK_HALF_MESSAGE, header)

    # --- asking

    async def _ask(self, address: str, code: RequestCode, header: object) -> Command:
        return await self._asks.ask(address, Command(code, fields=encode_fields(header)))

    async def _change(self, address: str, code: RequestCode, header: object) -> None:
        command = Command(code, fields=encode_fields(header))
        await self._asks.ask(address, command, timeout_ms=_CHANGE_TIMEOUT_MS)
