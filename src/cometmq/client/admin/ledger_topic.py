"""The stored replay ledger of a group, a log of claims on dead letters: one queue of a topic, read and appended to."""

from collections.abc import Collection

from cometmq.client.admin.replay_ledger import (
    Entry,
    LetterId,
    Renewal,
    ReplayLedger,
    decode_entry,
    encode_entry,
)
from cometmq.client.api.broker import BrokerApi
from cometmq.client.api.offsets import OffsetApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.pull.queue_reader import AsyncQueueReader
from cometmq.client.consumer.pull.received import unpack
from cometmq.client.identity import make_unique_ids
from cometmq.client.producer.encoded_send import SendEncoder
from cometmq.client.producer.queue_selector import only
from cometmq.client.producer.sender import EncodedSender
from cometmq.client.settings import ProducerSettings
from cometmq.codec.record import decode_records
from cometmq.model.errors import CodecError, TopicNotFound
from cometmq.model.message import Message
from cometmq.model.names import INNER_PRODUCER_GROUP, REPLAY_LEDGER_PREFIX, check_topic
from cometmq.model.queue import MessageQueue

_BODY_SIZE_MAX = 4 << 20
_SEND_TIMEOUT_MS = 8_000


class LedgerTopic:
    """The replay ledger of one group: which dead letters were replayed or are being replayed.

    Attributes:
        state: State after the entries that were read.
        encoder: Encodes what is sent, entries and copies of dead letters.
        sender: Sends it, in at most 8 s.

    Args:
        group: Group of the dead letters.
        only: Keep only the state of these dead letters; None: of all.
    """

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        *,
        only: Collection[LetterId] | None = None,
    ) -> None:
        self.state = ReplayLedger(only)
        self._topic = REPLAY_LEDGER_PREFIX + group
        self._instance = instance
        settings = ProducerSettings(send_timeout_ms=_SEND_TIMEOUT_MS)
        ids = make_unique_ids(instance.ip, instance.clock, instance.chance)
        self.encoder = SendEncoder(INNER_PRODUCER_GROUP, settings, instance.clock, ids)
        self.sender = EncodedSender(instance, settings)
        self._offsets = OffsetApi(instance)
        self._queue: MessageQueue | None = None
        self._reader: AsyncQueueReader | None = None
        self._next = 0
        self._own: tuple[bytes, Entry] = b"", Renewal("", ())  # The last entry written.

    async def open(self, reader: AsyncQueueReader, *, is_made: bool) -> None:
        """Find the ledger's topic, create it if it is missing and `is_made`, and read it; `reader` is also used later.

        If it is missing and not created, the ledger stays empty. Raises RequestError if the name of the group is too
        long for the topic's name, BrokerNotFound if no master can create it, and other CometErrors.
        """
        check_topic(self._topic)
        self._reader = reader
        try:
            route = await self._instance.nameserver_api.route(self._topic)
            name = min(each.broker_name for each in route.queues)
        except TopicNotFound:
            if not is_made:
                return
            masters = await self._instance.nameserver_api.masters()
            name = min(masters)
            await BrokerApi(self._instance).change_topic(
                masters[name],
                self._topic,
                {"read_queues": 1, "write_queues": 1},
                is_made=True,
            )
        self._queue = MessageQueue(self._topic, name, 0)
        await self._instance.fresh(self._topic)
        self._next = await self._offsets.min_offset(self._queue)
        await self.read()

    async def write(self, entry: Entry) -> None:
        """Append an entry to the open ledger's topic and read up to it; after a CometError it may or may not be stored."""
        assert self._queue is not None, "a dry run writes nothing"
        content = encode_entry(entry)
        self._own = content, entry
        encoded = self.encoder.pack(Message(self._topic, content))
        result = await self.sender.start(encoded, only(self._queue, self._topic), None)
        while self._next <= result.queue_offset:
            await self.read()

    async def read(self) -> None:
        """Read the entries that any program appended since the last read, and update `state`; do nothing without a topic."""
        if self._queue is None:
            return
        assert self._reader is not None, "`open` was there"
        end = await self._offsets.max_offset(self._queue)
        async for pull in self._reader.read(self._queue, self._next, end):
            for record in decode_records(pull.body):
                message = unpack(record, self._queue, body_size_max=_BODY_SIZE_MAX)
                self._take(bytes(message.body), message.stored_ms)
            self._next = max(self._next, pull.next_offset)

    def _take(self, content: bytes, stored_ms: int) -> None:
        try:
            # The entry that was just written is read again for its position among the others, and need not be decoded.
            entry = self._own[1] if content == self._own[0] else decode_entry(content)
        except CodecError as error:
            raise CodecError(
                f"topic {self._topic} has a message that no replay wrote: {error}; find the program that sends to it"
            ) from None
        self.state.take(entry, stored_ms)
