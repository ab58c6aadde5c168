"""Handlers for requests of brokers: registration of brokers and topics, version query, group members, heartbeat.

Codes 103, 104, 217, 322, 901, 904.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

from cometmq.codec.bodies.cluster import encode_member_group
from cometmq.codec.bodies.kv import encode_kv_table
from cometmq.codec.bodies.register import (
    RegisterBrokerBody,
    body_crc,
    decode_registration,
    is_packed,
    topic_size,
)
from cometmq.codec.bodies.route import decode_topic_route
from cometmq.codec.bodies.topic_config import decode_data_version, encode_data_version
from cometmq.codec.fields import decode_fields, encode_fields
from cometmq.codec.headers.nameserver import (
    BrokerHeartbeat,
    BrokerIdentity,
    DataVersionResponse,
    MemberGroupRequest,
    RegisterBroker,
)
from cometmq.codec.headers.topic import TopicRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.names import ORDER_NAMESPACE
from cometmq.model.route import QueueData
from cometmq.model.settings import SettingsInForce
from cometmq.nameserver.kv import KvConfig
from cometmq.nameserver.lookup import member_group
from cometmq.nameserver.owners import (
    OwnerLives,
    check_register,
    check_topic,
    check_unregister,
    hear,
)
from cometmq.nameserver.presence import Presence
from cometmq.nameserver.routes import BrokerKey, RouteTable, queues_told
from cometmq.nameserver.settings import NameServerSettings
from cometmq.net.answer import Answer
from cometmq.net.answering import body_of, by_fields
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers, Outcome
from cometmq.steps.steps import Done, Steps, called_back, elsewhere

_ZONE_NAME = "__ZONE_NAME"  # MixAll.ZONE_NAME, an additional header field.


# Maximum bytes of a registration decoded on the loop: some hundred topics, a few milliseconds.
_READ_AT_ONCE_MAX = 64 << 10
# Maximum bytes of a registration hashed on the loop: some thousand topics, a millisecond.
_HASHED_MAX = 1 << 20
# Maximum bytes of decoded registrations that are kept.
_KNOWN_BYTES_MAX = 64 << 20
# Memory of a decoded topic with its queues besides its texts, about, in bytes.
_TOPIC_BYTES = 500
# Maximum total bytes of registrations that wait for decoding or for another broker's answer.
WAITING_BYTES_MAX = 64 << 20


# What determines the result of `_read`: header, version of the sender, and hash of the body.
_Told = tuple[RegisterBroker, int, bytes]
_Read = tuple[RegisterBrokerBody, Mapping[str, QueueData]]


class _ReceivedRegistration(NamedTuple):
    """A decoded registration with its header, topic queues, request and connection."""

    header: RegisterBroker
    body: RegisterBrokerBody
    queues: Mapping[str, QueueData]
    command: Command
    peer: Peer


class _KnownRegistrations:
    """Cache of brokers' last decoded registrations, which the next mostly repeat; drops the least recently used.

    Registrations with filter servers or static topics, or of more than 1 MiB, are not kept.
    """

    def __init__(self) -> None:
        # With the memory of each, bytes.
        self._by_broker: OrderedDict[BrokerKey, tuple[_Told, _Read, int]] = OrderedDict()
        self._bytes = 0

    def find(self, told: _Told) -> _Read | None:
        """Return the broker's kept registration if header, sender's version and body hash are equal, else None."""
        key = _key_of(told)
        known = self._by_broker.get(key)
        if known is None or known[0] != told:
            return None
        self._by_broker.move_to_end(key)
        return known[1]

    def keep(self, told: _Told, read: _Read) -> None:
        """Replace a broker's kept registration; only drop it if the new one has filter servers or static topics.

        Beyond a limit of bytes, those that were not used for the longest time are dropped.
        """
        key = _key_of(told)
        if key in self._by_broker:
            self._bytes -= self._by_broker.pop(key)[2]
        registration = read[0]
        if registration.filter_servers or registration.queue_mappings:
            return
        topics = registration.table.topics.values()
        size = _TOPIC_BYTES + sum(_TOPIC_BYTES + 4 * topic_size(topic) for topic in topics)
        self._by_broker[key] = told, read, size
        self._bytes += size
        while self._bytes > _KNOWN_BYTES_MAX:
            self._bytes -= self._by_broker.popitem(last=False)[1][2]


class RegistrationHandlers:
    """Handlers of what brokers send: registrations, heartbeats, single topics and leaving."""

    def __init__(
        self,
        table: RouteTable,
        kv: KvConfig,
        settings: SettingsInForce[NameServerSettings],
    ) -> None:
        self._table = table
        self._kv = kv
        self._settings = settings
        self._presence = Presence()
        self._is_reading = False
        self._readers: deque[Done] = deque()  # Registrations that wait to be decoded.
        self._waiting_bytes = 0
        self._known = _KnownRegistrations()
        self.answers: Answers = {
            RequestCode.REGISTER_BROKER: self.handle_register,
            RequestCode.UNREGISTER_BROKER: self.handle_unregister,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: self.handle_register_topic,
            RequestCode.QUERY_DATA_VERSION: self.handle_query_version,
            RequestCode.GET_BROKER_MEMBER_GROUP: by_fields(
                MemberGroupRequest,
                lambda asked: member_group(table, asked.cluster_name, asked.broker_name),
                body_of(encode_member_group),
            ),
            RequestCode.BROKER_HEARTBEAT: self.handle_heartbeat,
        }

    def handle_register(self, command: Command, peer: Peer) -> Outcome:
        """Register a broker, if allowed (REGISTER_BROKER 103).

        A body over 64 KiB or a compressed one is decoded in a thread, usually unless it repeats the broker's last one.
        """
        header = decode_fields(RegisterBroker, command.fields)
        body = command.body
        told = read = None
        if len(body) <= _HASHED_MAX:
            told = header, command.version, blake2b(body).digest()
            # While one is being decoded, others wait for their turn.
            read = None if self._is_reading else self._known.find(told)
            if read is None and len(body) <= _READ_AT_ONCE_MAX and not is_packed(body, is_claimed=header.compressed):  # fmt: skip
                read = _read(header, command)
                self._known.keep(told, read)
        if read is not None:
            return self._register(_ReceivedRegistration(header, *read, command, peer))
        if self._waiting_bytes + len(body) > WAITING_BYTES_MAX:
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                f"registrations of {self._waiting_bytes} bytes are waiting to be decoded; register again soon",
            )
        return self._register_later(told, header, command, peer)

    def _register_later(
        self, told: _Told | None, header: RegisterBroker, command: Command, peer: Peer
    ) -> Steps[Answer]:
        self._waiting_bytes += len(command.body)
        try:
            if self._is_reading:  # One at a time, to keep the order and use one thread.
                yield from called_back(self._readers.append)
            self._is_reading = True
            read = yield from elsewhere(lambda: _read(header, command))
            if told is not None:
                self._known.keep(told, read)
            _check_there(peer)
            answer = self._register(_ReceivedRegistration(header, *read, command, peer))
        finally:
            self._waiting_bytes -= len(command.body)
            self._is_reading = False
            if self._readers:
                self._readers.popleft()(None, None)
        return answer if isinstance(answer, Answer) else (yield from answer)

    def _register(self, told: _ReceivedRegistration) -> Answer | Steps[Answer]:
        try:
            self._check(told)
        except OwnerLives as refused:
            if refused.owner is None:
                raise
            return self._register_after(refused, told)
        return self._accept(told)

    def _register_after(
        self, refused: OwnerLives, told: _ReceivedRegistration
    ) -> Steps[Answer]:
        """Register a broker under the name and id of another broker, the owner, if the owner does not answer.

        Raises `refused` if the owner answers, or if too many registrations or checks wait; also other RequestErrors.
        """
        owner = refused.owner
        assert owner is not None
        heard, size = owner.live.last_heard, len(told.command.body)
        if self._waiting_bytes + size > WAITING_BYTES_MAX:
            raise refused
        self._waiting_bytes += size
        try:
            answers = yield from self._presence.answers(owner.address)
        finally:
            self._waiting_bytes -= size
        if answers:
            raise refused
        _check_there(told.peer)
        try:
            self._check(told)
        except OwnerLives as again:
            if again.owner != owner or owner.live.last_heard != heard:
                raise
        return self._accept(told)

    def _check(self, told: _ReceivedRegistration) -> None:
        check_register(self._table, told.header, told.body.table.version, told.peer.ip)

    def _accept(self, told: _ReceivedRegistration) -> Answer:
        settings, peer = self._settings.current, told.peer
        master = self._table.register(
            told.header,
            told.body,
            peer,
            queues=told.queues,
            zone_name=told.command.fields.get(_ZONE_NAME),
            deletes_missing_topics=settings.deletes_missing_topics,
        )
        if self._table.drop_closed not in peer.on_close:
            peer.on_close.append(self._table.drop_closed)
        orders = self._kv.table(ORDER_NAMESPACE)
        body = b""
        if settings.is_order_config_returned and orders is not None:
            body = encode_kv_table(orders)
        return Answer(fields=encode_fields(master), body=body)

    def handle_unregister(self, command: Command, peer: Peer) -> Answer:
        """Unregister a broker if known; RequestError if another host registered its address (UNREGISTER_BROKER 104)."""
        header = decode_fields(BrokerIdentity, command.fields)
        if check_unregister(self._table, header, peer.ip):
            self._table.unregister(
                BrokerKey(header.cluster_name, header.broker_addr), header.broker_name
            )
        return Answer()

    def handle_register_topic(self, command: Command, peer: Peer) -> Answer:
        """Set a topic's queues on the brokers that a request names (REGISTER_TOPIC_IN_NAMESRV 217).

        Raises RequestError if a known broker has no member from the sender's host; changes nothing if one is unknown.
        """
        header = decode_fields(TopicRequest, command.fields)
        if command.body:
            queues = decode_topic_route(command.body).queues
            brokers = [data.broker_name for data in queues]
            check_topic(self._table, header.topic, brokers, peer.ip)
            self._table.register_topic(header.topic, queues)
        return Answer()

    def handle_query_version(self, command: Command, peer: Peer) -> Answer:
        """Return whether a broker must register again (QUERY_DATA_VERSION 322); from its host, also a heartbeat."""
        header = decode_fields(BrokerIdentity, command.fields)
        theirs = decode_data_version(command.body)
        ours = self._table.version_of(header.cluster_name, header.broker_addr)
        hear(self._table, header.cluster_name, header.broker_addr, peer.ip)
        return Answer(
            fields=encode_fields(DataVersionResponse(changed=ours != theirs)),
            body=encode_data_version(ours) if ours else b"",
        )

    def handle_heartbeat(self, command: Command, peer: Peer) -> Answer:
        """Record a broker's heartbeat if it comes from the host that registered the broker (BROKER_HEARTBEAT 904)."""
        header = decode_fields(BrokerHeartbeat, command.fields)
        hear(self._table, header.cluster_name, header.broker_addr, peer.ip)
        return Answer()


def _key_of(told: _Told) -> BrokerKey:
    return BrokerKey(told[0].cluster_name, told[0].broker_addr)


def _check_there(peer: Peer) -> None:
    if peer.is_closed:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"the connection of {peer.address} was closed before its registration was complete",
        )


def _read(header: RegisterBroker, command: Command) -> _Read:
    """Check a registration's CRC, if it has one, decode it, and return it with its queues; callable in any thread."""
    if header.body_crc32 and header.body_crc32 != body_crc(command.body):
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"crc32 not match: the body of {len(command.body)} bytes was damaged in transit",
        )
    registration = decode_registration(
        command.body, is_compressed=header.compressed, version=command.version
    )
    return registration, queues_told(header, registration)
