"""Transactions, as `AsyncAdmin.transactions`: half messages that brokers discarded."""

from cometmq.client.admin.noun import AsyncNoun
from cometmq.client.admin.queries import read_range
from cometmq.codec.host import decode_host
from cometmq.codec.message_id import decode_message_id
from cometmq.model.errors import TopicNotFound
from cometmq.model.message import StoredMessage
from cometmq.model.names import TRANS_CHECK_MAX_TIME_TOPIC


class AsyncTransactionAdmin(AsyncNoun):
    """The methods that list half messages that brokers discarded, and let them be checked again."""

    _noun = "transactions"

    async def resume(self, offset_message_id: str) -> None:
        """Make a broker check a half message again that it discarded, by its offset message id in TRANS_CHECK_MAX_TIME_TOPIC."""
        host, _offset = decode_message_id(offset_message_id)
        await self._brokers.resume_check(decode_host(host), offset_message_id)

    async def discarded(self) -> list[StoredMessage]:
        """Return the half messages that brokers discarded, for example after too many checks, by queue and offset."""
        found: list[StoredMessage] = []
        async with self._consumer() as consumer:
            try:
                queues = await consumer.queues(TRANS_CHECK_MAX_TIME_TOPIC)
            except TopicNotFound:
                return found  # Brokers create the topic with its first message.
            for queue in queues:
                first, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
                found += await read_range(consumer, queue, first, end)
        return found
