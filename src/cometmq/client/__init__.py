"""Producers, consumers and administration of RocketMQ clusters, ours or Java's.

Each comes twice with the same methods: `AsyncProducer` for asyncio, `Producer` for threads.
"""

from cometmq.client.admin import AsyncAdmin
from cometmq.client.allocation import (
    ConsistentHash,
    FixedQueues,
    MachineRooms,
    NearbyRoom,
    allocate_averagely,
    allocate_in_circle,
)
from cometmq.client.by_sql import by_sql
from cometmq.client.choose_queue import (
    Selector,
    at_random,
    by_hash,
    nearby_room,
    round_robin,
)
from cometmq.client.concurrent import Verdict
from cometmq.client.explain import Explanation, Finding
from cometmq.client.in_processes import InProcesses
from cometmq.client.inspector import AsyncInspector
from cometmq.client.producer import AsyncProducer
from cometmq.client.pull_consumer import AsyncPullConsumer
from cometmq.client.push_consumer import AsyncPushConsumer
from cometmq.client.results import (
    PullResult,
    PullStatus,
    QueueRange,
    RawPull,
    SendResult,
    SendStatus,
)
from cometmq.client.settings import (
    ClientSettings,
    ConsumeFrom,
    ConsumerSettings,
    ProducerSettings,
    PushSettings,
    SimpleSettings,
)
from cometmq.client.simple_consumer import AsyncSimpleConsumer
from cometmq.client.sync.admin import Admin
from cometmq.client.sync.inspector import Inspector
from cometmq.client.sync.producer import Producer
from cometmq.client.sync.pull_consumer import PullConsumer
from cometmq.client.sync.push_consumer import PushConsumer
from cometmq.client.sync.simple_consumer import SimpleConsumer
from cometmq.client.sync.transaction import Transaction
from cometmq.client.transactions import (
    AsyncTransaction,
    TransactionListener,
    TransactionResult,
    TransactionState,
)
from cometmq.model.message import Message, StoredMessage
from cometmq.model.queue import MessageQueue

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncInspector",
    "AsyncProducer",
    "AsyncPullConsumer",
    "AsyncPushConsumer",
    "AsyncSimpleConsumer",
    "AsyncTransaction",
    "ClientSettings",
    "ConsistentHash",
    "ConsumeFrom",
    "ConsumerSettings",
    "Explanation",
    "Finding",
    "FixedQueues",
    "InProcesses",
    "Inspector",
    "MachineRooms",
    "Message",
    "MessageQueue",
    "NearbyRoom",
    "Producer",
    "ProducerSettings",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "PushSettings",
    "QueueRange",
    "RawPull",
    "Selector",
    "SendResult",
    "SendStatus",
    "SimpleConsumer",
    "SimpleSettings",
    "StoredMessage",
    "Transaction",
    "TransactionListener",
    "TransactionResult",
    "TransactionState",
    "Verdict",
    "allocate_averagely",
    "allocate_in_circle",
    "at_random",
    "by_hash",
    "by_sql",
    "nearby_room",
    "round_robin",
]
