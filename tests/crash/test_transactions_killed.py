"""`kill -9` of a broker among open transactions: each is committed once, or never, and none is forgotten.

A producer opens transactions without a pause; a third it commits, a third it rolls back, a third it leaves to the
check. The broker is killed again and again in the middle and starts on the same store. In the end everything must be
as the producer's books say, once.
"""

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cometmq import AsyncProducer, Message, ProducerSettings, StoredMessage, TransactionState
from cometmq.model.errors import CometError
from tests.support import processes
from tests.support.load import read_queue

TOPIC = "Settled"
ROUNDS = 6
AT_ONCE = 20
ENDED_BEFORE_KILL = 150
SETTINGS = {
    "transactionTimeOut": 0,
    "transactionCheckInterval": 100,
    # 30 s: a producer may look for a broker that is away for some seconds, and is asked in vain meanwhile.
    "transactionCheckMax": 300,
    "defaultTopicQueueNums": 1,
}


def state_of(number: int) -> TransactionState:
    """What the books say: of those that are left to the check every second one counts."""
    if number % 3 == 2:
        is_good = number % 2 == 0
        return TransactionState.COMMIT if is_good else TransactionState.ROLLBACK
    return TransactionState.COMMIT if number % 3 == 0 else TransactionState.ROLLBACK


class Books:
    """The producer's side."""

    def __init__(self) -> None:
        self.acknowledged: set[int] = set()

    def execute(self, message: Message, argument: object) -> TransactionState:
        raise AssertionError("not used here")

    async def check(self, message: StoredMessage) -> TransactionState:
        return state_of(int(message.body))


async def one(producer: AsyncProducer, number: int, books: Books) -> None:
    """One transaction; a broker that goes away in the middle is no reason to stop."""
    with contextlib.suppress(CometError):
        transaction = producer.transaction(Message(TOPIC, b"%d" % number))
        await transaction.__aenter__()
        books.acknowledged.add(number)
        if number % 3 == 2:
            # As a producer that has died: nothing in this process knows of it any more.
            del producer._transactions._known[transaction.half.message_id]
        elif state_of(number) is TransactionState.COMMIT:
            await transaction.commit()
        else:
            await transaction.rollback()


async def send_until_killed(
    producer: AsyncProducer, numbers: Iterator[int], books: Books, broker
) -> None:
    """Keep transactions going and kill the broker while they are."""
    enough = len(books.acknowledged) + ENDED_BEFORE_KILL
    running: set[asyncio.Task[None]] = set()
    while len(books.acknowledged) < enough:
        while len(running) < AT_ONCE:
            running.add(asyncio.create_task(one(producer, next(numbers), books)))
        _, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    broker.kill()
    await asyncio.wait(running)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_every_transaction_ends_once_and_as_it_should(tmp_path: Path, flush: str):
    books, numbers = Books(), itertools.count()
    port = processes.broker_port()
    settings = {**SETTINGS, "flushDiskType": flush}
    with processes.nameserver(tmp_path / "nameserver") as names:

        def broker() -> processes.Program:
            return processes.broker(
                tmp_path / "broker", names.address, port=port, settings=settings
            ).start()

        running = broker()
        quick = ProducerSettings(send_timeout_ms=2_000, request_timeout_ms=2_000)
        async with AsyncProducer(
            names.address, group="books", settings=quick, transaction_listener=books
        ) as producer:
            await producer.send(Message(TOPIC, b"-1"))
            for _ in range(ROUNDS):
                await send_until_killed(producer, numbers, books, running)
                running = broker()
            wanted = {n for n in books.acknowledged if state_of(n) is TransactionState.COMMIT}
            found = await settled(running, wanted)
        running.stop()
    assert len(books.acknowledged) >= ROUNDS * ENDED_BEFORE_KILL
    assert wanted <= found.keys(), "committed and forgotten"
    assert [n for n in found if state_of(n) is not TransactionState.COMMIT] == []
    assert [n for n, times in found.items() if times > 1] == [], "committed twice"


async def settled(broker, wanted: set[int]) -> Counter[int]:
    """What consumers see when all that is wanted is there and nothing more came for a while."""
    found: Counter[int] = Counter()
    quiet = 0
    for _ in range(300):
        await asyncio.sleep(0.1)
        bodies = await asyncio.to_thread(read_queue, broker.address, TOPIC, 0, start=0)
        seen = Counter(int(body) for _, body in bodies)
        del seen[-1]
        quiet = quiet + 1 if seen == found and wanted <= seen.keys() else 0
        found = seen
        if quiet >= 6:
            break
    return found
