"""Ranges of queues and the positions of many queues, with both faces of the queue reader."""

from typing import assert_type

from cometmq import Message, MessageQueue, Producer
from cometmq.connect import AsyncQueueReader, QueueReader
from cometmq.errors import CometError, TopicNotFound


def blocking(nameserver: str) -> None:
    """Read a queue from its first to its last message."""
    with Producer(nameserver) as producer:
        sent = producer.send(Message("typed", b"1"))
    with QueueReader(nameserver, group="typed_reader") as reader:
        assert_type(reader.topics(), list[str])
        found = reader.queues(["typed"])["typed"]
        assert not isinstance(found, TopicNotFound)
        ends = reader.max_offsets(found.readable)
        assert_type(ends, dict[MessageQueue, int | CometError])
        end = ends[sent.queue]
        if not isinstance(end, CometError):
            for pull in reader.read(sent.queue, sent.queue_offset, end):
                assert_type(pull.next_offset, int)


async def with_asyncio(nameserver: str) -> None:
    """The same, awaited."""
    async with AsyncQueueReader(nameserver, group="typed_reader") as reader:
        (found,) = (await reader.queues(["typed"])).values()
        if not isinstance(found, TopicNotFound):
            starts = await reader.min_offsets(found.readable)
            assert_type(starts, dict[MessageQueue, int | CometError])
            queue = found.readable[0]
            async for pull in reader.read(queue, 0, 1):
                assert pull.next_offset >= 0
