"""Requests of and about clients: heartbeats, members, connections, queue locks (34, 35, 38, 41, 42, 203, 204, 328)."""

from collections.abc import Callable

from cometmq.broker.members.client_connections import ClientConnections
from cometmq.broker.members.heartbeats import HeartbeatResult, Heartbeats
from cometmq.broker.members.member_locks import LockResult, MemberLocks
from cometmq.broker.parts import Parts
from cometmq.broker.tables.members import Client
from cometmq.codec.bodies.connection import (
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
from cometmq.model.codes import RequestCode
from cometmq.model.rights import Asker
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers, Outcome, WithAsker
from cometmq.steps.steps import Steps


class ClientHandler:
    """Handles heartbeats and leaving of clients, queue locks, and requests for lists of clients."""

    def __init__(self, parts: Parts, *, announce: Callable[[float], Steps[None]]) -> None:
        """`announce` registers topics at the reachable nameservers, and waits at most so many seconds for them."""
        self._members, self._clock = parts.members, parts.clock
        self._heartbeats = Heartbeats(parts, announce=announce)
        self._connections = ClientConnections(parts)
        self._locks = MemberLocks(parts)
        self.answers: Answers = {
            RequestCode.HEART_BEAT: WithAsker(self.heartbeat),
            RequestCode.UNREGISTER_CLIENT: self.unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.consumer_ids,
            RequestCode.LOCK_BATCH_MQ: WithAsker(self.lock),
            RequestCode.UNLOCK_BATCH_MQ: WithAsker(self.unlock),
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumer_connections,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producer_connections,
            RequestCode.GET_ALL_PRODUCER_INFO: self.all_producers,
        }

    def heartbeat(self, command: Command, peer: Peer, asker: Asker) -> Outcome:
        """Register a client in its groups, except missing ones that are not created; return an error if one is refused (HEART_BEAT 34)."""
        heartbeat = decode_heartbeat(command.body)
        client = Client(
            heartbeat.client_id,
            peer,
            asker,
            command.language,
            command.version,
            self._clock.monotonic(),
        )
        result = self._heartbeats.take(heartbeat, client)
        if isinstance(result, HeartbeatResult):
            return _answer_heartbeat(result)
        return _answer_heartbeat_later(result)

    def unregister(self, command: Command, peer: Peer) -> Answer:
        """Remove this connection's client from the named producer group, consumer group or both (UNREGISTER_CLIENT 35)."""
        request = decode_fields(UnregisterClient, command.fields)
        self._members.unregister(
            peer,
            producer_group=request.producer_group,
            consumer_group=request.consumer_group,
        )
        return Answer()

    def consumer_ids(self, command: Command, _peer: Peer) -> Answer:
        """Return the client ids of a group's consumers, or an error without any (GET_CONSUMER_LIST_BY_GROUP 38)."""
        group = decode_fields(ConsumerGroupRequest, command.fields).consumer_group
        return Answer(body=encode_consumer_ids(self._connections.consumer_ids(group)))

    def consumer_connections(self, command: Command, _peer: Peer) -> Answer:
        """Return the members of a consumer group, or an error without any (GET_CONSUMER_CONNECTION_LIST 203)."""
        group = decode_fields(ConsumerGroupRequest, command.fields).consumer_group
        return Answer(body=encode_consumer_connections(self._connections.consumers(group)))

    def producer_connections(self, command: Command, _peer: Peer) -> Answer:
        """Return the producers of a group, or an error without any (GET_PRODUCER_CONNECTION_LIST 204)."""
        group = decode_fields(ProducerGroupRequest, command.fields).producer_group
        return Answer(body=encode_producer_connections(self._connections.producers(group)))

    def all_producers(self, _command: Command, _peer: Peer) -> Answer:
        """Return the producers of all groups (GET_ALL_PRODUCER_INFO 328)."""
        return Answer(body=encode_all_producers(self._connections.all_producers()))

    def lock(self, command: Command, _peer: Peer, asker: Asker) -> Outcome:
        """Lock or renew queues for a consumer, and return those for which that succeeded (LOCK_BATCH_MQ 41)."""
        request = decode_lock_request(command.body)
        self._members.check_owner(request.client_id, asker)
        result = self._locks.lock(request)
        if isinstance(result, LockResult):
            return _answer_lock(result)
        return _answer_lock_later(result)

    def unlock(self, command: Command, _peer: Peer, asker: Asker) -> Answer:
        """Release a consumer's locks on the named queues (UNLOCK_BATCH_MQ 42)."""
        request = decode_lock_request(command.body)
        self._members.check_owner(request.client_id, asker)
        self._locks.unlock(request)
        return Answer()


def _answer_heartbeat(result: HeartbeatResult) -> Answer:
    if result.refusal is not None:
        return Answer(result.refusal.code, result.refusal.remark, result.refusal.fields)
    changed = "true" if result.is_changed else "false"
    return Answer(fields={"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": changed})


def _answer_heartbeat_later(result: Steps[HeartbeatResult]) -> Steps[Answer]:
    return _answer_heartbeat((yield from result))


def _answer_lock(result: LockResult) -> Answer:
    missing = result.missing_count
    remark = f"this broker does not have {missing} of these queues" if missing else None
    return Answer(remark=remark, body=encode_locked(result.obtained))


def _answer_lock_later(result: Steps[LockResult]) -> Steps[Answer]:
    return _answer_lock((yield from result))
