"""Processes heartbeats: registers a client in its groups, and creates new groups with their retry topics, if allowed.

Follows ClientManageProcessor of RocketMQ 5.3.3.
"""

from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

from cometmq.broker.parts import Parts
from cometmq.broker.tables.members import Client
from cometmq.codec.bodies.heartbeat import ConsumerPart, Heartbeat
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError, invalid_parameter
from cometmq.model.flags import PERM_READ_WRITE
from cometmq.model.names import GROUP_LENGTH_MAX, is_system_group, length_fault, retry_topic
from cometmq.model.text import in_quotes
from cometmq.steps.steps import Steps

# `ip@instance#nanos@unit` has some 60 characters; users set the instance and the unit. 10,000 members with ids of this
# length still fit one frame.
CLIENT_ID_LENGTH_MAX = 1024
# A process has a few consumers and producers; a thousand would be remarkable.
HEARTBEAT_GROUPS_MAX = 1000
HEARTBEAT_NEW_GROUPS_MAX = 100
# Longest wait of a heartbeat that created a group until nameservers know its retry topic.
_TOLD_SECONDS_MAX = 1.0


class HeartbeatResult(NamedTuple):
    """The result of a heartbeat.

    Attributes:
        is_changed: Whether the client should send its subscriptions again.
        refusal: Why the first refused consumer group was refused, or None; it does not keep others from being registered.
    """

    is_changed: bool
    refusal: RequestError | None = None


class Heartbeats:
    """Enters the groups and subscriptions of a client's heartbeats into the tables of members."""

    def __init__(self, parts: Parts, *, announce: Callable[[float], Steps[None]]) -> None:
        """`announce` registers topics; waits for the reachable nameservers, at most the given number of seconds."""
        self._members = parts.members
        self._groups = parts.groups
        self._topics = parts.topics
        self._announce = announce

    def take(
        self, heartbeat: Heartbeat, client: Client
    ) -> HeartbeatResult | Steps[HeartbeatResult]:
        """Register a client in its groups; if this creates or changes a topic, wait up to 1 s until nameservers have it.

        Raises:
            RequestError: A name is too long, there are too many groups or producers, or another user has the client id.
        """
        state = self._groups.version, self._topics.version
        if self._members.is_repeated(heartbeat, client, state):  # As most are.
            return HeartbeatResult(not heartbeat.fingerprint)
        _check_names(heartbeat)
        self._members.check_owner(client.client_id, client.asker)
        result = self._note(heartbeat, client)
        if result.refusal is None:
            self._members.note_heartbeat(
                heartbeat, client, (self._groups.version, self._topics.version)
            )
        return result if self._topics.version == state[1] else self._when_told(result)

    def _when_told(self, result: HeartbeatResult) -> Steps[HeartbeatResult]:
        # A hanging nameserver must not delay it: clients time out after 3 s and try again.
        yield from self._announce(_TOLD_SECONDS_MAX)
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
                # Without its traceback, which would form a reference cycle.
                refusal = refusal or error.with_traceback(None)
        for producer in heartbeat.producers:
            self._members.register_producer(producer.group, client)
        # With heartbeat V2, a client sends its subscriptions again after a change.
        return HeartbeatResult(is_changed or not heartbeat.fingerprint, refusal)

    def _register(self, part: ConsumerPart, client: Client, heartbeat: Heartbeat) -> bool:
        """Register a consumer, and create a missing retry topic; return whether members or subscribed topics changed.

        Does nothing, and returns False, if the group is missing and must not be created. A slave creates no topic.
        """
        group = self._groups.get(part.group)
        if group is None:
            return False  # Follows RocketMQ 5.x: a group that must not be created is ignored.
        name = retry_topic(part.group)
        # A group whose retry topic would have a too long name can consume; what it sends back is refused.
        is_wanted = not (is_system_group(part.group) or self._groups.is_copy)
        if is_wanted and length_fault(name) is None:
            self._topics.ensure(name, queues=group.retry_queues, perm=PERM_READ_WRITE)
        return self._members.register_consumer(
            part, client, is_without_subscriptions=heartbeat.is_without_subscriptions
        )


def _check_names(heartbeat: Heartbeat) -> None:
    """Raise RequestError if there are too many groups, or the client id or the name of a group or topic is too long."""
    count = len(heartbeat.consumers) + len(heartbeat.producers)
    if count > HEARTBEAT_GROUPS_MAX:
        raise invalid_parameter(
            f"heartbeat: {count} groups, but a client can have at most {HEARTBEAT_GROUPS_MAX}"
        )
    check_client_id(heartbeat.client_id)
    for name in chain(
        (part.group for part in heartbeat.consumers),
        (part.group for part in heartbeat.producers),
        (wish.topic for part in heartbeat.consumers for wish in part.subscriptions),
    ):
        if len(name) > GROUP_LENGTH_MAX:
            raise invalid_parameter(
                f"heartbeat: the name {in_quotes(name[:40])}... has {len(name)} characters, but a group or topic can "
                f"have at most {GROUP_LENGTH_MAX}"
            )


def _check_made(count: int, group: str) -> None:
    if count > HEARTBEAT_NEW_GROUPS_MAX:
        raise RequestError(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"consumer group {group} is not created now: a heartbeat creates at most "
            f"{HEARTBEAT_NEW_GROUPS_MAX} groups; the next one creates more",
        )


def check_client_id(client_id: str) -> None:
    """Raise RequestError if a client id is too long, because it is kept per client and sent to all group members."""
    if len(client_id) > CLIENT_ID_LENGTH_MAX:
        raise invalid_parameter(
            f"the client id {in_quotes(client_id[:40])}... has {len(client_id)} characters, but at most "
            f"{CLIENT_ID_LENGTH_MAX} are allowed"
        )
