"""Search for messages at brokers: by key, by unique id, or by offset message id.

An index contains only hashes, so results are filtered here (like MQAdminImpl.queryMessage of RocketMQ 5.3.3).
"""

import asyncio

from cometmq.client.api.asking import all_of, side_by_side
from cometmq.client.api.messages import ALL_TIME, MessageApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.pull.pull_consumer import AsyncPullConsumer
from cometmq.client.consumer.pull.received import UnpackedRoom, unpack
from cometmq.codec.host import decode_host
from cometmq.codec.message_id import decode_message_id
from cometmq.codec.record import decode_record, decode_records
from cometmq.model.errors import BombError, BrokerNotFound, CodecError
from cometmq.model.message import StoredMessage
from cometmq.model.namespace import NO_NAMESPACE
from cometmq.model.queue import MessageQueue

BODY_SIZE_MAX = (
    64 << 20
)  # Of a decompressed body, bytes; a record has at most a frame's 16 MiB.

_PULLED_MAX = 32  # A broker returns at most so many messages at a time by default.

ANSWER_SIZE_MAX = 256 << 20  # All decompressed bodies of an answer, bytes.


class MessageQueries:
    """Searches brokers for messages; methods raise TopicNotFound, BrokerNotFound, NetError, BrokerRefused, CodecError."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._api = MessageApi(instance)

    async def by_unique_id(self, topic: str, unique_id: str) -> StoredMessage | None:
        """Return the newest message with an id that its producer assigned, or None."""
        found = await self.all_by_unique_id(topic, unique_id)
        return found[-1] if found else None

    async def all_by_unique_id(self, topic: str, unique_id: str) -> list[StoredMessage]:
        """Return the messages with an id that a producer assigned, by default up to 32 of each broker, the oldest first.

        There may be several, because retries and replays keep the id.
        """
        return [
            message
            for message in await self.ask_all(topic, unique_id, max_count=32, is_id=True)
            if message.message_id == unique_id
        ]

    async def view(self, offset_message_id: str) -> StoredMessage:
        """Return the message at the place that an offset message id contains: a broker's address and a physical offset.

        Raises BrokerNotFound, without connecting to it, if the address is no registered broker's: producers choose the
        unique ids of messages, and these may have the same form.
        """
        host, offset = decode_message_id(offset_message_id)
        address = decode_host(host)
        name = await self._name_of(address)
        record = await self._api.view(address, offset)
        return await asyncio.to_thread(_unpack, record, name)

    async def ask_all(
        self,
        topic: str,
        key: str,
        *,
        max_count: int,
        begin_ms: int = 0,
        end_ms: int = ALL_TIME,
        is_id: bool = False,
    ) -> list[StoredMessage]:
        """Return what the index of each broker of a topic has for a key or id, the oldest first; hashes may coincide.

        Args:
            topic: Full name of the topic.
            key: A key, or with `is_id` the id that a producer assigned.
            max_count: Maximum number of messages of each broker; it returns at most 64 (`maxMsgsNumBatch`).
            begin_ms: Only messages stored at or after this time, ms since 1970.
            end_ms: Only messages stored at or before this time, ms since 1970.
            is_id: Whether `key` is an id.
        """

        async def ask(broker: tuple[str, str]) -> list[StoredMessage]:
            name, address = broker
            found = await self._api.find(
                address, topic, key,
                max_count=max_count, begin_ms=begin_ms, end_ms=end_ms, is_id=is_id,
            )  # fmt: skip
            if found is None:
                return []
            return await asyncio.to_thread(_unpack_all, found.records, name, address)

        addresses = [
            (broker.broker_name, address)
            for broker in (await self._instance.nameserver_api.route(topic)).brokers
            if (address := broker.master_or_any()) is not None
        ]
        answers = all_of(await side_by_side(ask, addresses))
        found = [message for answer in answers for message in answer]
        return sorted(found, key=lambda message: message.stored_ms)

    async def _name_of(self, address: str) -> str:
        for broker in (await self._instance.nameserver_api.cluster()).brokers.values():
            if address in broker.addresses.values():
                return broker.broker_name
        raise BrokerNotFound(f"{address}, which the message id names, is no registered broker")


def is_offset_message_id(message_id: str) -> bool:
    """Return whether an id has the format of an offset message id."""
    try:
        decode_message_id(message_id)
    except CodecError:
        return False
    return True


async def read_range(
    consumer: AsyncPullConsumer, queue: MessageQueue, begin: int, end: int
) -> list[StoredMessage]:
    """Return the messages of a queue from the offset `begin` up to, but not including, `end`, as far as there are any."""
    found: list[StoredMessage] = []
    while begin < end:
        pull = await consumer.fetch(queue, begin, max_count=min(end - begin, _PULLED_MAX))
        found += (each for each in pull.messages if each.queue_offset < end)
        if pull.next_offset <= begin:
            break
        begin = pull.next_offset
    return found


def _unpack_all(content: bytes, broker_name: str, address: str) -> list[StoredMessage]:
    """Convert the records of an answer to messages; raise CodecError if one is malformed or bodies are too large."""
    room, messages = UnpackedRoom(ANSWER_SIZE_MAX), []
    for record in decode_records(content):
        queue = MessageQueue(record.topic, broker_name, record.queue_id)
        message = room.unpack(
            record, queue, body_size_max=BODY_SIZE_MAX, namespace=NO_NAMESPACE
        )
        if message is None:
            raise BombError(
                f"the messages of an answer of {address} decompress to more than {ANSWER_SIZE_MAX} "
                "bytes; request fewer messages (max_count)"
            )
        messages.append(message)
    return messages


def _unpack(content: bytes, broker_name: str) -> StoredMessage:
    record = decode_record(content)
    queue = MessageQueue(record.topic, broker_name, record.queue_id)
    return unpack(record, queue, body_size_max=BODY_SIZE_MAX)
