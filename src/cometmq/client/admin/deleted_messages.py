"""Tells messages of a deleted topic from those of the topic that has its name now.

An index keeps the keys of a deleted topic until its log files are deleted, so a look-up by key or id finds messages of both.
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
    """Return the offset message ids of messages whose place in their queue is another message's, or nobody's.

    What lies before its queue's first message has expired or is hidden by retention, and is not among them.

    Args:
        consumer: Reads the queues; no group moves.
        messages: Found by their keys or ids.

    Raises:
        CometError: A broker cannot be asked.
    """

    async def is_deleted(message: StoredMessage) -> bool:
        offset = message.queue_offset
        try:
            queues = await consumer.queues(message.topic)
        except TopicNotFound:
            return not is_system_topic(message.topic)
        if message.queue not in queues:  # Perhaps one that is not read any more.
            return offset >= await consumer.max_offset(message.queue)
        pull = await consumer.fetch(message.queue, offset, max_count=1)
        if not pull.messages:
            return offset >= pull.max_offset
        places = {each.commitlog_offset for each in pull.messages}
        return message.commitlog_offset not in places

    found = await asyncio.gather(*map(is_deleted, messages))
    pairs = zip(messages, found, strict=True)
    return {message.offset_message_id for message, is_it in pairs if is_it}
