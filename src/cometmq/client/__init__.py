"""Producers, consumers and administration of RocketMQ clusters, ours or Java's.

Each comes twice with the same methods: `AsyncProducer` for asyncio, `Producer` for threads.
"""

from cometmq.client.choose_queue import Selector, at_random, by_hash
from cometmq.client.producer import AsyncProducer
from cometmq.client.pull_consumer import AsyncPullConsumer
from cometmq.client.results import (
    PullResult,
    PullStatus,
    RawPull,
    SendResult,
    SendStatus,
)
from cometmq.client.settings import (
    ClientSettings,
    ConsumerSettings,
    ProducerSettings,
    PushSettings,
)
from cometmq.client.sync.producer import Producer
from cometmq.client.sync.pull_consumer import PullConsumer
from cometmq.model.message import Message, StoredMessage
from cometmq.model.queue import MessageQueue

__all__ = [
    "AsyncProducer",
    "AsyncPullConsumer",
    "ClientSettings",
    "ConsumerSettings",
    "Message",
    "MessageQueue",
    "Producer",
    "ProducerSettings",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "PushSettings",
    "RawPull",
    "Selector",
    "SendResult",
    "SendStatus",
    "StoredMessage",
    "at_random",
    "by_hash",
]
