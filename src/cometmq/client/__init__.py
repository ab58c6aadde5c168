"""The client for RocketMQ clusters: producers, consumers and administration, for CometMQ and Java brokers.

Most client classes exist twice: `AsyncProducer` for asyncio, `Producer` for threads.
"""

from typing import TYPE_CHECKING

from cometmq.client.argument_checks import explained
from cometmq.model.later import later

if TYPE_CHECKING:
    from cometmq.client.admin.absent import AbsentBroker
    from cometmq.client.admin.account_lines import EntryLine, UserLine
    from cometmq.client.admin.accounts import Accounts, AccountsReport
    from cometmq.client.admin.admin import AsyncAdmin
    from cometmq.client.admin.dead_letters import DeadLetterCount, dead_letter_origin
    from cometmq.client.admin.delayed import DelayedFinder, DelayedMessage, DelayedMessages
    from cometmq.client.admin.deleted_messages import deleted_messages
    from cometmq.client.admin.explain import ExplainFinding, Explanation
    from cometmq.client.admin.facts import Symptom
    from cometmq.client.admin.inspector import AsyncInspector
    from cometmq.client.admin.replay import ReplayCandidate
    from cometmq.client.admin.replay_claims import AsyncReplayClaims
    from cometmq.client.admin.replay_ledger import LetterId
    from cometmq.client.admin.roles import Promotion
    from cometmq.client.admin.states import (
        BrokerState,
        ClusterProducers,
        GroupState,
        ProducerState,
        TopicState,
    )
    from cometmq.client.admin.symptom_lists import IgnoreList, grouped_symptoms
    from cometmq.client.api.broker import SettingsReport
    from cometmq.client.api.transactions import HalfMessage
    from cometmq.client.connection.instance import ClientInstance
    from cometmq.client.consumer.allocation import (
        ConsistentHash,
        FixedQueues,
        MachineRooms,
        NearbyRoom,
        allocate_averagely,
        allocate_in_circle,
    )
    from cometmq.client.consumer.counts import TopicCounts
    from cometmq.client.consumer.filters import ALL, Filter, Sql, Subscriptions, Tag
    from cometmq.client.consumer.listeners import (
        BatchListener,
        DeadLetter,
        Listener,
        OrderlyStatus,
        RetryLater,
        Said,
        first_key,
    )
    from cometmq.client.consumer.pop.simple_consumer import AsyncSimpleConsumer
    from cometmq.client.consumer.pull.pull_consumer import AsyncPullConsumer
    from cometmq.client.consumer.pull.queue_reader import AsyncQueueReader
    from cometmq.client.consumer.pull.read_from import ReadFrom
    from cometmq.client.consumer.push.in_processes import InProcesses
    from cometmq.client.consumer.push.push_consumer import AsyncPushConsumer
    from cometmq.client.producer.check_answers import CheckedHalfMessage, HalfJudge
    from cometmq.client.producer.encoded_producer import AsyncEncodedProducer
    from cometmq.client.producer.encoded_send import EncodedBatch, EncodedMessage
    from cometmq.client.producer.producer import AsyncProducer
    from cometmq.client.producer.queue_selector import (
        Selector,
        at_random,
        by_hash,
        nearby_room,
        round_robin,
    )
    from cometmq.client.producer.transactions import (
        AsyncTransaction,
        TransactionListener,
        TransactionResult,
        TransactionState,
    )
    from cometmq.client.results import (
        IndexedMessages,
        PullResult,
        PullStatus,
        QueueRange,
        RawPull,
        Replica,
        SendResult,
        SendStatus,
        TopicQueues,
    )
    from cometmq.client.settings import (
        ClientSettings,
        ConsumeFrom,
        ConsumerSettings,
        ProducerSettings,
        PushSettings,
        SimpleSettings,
    )
    from cometmq.client.sync.admin import Admin
    from cometmq.client.sync.encoded_producer import EncodedProducer
    from cometmq.client.sync.inspector import Inspector
    from cometmq.client.sync.producer import Producer
    from cometmq.client.sync.pull_consumer import PullConsumer
    from cometmq.client.sync.push_consumer import PushConsumer
    from cometmq.client.sync.queue_reader import QueueReader
    from cometmq.client.sync.replay_claims import ReplayClaims
    from cometmq.client.sync.simple_consumer import SimpleConsumer
    from cometmq.client.sync.transaction import Transaction
    from cometmq.client.topic import (
        BodyCodec,
        JsonCodec,
        MsgspecCodec,
        PydanticCodec,
        Received,
        Topic,
    )
    from cometmq.codec.bodies.cluster import ClusterInfo
    from cometmq.codec.bodies.conflicts import Conflict, ConflictSide
    from cometmq.codec.bodies.connection import ClientConnection, ConsumerConnections
    from cometmq.codec.bodies.ha_status import HaMaster, HaSlave, HaStatus
    from cometmq.codec.bodies.missing_brokers import MissingBroker
    from cometmq.codec.bodies.running import (
        ConsumeRates,
        PopState,
        QueueState,
        RunningState,
    )
    from cometmq.codec.bodies.stats import (
        QueueBounds,
        QueueProgress,
        StatsWindow,
        StatsWindows,
    )
    from cometmq.codec.compression import Compression
    from cometmq.codec.trace import (
        Trace,
        TracedMessage,
        TraceKind,
        TraceOutcome,
        decode_traces,
    )
    from cometmq.model.credentials import Credentials
    from cometmq.model.group import GroupConfig
    from cometmq.model.message import Message, StoredMessage
    from cometmq.model.queue import MessageQueue
    from cometmq.model.route import BrokerData, QueueData, TopicRoute
    from cometmq.model.subscription import Subscription
    from cometmq.model.tls import TlsSettings
    from cometmq.model.topic import TopicConfig
    from cometmq.model.total import Total
    from cometmq.net.clock import SystemClock

