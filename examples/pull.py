"""Read messages when you want them: by queue and offset, by time, or as an async loop.

Start a broker first (`cometmq up`) and send something (`python -m examples.producer`), then
`python -m examples.pull [NAMESERVER]`.
"""

import asyncio
import sys
import time

from cometmq import AsyncPullConsumer, ConsumeFrom, PullConsumerSettings

NAMESERVER = sys.argv[1] if len(sys.argv) > 1 else None  # None: NAMESRV_ADDR, or localhost.
COUNT = 10


async def main() -> None:
    """Look at what is there, then receive ten messages and remember where we stood."""
    settings = PullConsumerSettings(consume_from=ConsumeFrom.FIRST)
    async with AsyncPullConsumer(NAMESERVER, group="reports", settings=settings) as consumer:
        for queue in await consumer.queues("orders"):
            first, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
            an_hour_ago = int((time.time() - 3600) * 1000)
            recent = await consumer.offset_by_time(queue, an_hour_ago)
            print(f"{queue}: {end - first} messages, {end - recent} of the last hour")
            for message in (await consumer.fetch(queue, first, max_count=2)).messages:
                print("  ", message)

        consumer.subscribe("orders")
        left = COUNT
        async for message in consumer:
            print(message.tag, message.keys, message.body)
            left -= 1
            if not left:
                break  # The next run begins behind this one.


if __name__ == "__main__":
    asyncio.run(main())
