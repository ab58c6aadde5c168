"""A producer whose only broker is away uses the time it was given, and sends nothing more often than before."""

import asyncio
import threading
import time

import pytest

from cometmq import AsyncProducer, Message, Producer, ProducerSettings
from cometmq.model.errors import SendFailed
from tests.support.load import read_queue

TOPIC = "Patience"
# Longer than a broker takes to start on a machine that is full.
ONE_QUEUE = ProducerSettings(default_topic_queues=1, send_timeout_ms=30_000)


def test_a_send_waits_for_its_broker_to_come_back(nameserver, broker):
    """It gave up within 60 ms of its 3 s."""
    with Producer(nameserver.address, settings=ONE_QUEUE) as producer:
        producer.send(Message(TOPIC, b"before"))
        broker.stop()
        broker.process = None
        back = threading.Timer(0.5, broker.start)
        back.start()
        producer.send(Message(TOPIC, b"meanwhile"))
        back.join()
        producer.send(Message(TOPIC, b"after"))
    found = [body for _, body in read_queue(broker.address, TOPIC, 0, start=0)]
    assert found == [b"before", b"meanwhile", b"after"]


def test_thousands_that_wait_share_one_attempt(nameserver, broker):
    async def send_all() -> float:
        async with AsyncProducer(nameserver.address, settings=ONE_QUEUE) as producer:
            await producer.send(Message(TOPIC, b"first"))
            await asyncio.to_thread(broker.stop)
            broker.process = None
            began = time.process_time()
            sends = [producer.send(Message(TOPIC, b"%d" % number)) for number in range(3_000)]
            await asyncio.sleep(1)
            took = time.process_time() - began
            print(f"{took:.3f} s of processor")
            await asyncio.to_thread(broker.start)
            await asyncio.gather(*sends)
            return took

    assert asyncio.run(send_all()) < 0.9
    found = [int(body) for _, body in read_queue(broker.address, TOPIC, 0, start=1)]
    assert sorted(found) == list(range(3_000))


def test_whoever_does_not_come_back_is_named_when_the_time_is_over(nameserver, broker):
    settings = ProducerSettings(send_timeout_ms=1_000)
    with Producer(nameserver.address, settings=settings) as producer:
        producer.send(Message(TOPIC, b"before"))
        broker.stop()
        began = time.monotonic()
        with pytest.raises(SendFailed, match=f"cannot connect to {broker.address}"):
            producer.send(Message(TOPIC, b"lost"))
        assert 0.8 < time.monotonic() - began < 3
        # Who asks for a certain queue is told at once, as ever: a later try might change the order.
        (queue, *_) = producer.queues(TOPIC)
        began = time.monotonic()
        with pytest.raises(Exception, match=f"cannot connect to {broker.address}"):
            producer.send(Message(TOPIC, b"lost"), queue=queue)
        assert time.monotonic() - began < 0.8
