"""Heartbeats: a client says which groups it is in, and groups that are new are made with their retry topics.

Follows ClientManageProcessor of RocketMQ 5.3.3.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from itertools import chain
from typing import NamedTuple

from cometmq.broker.tables.groups import Groups
from cometmq.broker.tables.members import Client, Members
from cometmq.broker.tables.topics import Topics
from cometmq.codec.bodies.heartbeat import ConsumerPart, Heartbeat
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.flags import PERM_READ_WRITE
from cometmq.model.names import GROUP_LENGTH_MAX, is_system_group, length_fault, retry_topic

# `ip@instance#nanos@unit` has some 60 characters; a user gives the instance and the unit. 10,000
# members of a group with ids of this length can still be told in one frame.
CLIENT_ID_LENGTH_MAX = 1024
# A process with a thousand consumers and producers would be remarkable; one has a few.
HEARTBEAT_GROUPS_MAX = 1000
HEARTBEAT_NEW_GROUPS_MAX = 100
# How long a heartbeat that made a group waits at most until nameservers know its retry topic.
_TOLD_SECONDS_MAX = 1.0


class HeartbeatResult(NamedTuple):
    """The result of a heartbeat.

    Attributes:
        is_changed: the client should send its subscriptions again.
        refusal: why a group was not taken, None where all were; the others are none the worse for it.
    """

    is_changed: bool
    refusal: RequestError | None = None


class Heartbeats:
    """Takes what clients say of themselves."""

    def __init__(
        self,
        members: Members,
        groups: Groups,
        topics: Topics,
        *,
        announce: Callable[[], Awaitable[None]],
    ) -> None:
        """`announce` tells the nameservers that are up, and returns when they know."""
        self._members = members
        self._groups = groups
        self._topics = topics
        self._announce = announce

    def take(
        self, heartbeat: Heartbeat, client: Client
    ) -> HeartbeatResult | Awaitable[HeartbeatResult]:
        """Note a client in its groups; who made a group by it finds the route of its retry topic when it is answered.

        Raises:
            RequestError: a name is too long, or there are too many; or the client id is another user's.
        """
        _check_names(heartbeat)
        self._members.check_owner(client.client_id, client.asker)
        version = self._topics.version
        result = self._note(heartbeat, client)
        return result if self._topics.version == version else self._when_told(result)

    async def _when_told(self, result: HeartbeatResult) -> HeartbeatResult:
        # A nameserver that stands still must not make it late: clients wait 3 s, and try again.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TOLD_SECONDS_MAX):
                await self._announce()
        return result

    def _note(self, heartbeat: Heartbeat, client: Client) -> HeartbeatResult:
        is_changed = False
        refusal: RequestError | None = None
        made = 0
        for part in heartbeat.consumers:
            made += not self._groups.is_copy and self._groups.peek(part.group) is None
            try:
                _check_made(made, part.group)
                is_changed |= self._register(part, client, heartbeat)
            except RequestError as error:
                # Without what it was raised in, which has the name of it: no circle is left behind.
                refusal = refusal or error.with_traceback(None)
        for producer in heartbeat.producers:
            self._members.register_producer(producer.group, client)
        # With heartbeat V2 a client that hears of a change sends its subscriptions again.
        return HeartbeatResult(is_changed or not heartbeat.fingerprint, refusal)

    def _register(self, part: ConsumerPart, client: Client, heartbeat: Heartbeat) -> bool:
        """Take a consumer into its group, which is made with its retry topic where it is new; a slave makes neither."""
        group = self._groups.get(part.group)
        if group is None:
            return (
                False  # Follows RocketMQ 5.x: the group may not be made, so it is passed over.
            )
        name = retry_topic(part.group)
        # A group whose retry topic could have no directory consumes; what it gives back is refused.
        is_wanted = not (is_system_group(part.group) or self._groups.is_copy)
        if is_wanted and length_fault(name) is None:
            self._topics.ensure(name, queues=group.retry_queues, perm=PERM_READ_WRITE)
        return self._members.register_consumer(
            part, client, is_without_subscriptions=heartbeat.is_without_subscriptions
        )


def _check_names(heartbeat: Heartbeat) -> None:
    """Refuse what no client calls itself, its groups or its topics, and too many groups."""
    count = len(heartbeat.consumers) + len(heartbeat.producers)
    if count > HEARTBEAT_GROUPS_MAX:
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"heartbeat: {count} groups; {HEARTBEAT_GROUPS_MAX} are the most of a client",
        )
    check_client_id(heartbeat.client_id)
    for name in chain(
        (part.group for part in heartbeat.consumers),
        (part.group for part in heartbeat.producers),
        (wish.topic for part in heartbeat.consumers for wish in part.subscriptions),
    ):
        if len(name) > GROUP_LENGTH_MAX:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"heartbeat: the name {name[:40]!r}... has {len(name)} characters; "
                f"{GROUP_LENGTH_MAX} are the most of a group or topic",
            )


def _check_made(count: int, group: str) -> None:
    if count > HEARTBEAT_NEW_GROUPS_MAX:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"consumer group {group} is not made now: a heartbeat makes "
            f"{HEARTBEAT_NEW_GROUPS_MAX} groups; the next one makes more",
        )


def check_client_id(client_id: str) -> None:
    """Refuse an id that would be kept for each client and told to all of a group.

    Raises:
        RequestError: it is longer than any that a client makes.
    """
    if len(client_id) > CLIENT_ID_LENGTH_MAX:
        raise RequestError(
            ResponseCode.INVALID_PARAMETER,
            f"the client id {client_id[:40]!r}... has {len(client_id)} characters; "
            f"{CLIENT_ID_LENGTH_MAX} are the most",
        )
