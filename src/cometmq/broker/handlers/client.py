"""Clients: heartbeats, leaving, who else is there, and the locks of those who consume in order.

Follows ClientManageProcessor, ConsumerManageProcessor and AdminBrokerProcessor of RocketMQ 5.3.3.

Next: cometmq.broker.members
"""

import asyncio
from collections.abc import Awaitable

from cometmq.broker.groups import Groups
from cometmq.broker.locks import QueueLocks
from cometmq.broker.members import Client, Members
from cometmq.broker.topics import Topics
from cometmq.codec.bodies.connection import (
    ClientConnection,
    ConsumerConnections,
    encode_all_producers,
    encode_consumer_connections,
    encode_producer_connections,
)
from cometmq.codec.bodies.consumer import encode_consumer_ids
from cometmq.codec.bodies.heartbeat import decode_heartbeat
from cometmq.codec.bodies.lock import decode_lock_request, encode_locked
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.client import (
    ConsumerGroupRequest,
    ProducerGroupRequest,
    UnregisterClient,
)
from cometmq.codec.remoting import Command
from cometmq.model.clock import Clock
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.flags import PERM_READ_WRITE
from cometmq.model.names import is_system_group, length_fault, retry_topic
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer


class ClientHandler:
    """Handles requests of and about clients."""

    def __init__(
        self,
        *,
        members: Members,
        groups: Groups,
        topics: Topics,
        locks: QueueLocks,
        clock: Clock,
    ) -> None:
        self._members = members
        self._groups = groups
        self._topics = topics
        self._locks = locks
        self._clock = clock

    def heartbeat(self, command: Command, peer: Peer) -> Answer:
        """HEART_BEAT 34."""
        heartbeat = decode_heartbeat(command.body)
        client = Client(
            heartbeat.client_id,
            peer,
            command.language,
            command.version,
            self._clock.monotonic(),
        )
        is_changed = False
        for part in heartbeat.consumers:
            group = self._groups.get(part.group)
            if group is None:
                continue  # Follows RocketMQ 5.x: the group may not be made, so it is passed over.
            name = retry_topic(part.group)
            # A group whose retry topic could have no directory consumes; what it gives back is refused.
            if not is_system_group(part.group) and length_fault(name) is None:
                self._topics.ensure(name, queues=group.retry_queues, perm=PERM_READ_WRITE)
            is_changed |= self._members.register_consumer(
                part, client, is_without_subscriptions=heartbeat.is_without_subscriptions
            )
        for producer in heartbeat.producers:
            self._members.register_producer(producer.group, client)
        # With heartbeat V2 a client that hears of a change sends its subscriptions again.
        changed = "true" if is_changed or not heartbeat.fingerprint else "false"
        return Answer(fields={"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": changed})

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
        obtained, saving = self._locks.lock(
            request.queues, group=request.group, client_id=request.client_id
        )
        answer = Answer(body=encode_locked(obtained))
        return answer if saving is None else _answer_saved(answer, saving)

    def unlock(self, command: Command, _peer: Peer) -> Answer:
        """UNLOCK_BATCH_MQ 42."""
        request = decode_lock_request(command.body)
        self._locks.unlock(request.queues, group=request.group, client_id=request.client_id)
        return Answer()


async def _answer_saved(answer: Answer, saving: "asyncio.Future[None]") -> Answer:
    await asyncio.shield(saving)
    return answer


def _connection(client: Client) -> ClientConnection:
    return ClientConnection(
        client.client_id, client.peer.address, client.language, client.version
    )
