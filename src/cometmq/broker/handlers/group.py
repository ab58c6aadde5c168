"""Consumer groups: make, change, delete, list (200, 201, 207, 225, 352).

Follows AdminBrokerProcessor of RocketMQ 5.3.3; an answer comes when the change is on disk.

Next: cometmq.broker.groups
"""

import asyncio
import logging
from concurrent.futures import Executor

from cometmq.broker.groups import Groups
from cometmq.broker.offsets import Offsets
from cometmq.codec.bodies.group_config import (
    decode_group_config,
    decode_group_configs,
    encode_group_config,
    encode_group_table,
)
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.topic import DeleteGroup, GroupRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.group import GroupConfig
from cometmq.model.names import check_group
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers

_log = logging.getLogger(__name__)

# GroupRetryPolicyType of RocketMQ 5.3.3: messages come again after the delay levels, or EXPONENTIAL.
_DELAY_LEVELS = "CUSTOMIZED"


class GroupHandler:
    """Handles requests about consumer groups."""

    def __init__(self, *, groups: Groups, offsets: Offsets, pool: Executor) -> None:
        """`pool` makes the texts of large answers."""
        self._pool = pool
        self._groups = groups
        self._offsets = offsets
        self.answers: Answers = {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.create,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self.create_many,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.all,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self.get,
        }

    async def create(self, command: Command, _peer: Peer) -> Answer:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP 200."""
        group = decode_group_config(command.body)
        _check(group)
        self._groups.check_room(group.name)
        await asyncio.shield(self._groups.put(group))
        return Answer()

    async def create_many(self, command: Command, _peer: Peer) -> Answer:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST 225: all of them, or none."""
        groups = decode_group_configs(command.body)
        for group in groups:
            _check(group)
        for group in groups:
            self._groups.check_room(group.name)
            saving = self._groups.put(group)
            if group is groups[-1]:
                await asyncio.shield(saving)
        return Answer()

    async def delete(self, command: Command, peer: Peer) -> Answer:
        """DELETE_SUBSCRIPTIONGROUP 207."""
        request = decode_fields(DeleteGroup, command.fields)
        _log.info("deleting group %s, asked by %s", request.group_name, peer.address)
        saving = self._groups.delete(request.group_name)
        if request.clean_offset:
            self._offsets.forget_group(request.group_name)
        await asyncio.shield(saving)
        return Answer()

    async def all(self, _command: Command, _peer: Peer) -> Answer:
        """GET_ALL_SUBSCRIPTIONGROUP_CONFIG 201."""
        loop = asyncio.get_running_loop()
        table = self._groups.table()
        return Answer(body=await loop.run_in_executor(self._pool, encode_group_table, table))

    def get(self, command: Command, _peer: Peer) -> Answer:
        """GET_SUBSCRIPTIONGROUP_CONFIG 352."""
        name = decode_fields(GroupRequest, command.fields).group
        group = self._groups.peek(name)
        if group is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"No group in this broker. {name}"
            )
        return Answer(body=encode_group_config(group))


def _check(group: GroupConfig) -> None:
    check_group(group.name)
    policy = group.retry_policy.get("type", _DELAY_LEVELS)
    if policy != _DELAY_LEVELS:
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"the retry policy {policy!r:.40} of group {group.name} is not there yet; "
            f"{_DELAY_LEVELS} follows the delay levels",
        )
