"""Every way to send, with both faces of the producer."""

import asyncio
from concurrent.futures import Future
from datetime import timedelta
from typing import assert_type

from cometmq import (
    AsyncProducer,
    Compression,
    Message,
    MessageQueue,
    Producer,
    ProducerSettings,
    SendResult,
    SendStatus,
    StoredMessage,
    Transaction,
    TransactionListener,
    TransactionState,
    by_hash,
)

SETTINGS = ProducerSettings(compression=Compression.ZSTD, send_timeout_ms=10_000)


class Bookings(TransactionListener):
    """A user's judge of half messages."""

    def execute(self, message: Message, argument: object) -> TransactionState:
        """Commit at once."""
        return TransactionState.COMMIT

    def check(self, message: StoredMessage) -> TransactionState:
        """Commit when a broker asks."""
        return TransactionState.COMMIT


def blocking(nameserver: str) -> None:
    """Send in every way that waits."""
    with Producer(nameserver, settings=SETTINGS, transaction_listener=Bookings()) as producer:
        sent = producer.send(Message("typed", b"1", keys=("k-1", "k-2"), properties={"n": "1"}))
        assert_type(sent, SendResult)
        assert_type(sent.status, SendStatus)
        assert_type(producer.send_async(Message("typed", b"2")), Future[SendResult])
        assert_type(producer.send_many([Message("typed", b"3", tag="t")]), list[SendResult])
        assert_type(producer.send_batch([Message("typed", b"4")]), SendResult)
        producer.send_oneway(Message("typed", b"5"))
        producer.send(Message("typed", b"6"), selector=by_hash("k-1"))
        producer.send(Message("typed", b"7", deliver=timedelta(seconds=1)))
        queues = producer.queues("typed")
        assert_type(queues, list[MessageQueue])
        producer.send(Message("typed", b"8"), queue=queues[0])
        with producer.transaction(Message("typed", b"9")) as transaction:
            assert_type(transaction, Transaction)
            transaction.commit()
        print(sent.message_id, sent.queue, sent.queue_offset, producer.client_id)


async def with_asyncio(nameserver: str) -> None:
    """Send in every way that is awaited."""
    async with AsyncProducer(nameserver, settings=SETTINGS) as producer:
        future = producer.send(Message("typed", b"1"))
        assert_type(future, asyncio.Future[SendResult])
        assert_type(await future, SendResult)
        assert_type(await producer.send_many([Message("typed", b"2")]), list[SendResult])
        assert_type(await producer.send_batch([Message("typed", b"3")]), SendResult)
        await producer.send_oneway(Message("typed", b"4"))
        assert_type(await producer.queues("typed"), list[MessageQueue])
        async with producer.transaction(Message("typed", b"5")) as transaction:
            transaction.commit()
