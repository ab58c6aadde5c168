"""Requests of and about clients: heartbeats, lists, queue locks, conflicts (34, 35, 38, 41, 42, 203, 204, 328, and own codes)."""

from collections.abc import Callable

from cometmq.broker.members.client_connections import ClientConnections
from cometmq.broker.members.guards import Guards
from cometmq.broker.members.heartbeats import HeartbeatResult, Heartbeats
from cometmq.broker.members.member_locks import LockResult, MemberLocks
from cometmq.broker.parts import Parts
from cometmq.broker.tables.members import Client
from cometmq.codec.bodies.conflicts import encode_conflicts
from cometmq.codec.bodies.connection import (
    encode_all_producers,
    encode_consumer_connections,
    encode_consumer_ids,
    encode_producer_connections,
)
from cometmq.codec.bodies.heartbeat import decode_heartbeat
from cometmq.codec.bodies.lock import decode_lock_request, encode_locked, encode_locks_file
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.client import (
    ConsumerGroupRequest,
    MaybeGroupRequest,
    ProducerGroupRequest,
    UnregisterClient,
)
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.rights import Asker
from cometmq.net.answer import Answer
from cometmq.net.answering import at_once_or_later, body_of, by_code, by_fields
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers, Outcome, WithAsker
from cometmq.steps.steps import Steps


class ClientHandler:
    """Handles heartbeats and leaving of clients, queue locks, and requests for lists of clients."""

    def __init__(self, parts: Parts, *, announce: Callable[[float], Steps[None]]) -> None:
        """`announce` registers topics; waits for the reachable nameservers, at most the given number of seconds."""
        self._members, self._clock = parts.members, parts.clock
        self._heartbeats, self._locks = Heartbeats(parts, announce=announce), MemberLocks(parts)
        connections = ClientConnections(parts)
        self.answers: Answers = {
            RequestCode.HEART_BEAT: WithAsker(self._heartbeat),
            RequestCode.UNREGISTER_CLIENT: self._unregister,
            RequestCode.LOCK_BATCH_MQ: WithAsker(self._lock),
            RequestCode.UNLOCK_BATCH_MQ: WithAsker(self._unlock),
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: by_fields(
                ConsumerGroupRequest,
                lambda request: connections.consumer_ids(request.consumer_group),
                body_of(encode_consumer_ids),
            ),
            RequestCode.GET_CONSUMER_CONNECTION_LIST: by_fields(
                ConsumerGroupRequest,
                lambda request: connections.consumers(request.consumer_group),
                body_of(encode_consumer_connections),
            ),
            RequestCode.GET_PRODUCER_CONNECTION_LIST: by_fields(
                ProducerGroupRequest,
                lambda request: connections.producers(request.producer_group),
                body_of(encode_producer_connections),
            ),
            RequestCode.GET_ALL_PRODUCER_INFO: by_code(
                connections.all_producers, body_of(encode_all_producers)
            ),
        }

    def _heartbeat(self, command: Command, peer: Peer, asker: Asker) -> Outcome:
        """Register a client in its groups, except missing ones that are not created; answer why if one is refused."""
        heartbeat = decode_heartbeat(command.body)
        client = Client(
            heartbeat.client_id,
            peer,
            asker,
            command.language,
            command.version,
            self._clock.monotonic(),
        )
        return at_once_or_later(self._heartbeats.take(heartbeat, client), _heard)

    def _unregister(self, command: Command, peer: Peer) -> Answer:
        """Remove this connection's client from the named producer group, consumer group or both."""
        request = decode_fields(UnregisterClient, command.fields)
        self._members.unregister(
            peer,
            producer_group=request.producer_group,
            consumer_group=request.consumer_group,
        )
        return Answer()

    def _lock(self, command: Command, _peer: Peer, asker: Asker) -> Outcome:
        """Lock or renew queues for a consumer, and return those for which that succeeded."""
        request = decode_lock_request(command.body)
        self._members.check_owner(request.client_id, asker)
        return at_once_or_later(self._locks.lock(request), _locked)

    def _unlock(self, command: Command, _peer: Peer, asker: Asker) -> Answer:
        """Release a consumer's locks on the named queues."""
        request = decode_lock_request(command.body)
        self._members.check_owner(request.client_id, asker)
        self._locks.unlock(request)
        return Answer()


def _heard(result: HeartbeatResult) -> Answer:
    if result.refusal is not None:
        return Answer(result.refusal.code, result.refusal.remark, result.refusal.fields)
    changed = "true" if result.is_changed else "false"
    return Answer(fields={"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": changed})


def _locked(result: LockResult) -> Answer:
    missing = result.missing_count
    remark = f"this broker does not have {missing} of these queues" if missing else None
    return Answer(remark=remark, body=encode_locked(result.obtained))


def guard_answers(guards: Guards) -> Answers:
    """Return, by code, the handlers of requests for conflicts in consumer groups and for the holders of queue locks."""
    return {
        RequestCode.GET_GROUP_CONFLICTS: by_fields(
            MaybeGroupRequest,
            lambda request: guards.conflicts(request.consumer_group),
            body_of(encode_conflicts),
        ),
        RequestCode.GET_QUEUE_LOCKS: by_fields(
            MaybeGroupRequest,
            lambda request: guards.locks(request.consumer_group),
            lambda held: Answer(body=encode_locks_file(held).encode()),
        ),
    }
