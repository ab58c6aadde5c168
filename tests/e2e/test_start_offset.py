"""Where a new group begins that asks while somebody sends: a real broker, and the message between two questions."""

from __future__ import annotations

from cometmq.client import (
    Admin,
    AsyncProducer,
    ConsumeFrom,
    Message,
    MessageQueue,
    PushSettings,
)
from cometmq.client.api.offsets import OffsetApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.offset_store import ClusterOffsets, ConsumedProgress
from cometmq.client.consumer.start_offset import StartOffset
from cometmq.embedded import Embedded

QUEUE = MessageQueue("young", "broker-a", 0)


class Interrupted(OffsetApi):
    """Asks where a queue ends only after somebody has sent to it."""

    def __init__(self, instance: ClientInstance, producer: AsyncProducer) -> None:
        super().__init__(instance)
        self._producer = producer

    async def max_offset(self, queue: MessageQueue) -> int:
        await self._producer.send(Message(queue.topic, b"x"), queue=queue)
        return await super().max_offset(queue)


async def test_the_first_message_of_a_queue_is_not_passed_over() -> None:
    with Embedded() as cluster:
        with Admin(cluster.nameserver) as admin:
            admin.create_topic(QUEUE.topic, queues=1)
        instance = ClientInstance(cluster.nameserver)
        await instance.start()
        try:
            async with AsyncProducer(cluster.nameserver) as producer:
                offsets = Interrupted(instance, producer)
                progress = ConsumedProgress(ClusterOffsets(offsets, "new"))
                settings = PushSettings(consume_from=ConsumeFrom.LAST)
                start = StartOffset(progress, offsets, settings, instance.clock)
                assert await start.find(QUEUE) == 0
        finally:
            await instance.close()