__all__ = [
    "ALL",
    "AbsentBroker",
    "Accounts",
    "AccountsReport",
    "Admin",
    "AsyncAdmin",
    "AsyncEncodedProducer",
    "AsyncInspector",
    "AsyncProducer",
    "AsyncPullConsumer",
    "AsyncPushConsumer",
    "AsyncQueueReader",
    "AsyncReplayClaims",
    "AsyncSimpleConsumer",
    "AsyncTransaction",
    "BatchListener",
    "BodyCodec",
    "BrokerData",
    "BrokerState",
    "CheckedHalfMessage",
    "ClientConnection",
    "ClientInstance",
    "ClientSettings",
    "ClusterInfo",
    "ClusterProducers",
    "Compression",
    "Conflict",
    "ConflictSide",
    "ConsistentHash",
    "ConsumeFrom",
    "ConsumeRates",
    "ConsumerConnections",
    "ConsumerSettings",
    "Credentials",
    "DeadLetter",
    "DeadLetterCount",
    "DelayedFinder",
    "DelayedMessage",
    "DelayedMessages",
    "EncodedBatch",
    "EncodedMessage",
    "EncodedProducer",
    "EntryLine",
    "ExplainFinding",
    "Explanation",
    "Filter",
    "FixedQueues",
    "GroupConfig",
    "GroupState",
    "HaMaster",
    "HaSlave",
    "HaStatus",
    "HalfJudge",
    "HalfMessage",
    "IgnoreList",
    "InProcesses",
    "IndexedMessages",
    "Inspector",
    "JsonCodec",
    "LetterId",
    "Listener",
    "MachineRooms",
    "Message",
    "MessageQueue",
    "MissingBroker",
    "MsgspecCodec",
    "NearbyRoom",
    "OrderlyStatus",
    "PopState",
    "Producer",
    "ProducerSettings",
    "ProducerState",
    "Promotion",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "PushSettings",
    "PydanticCodec",
    "QueueBounds",
    "QueueData",
    "QueueProgress",
    "QueueRange",
    "QueueReader",
    "QueueState",
    "RawPull",
    "ReadFrom",
    "Received",
    "ReplayCandidate",
    "ReplayClaims",
    "Replica",
    "RetryLater",
    "RunningState",
    "Said",
    "Selector",
    "SendResult",
    "SendStatus",
    "SettingsReport",
    "SimpleConsumer",
    "SimpleSettings",
    "Sql",
    "StatsWindow",
    "StatsWindows",
    "StoredMessage",
    "Subscription",
    "Subscriptions",
    "Symptom",
    "SystemClock",
    "Tag",
    "TlsSettings",
    "Topic",
    "TopicConfig",
    "TopicCounts",
    "TopicQueues",
    "TopicRoute",
    "TopicState",
    "Total",
    "Trace",
    "TraceKind",
    "TraceOutcome",
    "TracedMessage",
    "Transaction",
    "TransactionListener",
    "TransactionResult",
    "TransactionState",
    "UserLine",
    "allocate_averagely",
    "allocate_in_circle",
    "at_random",
    "by_hash",
    "dead_letter_origin",
    "decode_traces",
    "deleted_messages",
    "first_key",
    "grouped_symptoms",
    "nearby_room",
    "round_robin",
]

