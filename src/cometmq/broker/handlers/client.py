"""Clients: heartbeats, leaving, who else is there, and the locks of those who consume in order.

Follows ClientManageProcessor, ConsumerManageProcessor and AdminBrokerProcessor of RocketMQ 5.3.3.

Next: cometmq.broker.members
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from itertools import chain

from cometmq.broker.members import Client
from cometmq.broker.parts import Parts
from cometmq.codec.bodies.connection import (
    ClientConnection,
    ConsumerConnections,
    encode_all_producers,
    encode_consumer_connections,
    encode_producer_connections,
)
from cometmq.codec.bodies.consumer import encode_consumer_ids
from cometmq.codec.bodies.heartbeat import ConsumerPart, Heartbeat, decode_heartbeat
from cometmq.codec.bodies.lock import decode_lock_request, encode_locked
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.client import (
    ConsumerGroupRequest,
    ProducerGroupRequest,
    UnregisterClient,
)
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.flags import PERM_READ_WRITE
from cometmq.model.names import GROUP_LENGTH_MAX, is_system_group, length_fault, retry_topic
from cometmq.model.queue import MessageQueue
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers

# `ip@instance#nanos@unit` has some 60 characters; a user gives the instance and the unit. 10,000
# members of a group with ids of this length can still be told in one frame.
CLIENT_ID_LENGTH_MAX = 1024
# A process with a thousand consumers and producers would be remarkable; one has a few.
HEARTBEAT_GROUPS_MAX = 1000
HEARTBEAT_NEW_GROUPS_MAX = 100
# How long a heartbeat that made a group waits at most until nameservers know its retry topic.
_TOLD_SECONDS_MAX = 1.0


class ClientHandler:
    """Handles requests of and about clients."""

    def __init__(self, parts: Parts, *, announce: Callable[[], Awaitable[None]]) -> None:
        """Of `parts` it uses the tables; `announce` tells the nameservers that are up, and returns when they know."""
        self._announce = announce
        self._members = parts.members
        self._groups = parts.groups
        self._topics = parts.topics
        self._locks = parts.locks
        self._clock = parts.clock
        self._broker_name = parts.settings.broker_name
        self.answers: Answers = {
            RequestCode.HEART_BEAT: self.heartbeat,
            RequestCode.UNREGISTER_CLIENT: self.unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.consumer_ids,
            RequestCode.LOCK_BATCH_MQ: self.lock,
            RequestCode.UNLOCK_BATCH_MQ: self.unlock,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumer_connections,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producer_connections,
            RequestCode.GET_ALL_PRODUCER_INFO: self.all_producers,
        }

    def heartbeat(self, command: Command, peer: Peer) -> Answer | Awaitable[Answer]:
        """HEART_BEAT 34; who made a group by it finds the route of its retry topic when it is answered."""
        version = self._topics.version
        answer = self._take_heartbeat(command, peer)
        return answer if self._topics.version == version else self._when_told(answer)

    async def _when_told(self, answer: Answer) -> Answer:
        # A nameserver that stands still must not make it late: clients wait 3 s, and try again.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TOLD_SECONDS_MAX):
                await self._announce()
        return answer

    def _take_heartbeat(self, command: Command, peer: Peer) -> Answer:
        heartbeat = decode_heartbeat(command.body)
        _check_names(heartbeat)
        client = Client(
            heartbeat.client_id,
            peer,
            command.language,
            command.version,
            self._clock.monotonic(),
        )
        is_changed = False
        refusal: Answer | None = None
        made = 0
        for part in heartbeat.consumers:
            made += self._groups.peek(part.group) is None
            try:
                _check_made(made, part.group)
                is_changed |= self._register(part, client, heartbeat)
            except RequestError as error:  # The others are none the worse for it.
                refusal = refusal or Answer(error.code, error.remark, error.fields)
        for producer in heartbeat.producers:
            self._members.register_producer(producer.group, client)
        if refusal is not None:
            return refusal
        # With heartbeat V2 a client that hears of a change sends its subscriptions again.
        changed = "true" if is_changed or not heartbeat.fingerprint else "false"
        return Answer(fields={"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": changed})

    def _register(self, part: ConsumerPart, client: Client, heartbeat: Heartbeat) -> bool:
        """Take a consumer into its group, which is made with its retry topic where it is new."""
        group = self._groups.get(part.group)
        if group is None:
            return (
                False  # Follows RocketMQ 5.x: the group may not be made, so it is passed over.
            )
        name = retry_topic(part.group)
        # A group whose retry topic could have no directory consumes; what it gives back is refused.
        if not is_system_group(part.group) and length_fault(name) is None:
            self._topics.ensure(name, queues=group.retry_queues, perm=PERM_READ_WRITE)
        return self._members.register_consumer(
            part, client, is_without_subscriptions=heartbeat.is_without_subscriptions
        )

    def unregister(self, command: Command, peer: Peer) -> Answer:
        """UNREGISTER_CLIENT 35."""
        request = decode_fields(UnregisterClient, command.fields)
        self._members.unregister(
            peer,
            producer_group=request.producer_group,
            consumer_group=request.consumer_group,
        )
        return Answer()

    def consumer_ids(self, command: Command, _peer: Peer) -> Answer:
        """GET_CONSUMER_LIST_BY_GROUP 38."""
        name = decode_fields(ConsumerGroupRequest, command.fields).consumer_group
        group = self._members.consumer_group(name)
        if group is None:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name}")
        return Answer(body=encode_consumer_ids(group.client_ids()))

    def consumer_connections(self, command: Command, _peer: Peer) -> Answer:
        """GET_CONSUMER_CONNECTION_LIST 203."""
        name = decode_fields(ConsumerGroupRequest, command.fields).consumer_group
        group = self._members.consumer_group(name)
        if group is None:
            raise RequestError(
                ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online"
            )
        connections = ConsumerConnections(
            tuple(_connection(client) for client in group.clients.values()),
            dict(group.subscriptions),
            group.consume_type,
            group.model,
            group.from_where,
        )
        return Answer(body=encode_consumer_connections(connections))

    def producer_connections(self, command: Command, _peer: Peer) -> Answer:
        """GET_PRODUCER_CONNECTION_LIST 204."""
        name = decode_fields(ProducerGroupRequest, command.fields).producer_group
        clients = self._members.producers(name)
        if not clients:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist"
            )
        return Answer(body=encode_producer_connections(map(_connection, clients)))

    def all_producers(self, _command: Command, _peer: Peer) -> Answer:
        """GET_ALL_PRODUCER_INFO 328."""
        members, clock = self._members, self._clock
        now, now_ms = clock.monotonic(), clock.now_ms()
        groups = {
            name: [
                (_connection(client), now_ms - int((now - client.seen) * 1000))
                for client in members.producers(name)
            ]
            for name in members.producer_groups()
        }
        return Answer(body=encode_all_producers(groups))

    def lock(self, command: Command, _peer: Peer) -> Awaitable[Answer] | Answer:
        """LOCK_BATCH_MQ 41."""
        request = decode_lock_request(command.body)
        check_client_id(request.client_id)
        if self._groups.get(request.group) is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group not exist, {request.group:.{GROUP_LENGTH_MAX}}",
            )
        queues = [queue for queue in request.queues if self._is_here(queue)]
        obtained, saving = self._locks.lock(
            queues, group=request.group, client_id=request.client_id
        )
        missing = len(request.queues) - len(queues)
        remark = f"{missing} of these queues are not at this broker" if missing else None
        answer = Answer(remark=remark, body=encode_locked(obtained))
        return answer if saving is None else _answer_saved(answer, saving)

    def _is_here(self, queue: MessageQueue) -> bool:
        topic = self._topics.get(queue.topic)
        return (
            topic is not None
            and queue.broker_name == self._broker_name
            and 0 <= queue.queue_id < topic.queue_count
        )

    def unlock(self, command: Command, _peer: Peer) -> Answer:
        """UNLOCK_BATCH_MQ 42."""
        request = decode_lock_request(command.body)
        self._locks.unlock(request.queues, group=request.group, client_id=request.client_id)
        return Answer()


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


async def _answer_saved(answer: Answer, saving: "asyncio.Future[None]") -> Answer:
    await asyncio.shield(saving)
    return answer


def _connection(client: Client) -> ClientConnection:
    return ClientConnection(
        client.client_id, client.peer.address, client.language, client.version
    )
