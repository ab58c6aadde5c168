"""Producers, consumers and administration of RocketMQ clusters, ours or Java's.

Each comes twice with the same methods: `AsyncProducer` for asyncio, `Producer` for threads.
"""

from typing import TYPE_CHECKING

from cometmq.model.later import later

if TYPE_CHECKING:
    from cometmq.client.admin import AsyncAdmin
    from cometmq.client.allocation import (
        ConsistentHash,
        FixedQueues,
        MachineRooms,
        NearbyRoom,
        allocate_averagely,
        allocate_in_circle,
    )
    from cometmq.client.choose_queue import (
        Selector,
        at_random,
        by_hash,
        nearby_room,
        round_robin,
    )
    from cometmq.client.concurrent import Verdict
    from cometmq.client.counts import TopicCounts
    from cometmq.client.explain import Explanation, Finding
    from cometmq.client.hub import Hub
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
        Replica,
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
    from cometmq.client.sql_expression import by_sql
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
    from cometmq.codec.bodies.cluster import ClusterInfo
    from cometmq.codec.bodies.conflicts import Conflict, Side
    from cometmq.codec.bodies.connection import ClientConnection, ConsumerConnections
    from cometmq.codec.bodies.ha_status import HaMaster, HaSlave, HaStatus
    from cometmq.codec.bodies.running import ConsumeRates
    from cometmq.codec.bodies.stats import QueueProgress
    from cometmq.codec.compression import Compression
    from cometmq.model.credentials import Credentials
    from cometmq.model.group import GroupConfig
    from cometmq.model.message import Message, StoredMessage
    from cometmq.model.queue import MessageQueue
    from cometmq.model.route import BrokerData, QueueData, TopicRoute
    from cometmq.model.subscription import Sql92, Subscription
    from cometmq.model.tls import TlsSettings
    from cometmq.model.topic import TopicConfig

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncInspector",
    "AsyncProducer",
    "AsyncPullConsumer",
    "AsyncPushConsumer",
    "AsyncSimpleConsumer",
    "AsyncTransaction",
    "BrokerData",
    "ClientConnection",
    "ClientSettings",
    "ClusterInfo",
    "Compression",
    "Conflict",
    "ConsistentHash",
    "ConsumeFrom",
    "ConsumeRates",
    "ConsumerConnections",
    "ConsumerSettings",
    "Credentials",
    "Explanation",
    "Finding",
    "FixedQueues",
    "GroupConfig",
    "HaMaster",
    "HaSlave",
    "HaStatus",
    "Hub",
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
    "QueueData",
    "QueueProgress",
    "QueueRange",
    "RawPull",
    "Replica",
    "Selector",
    "SendResult",
    "SendStatus",
    "Side",
    "SimpleConsumer",
    "SimpleSettings",
    "Sql92",
    "StoredMessage",
    "Subscription",
    "TlsSettings",
    "TopicConfig",
    "TopicCounts",
    "TopicRoute",
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

# A process that wants a part of it, as each that Spark starts, does not wait for the rest.
_NAMES = {
    "cometmq.client.admin": "AsyncAdmin",
    "cometmq.client.allocation": "ConsistentHash FixedQueues MachineRooms NearbyRoom allocate_averagely allocate_in_circle",
    "cometmq.client.choose_queue": "Selector at_random by_hash nearby_room round_robin",
    "cometmq.client.concurrent": "Verdict",
    "cometmq.client.counts": "TopicCounts",
    "cometmq.client.explain": "Explanation Finding",
    "cometmq.client.hub": "Hub",
    "cometmq.client.in_processes": "InProcesses",
    "cometmq.client.inspector": "AsyncInspector",
    "cometmq.client.producer": "AsyncProducer",
    "cometmq.client.pull_consumer": "AsyncPullConsumer",
    "cometmq.client.push_consumer": "AsyncPushConsumer",
    "cometmq.client.results": "PullResult PullStatus QueueRange RawPull Replica SendResult SendStatus",
    "cometmq.client.settings": "ClientSettings ConsumeFrom ConsumerSettings ProducerSettings PushSettings SimpleSettings",
    "cometmq.client.simple_consumer": "AsyncSimpleConsumer",
    "cometmq.client.sql_expression": "by_sql",
    "cometmq.client.sync.admin": "Admin",
    "cometmq.client.sync.inspector": "Inspector",
    "cometmq.client.sync.producer": "Producer",
    "cometmq.client.sync.pull_consumer": "PullConsumer",
    "cometmq.client.sync.push_consumer": "PushConsumer",
    "cometmq.client.sync.simple_consumer": "SimpleConsumer",
    "cometmq.client.sync.transaction": "Transaction",
    "cometmq.client.transactions": "AsyncTransaction TransactionListener TransactionResult TransactionState",
    "cometmq.codec.bodies.cluster": "ClusterInfo",
    "cometmq.codec.bodies.conflicts": "Conflict Side",
    "cometmq.codec.bodies.connection": "ClientConnection ConsumerConnections",
    "cometmq.codec.bodies.ha_status": "HaMaster HaSlave HaStatus",
    "cometmq.codec.bodies.running": "ConsumeRates",
    "cometmq.codec.bodies.stats": "QueueProgress",
    "cometmq.codec.compression": "Compression",
    "cometmq.model.credentials": "Credentials",
    "cometmq.model.group": "GroupConfig",
    "cometmq.model.message": "Message StoredMessage",
    "cometmq.model.queue": "MessageQueue",
    "cometmq.model.route": "BrokerData QueueData TopicRoute",
    "cometmq.model.subscription": "Sql92 Subscription",
    "cometmq.model.tls": "TlsSettings",
    "cometmq.model.topic": "TopicConfig",
}
__getattr__ = later(
    __name__, {name: module for module, names in _NAMES.items() for name in names.split()}
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
