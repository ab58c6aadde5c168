"""`kill -9` of a broker while messages are popped: none is lost, none comes early, none that is done comes again."""

import asyncio
import random
import time
from pathlib import Path

from cometmq import (
    AsyncProducer,
    AsyncSimpleConsumer,
    Message,
    SimpleConsumerSettings,
    StoredMessage,
)
from cometmq.client.consumer.pop.pops import receipt_of
from cometmq.model.errors import ClientError, NetError
from tests.support import processes

TOPIC, COUNT, KILLS = "Popped", 600, 2
INVISIBLE_MS = 3_000
# Acknowledgements are on record 100 ms after they are answered; the rest is for a busy machine.
ON_RECORD_SECONDS = 1.0


class Book:
    """What a consumer saw."""

    def __init__(self) -> None:
        self.done_at: dict[bytes, float] = {}
        self.popped_ms: dict[bytes, list[int]] = {}
        self.kills: list[float] = []
        self.chance = random.Random(5)

    async def work(self, consumer: AsyncSimpleConsumer) -> None:
        """Receive once; acknowledge two thirds of it."""
        for message in await consumer.receive(32, wait_ms=500):
            self.note(message)
            if self.chance.random() < 0.66 or message.reconsume_times:
                await consumer.ack(message)
                if time.time() * 1000 < receipt_of(message).pop_time_ms + INVISIBLE_MS:
                    self.done_at[message.body] = time.monotonic()
                # Else this machine stood still, and the message may be with the next one already.

    def note(self, message: StoredMessage) -> None:
        done = self.done_at.get(message.body)
        assert done is None or self.was_killed_soon_after(done), f"{message} was done"
        times = self.popped_ms.setdefault(message.body, [])
        popped_ms = receipt_of(message).pop_time_ms
        assert not times or popped_ms >= times[-1] + INVISIBLE_MS, f"{message} came early"
        times.append(popped_ms)

    def was_killed_soon_after(self, done: float) -> bool:
        return any(0 < kill - done < ON_RECORD_SECONDS for kill in self.kills)


async def send_all(names: str) -> None:
    async with AsyncProducer(names) as producer:
        await asyncio.gather(
            *(producer.send(Message(TOPIC, b"%d" % number)) for number in range(COUNT))
        )


async def work_until(names: str, book: Book, is_over) -> None:
    settings = SimpleConsumerSettings(invisible_ms=INVISIBLE_MS)
    async with AsyncSimpleConsumer(
        names, group="g", subscriptions=[TOPIC], settings=settings
    ) as consumer:
        async with asyncio.timeout(60):
            while not is_over():
                try:
                    await book.work(consumer)
                except (ClientError, NetError):
                    await asyncio.sleep(0.1)


def test_nothing_popped_is_lost_or_early_over_kills(tmp_path: Path):
    book = Book()
    with processes.nameserver(tmp_path / "names") as names:

        def start() -> processes.Program:
            return processes.broker(tmp_path / "broker", names.address).start()

        for kill in range(KILLS):
            with start() as broker:
                if not kill:
                    asyncio.run(send_all(names.address))
                wanted = len(book.done_at) + COUNT // 4
                asyncio.run(
                    work_until(names.address, book, lambda n=wanted: len(book.done_at) >= n)
                )
                broker.kill()
                book.kills.append(time.monotonic())
        with start():
            asyncio.run(work_until(names.address, book, lambda: len(book.done_at) >= COUNT))
            quiet = time.monotonic() + INVISIBLE_MS / 1000 + 1
            asyncio.run(work_until(names.address, book, lambda: time.monotonic() > quiet))
    assert len(book.done_at) == COUNT
    again = sum(len(times) > 1 for times in book.popped_ms.values())
    assert again >= COUNT // 10, "the test must see messages come again"
