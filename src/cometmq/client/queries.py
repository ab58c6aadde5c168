"""Finds messages at brokers: by key, by unique id, by the id that says where a message lies.

A broker's index knows hashes only, so what it gives is compared here (MQAdminImpl.queryMessage of
RocketMQ 5.3.3 does the same).

Next: cometmq.client.received
"""

import asyncio

from cometmq.client.answer_bodies import read_body
from cometmq.client.hub import Hub
from cometmq.client.namespace import NO_NAMESPACE
from cometmq.client.received import Room, unpack
from cometmq.codec.bodies.cluster import decode_cluster_info
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.query import QueryMessageRequest, ViewMessageRequest
from cometmq.codec.host import decode_host
from cometmq.codec.message_id import decode_message_id
from cometmq.codec.record import decode_record, decode_records
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import BombError, BrokerRefused, CodecError
from cometmq.model.message import StoredMessage
from cometmq.model.queue import MessageQueue

ALL_TIME = (1 << 63) - 1  # Long.MAX_VALUE: until now, and whatever clocks say.
BODY_SIZE_MAX = (
    64 << 20
)  # Of a decompressed body, bytes; a record has at most a frame's 16 MiB.

ANSWER_SIZE_MAX = 256 << 20  # Of all decompressed bodies of an answer, bytes.


class MessageQueries:
    """Asks brokers for messages. Its methods raise what `Hub.ask` raises, and CodecError."""

    def __init__(self, hub: Hub) -> None:
        """Over this hub's connections."""
        self._hub = hub

    async def by_key(
        self, topic: str, key: str, *, count_max: int, begin_ms: int, end_ms: int | None
    ) -> list[StoredMessage]:
        """Messages with a word in their KEYS, from all brokers of the topic, the oldest first."""
        end_ms = ALL_TIME if end_ms is None else end_ms
        request = QueryMessageRequest(topic, key, count_max, begin_ms, end_ms)
        found = [
            message
            for message in await self._ask_all(request)
            if message.topic == topic and key in message.keys
        ]
        return found[-count_max:] if count_max > 0 else []

    async def by_unique_id(self, topic: str, unique_id: str) -> StoredMessage | None:
        """The newest message with the id that its producer gave it."""
        request = QueryMessageRequest(topic, unique_id, 32, 0, ALL_TIME, "true")
        found = [
            message
            for message in await self._ask_all(request)
            if message.message_id == unique_id
        ]
        return found[-1] if found else None

    async def view(self, offset_message_id: str) -> StoredMessage:
        """The message that lies where an offset message id says."""
        host, offset = decode_message_id(offset_message_id)
        address = decode_host(host)
        command = Command(
            RequestCode.VIEW_MESSAGE_BY_ID, fields=encode_fields(ViewMessageRequest(offset))
        )
        answer = await self._hub.ask(address, command)
        name = await self._name_of(address)
        return await asyncio.to_thread(_unpack, answer.body, name)

    async def _ask_all(self, request: QueryMessageRequest) -> list[StoredMessage]:
        """Ask every broker of the topic; by store time, the oldest first."""
        brokers = (await self._hub.nameservers.route(request.topic)).brokers
        command = Command(RequestCode.QUERY_MESSAGE, fields=encode_fields(request))
        addresses = [
            (broker.broker_name, address)
            for broker in brokers
            if (address := broker.master_or_any()) is not None
        ]
        answers = await asyncio.gather(
            *(self._ask(name, address, command) for name, address in addresses)
        )
        found = [message for answer in answers for message in answer]
        return sorted(found, key=lambda message: message.stored_ms)

    async def _ask(self, name: str, address: str, command: Command) -> list[StoredMessage]:
        try:
            answer = await self._hub.ask(address, command)
        except BrokerRefused as refused:
            if refused.code == ResponseCode.QUERY_NOT_FOUND:
                return []
            raise
        return await asyncio.to_thread(_unpack_all, answer.body, name, address)

    async def _name_of(self, address: str) -> str:
        """The broker that has this address; the address itself where nobody knows it."""
        answer = await self._hub.nameservers.ask(Command(RequestCode.GET_BROKER_CLUSTER_INFO))
        info = await read_body(decode_cluster_info, answer.body, "the cluster's brokers")
        for broker in info.brokers.values():
            if address in broker.addresses.values():
                return broker.broker_name
        return address


def is_offset_message_id(message_id: str) -> bool:
    """Whether an id may be one that says where a message lies."""
    try:
        decode_message_id(message_id)
    except CodecError:
        return False
    return True


def _unpack_all(content: bytes, broker_name: str, address: str) -> list[StoredMessage]:
    """The messages of an answer.

    Raises:
        CodecError: one cannot be read, or their bodies unpack to more than ANSWER_SIZE_MAX.
    """
    room, messages = Room(ANSWER_SIZE_MAX), []
    for record in decode_records(content):
        queue = MessageQueue(record.topic, broker_name, record.queue_id)
        message = room.unpack(
            record, queue, body_size_max=BODY_SIZE_MAX, namespace=NO_NAMESPACE
        )
        if message is None:
            raise BombError(
                f"the messages of an answer of {address} unpack to more than {ANSWER_SIZE_MAX} "
                "bytes; ask for fewer of them (count_max)"
            )
        messages.append(message)
    return messages


def _unpack(content: bytes, broker_name: str) -> StoredMessage:
    record = decode_record(content)
    queue = MessageQueue(record.topic, broker_name, record.queue_id)
    return unpack(record, queue, body_size_max=BODY_SIZE_MAX)