# Loaded on first use, so that a process that needs one part, such as a Spark worker, does not load the rest.
_NAMES = {
    "cometmq.client.producer.encoded_send": "EncodedBatch EncodedMessage",
    "cometmq.client.producer.check_answers": "CheckedHalfMessage HalfJudge",
    "cometmq.client.api.transactions": "HalfMessage",
    "cometmq.client.sync.encoded_producer": "EncodedProducer",
    "cometmq.client.producer.encoded_producer": "AsyncEncodedProducer",
    "cometmq.codec.bodies.missing_brokers": "MissingBroker",
    "cometmq.client.sync.queue_reader": "QueueReader",
    "cometmq.client.consumer.pull.read_from": "ReadFrom",
    "cometmq.client.consumer.pull.queue_reader": "AsyncQueueReader",
    "cometmq.client.sync.replay_claims": "ReplayClaims",
    "cometmq.client.admin.replay_claims": "AsyncReplayClaims",
    "cometmq.client.admin.replay_ledger": "LetterId",
    "cometmq.client.admin.roles": "Promotion",
    "cometmq.client.admin.replay": "ReplayCandidate",
    "cometmq.client.admin.account_lines": "EntryLine UserLine",
    "cometmq.client.admin.accounts": "Accounts AccountsReport",
    "cometmq.client.admin.admin": "AsyncAdmin",
    "cometmq.client.consumer.allocation": "ConsistentHash FixedQueues MachineRooms NearbyRoom allocate_averagely allocate_in_circle",
    "cometmq.client.api.broker": "SettingsReport",
    "cometmq.client.producer.queue_selector": "Selector at_random by_hash nearby_room round_robin",
    "cometmq.client.consumer.counts": "TopicCounts",
    "cometmq.client.admin.explain": "Explanation ExplainFinding",
    "cometmq.client.consumer.filters": "ALL Filter Sql Subscriptions Tag",
    "cometmq.client.connection.instance": "ClientInstance",
    "cometmq.client.consumer.push.in_processes": "InProcesses",
    "cometmq.client.admin.inspector": "AsyncInspector",
    "cometmq.client.consumer.listeners": "BatchListener DeadLetter Listener OrderlyStatus RetryLater Said first_key",
    "cometmq.client.producer.producer": "AsyncProducer",
    "cometmq.client.consumer.pull.pull_consumer": "AsyncPullConsumer",
    "cometmq.client.consumer.push.push_consumer": "AsyncPushConsumer",
    "cometmq.client.results": "IndexedMessages PullResult PullStatus QueueRange RawPull Replica SendResult SendStatus TopicQueues",
    "cometmq.client.settings": "ClientSettings ConsumeFrom ConsumerSettings ProducerSettings PushSettings SimpleSettings",
    "cometmq.client.consumer.pop.simple_consumer": "AsyncSimpleConsumer",
    "cometmq.client.admin.absent": "AbsentBroker",
    "cometmq.client.admin.dead_letters": "DeadLetterCount dead_letter_origin",
    "cometmq.client.admin.deleted_messages": "deleted_messages",
    "cometmq.client.admin.delayed": "DelayedFinder DelayedMessage DelayedMessages",
    "cometmq.client.admin.states": "BrokerState ClusterProducers GroupState ProducerState TopicState",
    "cometmq.client.admin.facts": "Symptom",
    "cometmq.client.admin.symptom_lists": "IgnoreList grouped_symptoms",
    "cometmq.client.sync.admin": "Admin",
    "cometmq.client.sync.inspector": "Inspector",
    "cometmq.client.sync.producer": "Producer",
    "cometmq.client.sync.pull_consumer": "PullConsumer",
    "cometmq.client.sync.push_consumer": "PushConsumer",
    "cometmq.client.sync.simple_consumer": "SimpleConsumer",
    "cometmq.client.sync.transaction": "Transaction",
    "cometmq.client.producer.transactions": "AsyncTransaction TransactionListener TransactionResult TransactionState",
    "cometmq.client.topic": "BodyCodec JsonCodec MsgspecCodec PydanticCodec Received Topic",
    "cometmq.codec.bodies.cluster": "ClusterInfo",
    "cometmq.codec.bodies.conflicts": "Conflict ConflictSide",
    "cometmq.codec.bodies.connection": "ClientConnection ConsumerConnections",
    "cometmq.codec.bodies.ha_status": "HaMaster HaSlave HaStatus",
    "cometmq.codec.bodies.running": "ConsumeRates PopState QueueState RunningState",
    "cometmq.codec.bodies.stats": "QueueBounds QueueProgress StatsWindow StatsWindows",
    "cometmq.codec.compression": "Compression",
    "cometmq.codec.trace": "Trace TraceKind TraceOutcome TracedMessage decode_traces",
    "cometmq.model.credentials": "Credentials",
    "cometmq.model.group": "GroupConfig",
    "cometmq.model.message": "Message StoredMessage",
    "cometmq.model.queue": "MessageQueue",
    "cometmq.model.route": "BrokerData QueueData TopicRoute",
    "cometmq.model.subscription": "Subscription",
    "cometmq.model.tls": "TlsSettings",
    "cometmq.model.topic": "TopicConfig",
    "cometmq.model.total": "Total",
    "cometmq.net.clock": "SystemClock",
}
if not TYPE_CHECKING:  # A checker that sees it takes any name to be there.
    __getattr__ = later(
        __name__,
        {name: module for module, names in _NAMES.items() for name in names.split()},
        explained,
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
