"""Distinguishes messages of a deleted topic from those of a new topic with the same name.

An index may still have the keys of a deleted topic, so a search by key or id may find messages of both.
"""

import asyncio
from collections.abc import Sequence

from cometmq.client.consumer.pull.pull_consumer import AsyncPullConsumer
from cometmq.model.errors import TopicNotFound
from cometmq.model.message import StoredMessage
from cometmq.model.names import is_system_topic


async def deleted_messages(
    consumer: AsyncPullConsumer, messages: Sequence[StoredMessage]
) -> set[str]:
    """Return the offset message ids of the messages whose offset in the queue now has another message or none.

    Messages of a topic without a route are included, except those of system topics. Messages before their queue's first
    offset, and those before the end of an unreadable queue, are normally not. `consumer` reads the queues without
    changing offsets. Raises CometError if a broker cannot be queried.
    """

    async def is_deleted(message: StoredMessage) -> bool:
        offset = message.queue_offset
        try:
            queues = await consumer.queues(message.topic)
        except TopicNotFound:
            return not is_system_topic(message.topic)
        if message.queue not in queues:  # The queue may have become unreadable.
            return offset >= await consumer.max_offset(message.queue)
        pull = await consumer.fetch(message.queue, offset, max_count=1)
        if not pull.messages:
            return offset >= pull.max_offset
        places = {each.commitlog_offset for each in pull.messages}
        return message.commitlog_offset not in places

    found = await asyncio.gather(*map(is_deleted, messages))
    pairs = zip(messages, found, strict=True)
    return {message.offset_message_id for message, is_it in pairs if is_it}
