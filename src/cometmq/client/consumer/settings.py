"""Settings of consumers: frozen dataclasses, checked as those of `cometmq.client.settings`.

Most defaults are those of the Java client 5.3.3 (DefaultMQPushConsumer, DefaultLitePullConsumer).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from cometmq.client.consumer.allocation import Allocation, allocate_averagely
from cometmq.client.settings import LONG_MAX, ClientSettings, number, refused
from cometmq.model.message import StoredMessage

# DefaultMQPushConsumerImpl.popDelayLevel of 5.3.3, seconds.
_POP_DELAYS = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


class ConsumeFrom(StrEnum):
    """The position at which a group starts in a queue for which it has no committed offset (ConsumeFromWhere).

    LAST is the end of the queue (of a pop: its last message), FIRST its beginning, and TIMESTAMP the first message stored
    at a given time or later (of a pop: the beginning). A broker reports offset 0 for a queue whose first message counts as
    in memory. In such a queue a new group, unless it broadcasts, therefore usually starts at the beginning.
    """

    LAST = "CONSUME_FROM_LAST_OFFSET"
    FIRST = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings(ClientSettings):
    """Settings that push and pull consumers share (DefaultMQPushConsumer, DefaultLitePullConsumer).

    Attributes:
        pull_count: pullBatchSize; maximum number of messages per pull (a broker returns at most 32 by default).
        pull_bytes: pullBatchSizeInBytes; size of messages to request per pull, bytes; a larger one comes alone; 0: no wish.
        suspend_ms: brokerSuspendMaxTimeMillis; how long a broker may hold a pull that finds no message (long polling), ms.
        allocation: allocateMessageQueueStrategy; assigns queues to the members of the group: a function of
            `cometmq.client.consumer.allocation` or your own. Must be the same in all members.
        rebalance_interval_ms: rocketmq.client.rebalance.waitInterval; time until the next regular rebalance, ms.
        persist_interval_ms: persistConsumerOffsetInterval; time between two regular commits of the offsets, ms.
        queue_count_max: pullThresholdForQueue; number of messages cached per queue above which pulls pause.
        queue_bytes_max: pullThresholdSizeForQueue; the same limit for their bodies in bytes (Java: MiB).
        queue_span_max: consumeConcurrentlyMaxSpan; the same limit for the difference of largest and smallest offset.
        consume_from: consumeFromWhere; start in a queue for which the group has no offset.
        consume_timestamp_ms: consumeTimestamp; start for TIMESTAMP, ms since 1970. None: 30 minutes before the client is made.
        broadcasting: messageModel; whether every member receives every message and keeps its offsets in a local file.
        auto_commit: autoCommit; whether a pull consumer commits received messages automatically; push consumers need True.
        body_size_max: Maximum length of a compressed body after decompression, bytes, against bombs; Java has no such limit.
        offsets_folder: rocketmq.client.localOffsetStoreDir; offsets of broadcasting consumers. Empty: ~/.rocketmq_offsets.
    """

    pull_count: int = number(32, most=1024)
    pull_bytes: int = number(256 * 1024, least=0)
    suspend_ms: int = number(15_000, least=0)
    allocation: Allocation = allocate_averagely
    rebalance_interval_ms: int = number(20_000)
    persist_interval_ms: int = number(5_000)
    queue_count_max: int = number(1000)
    queue_bytes_max: int = number(100 * 1024 * 1024, most=LONG_MAX)
    queue_span_max: int = number(2000)
    consume_from: ConsumeFrom = ConsumeFrom.LAST
    consume_timestamp_ms: int | None = number(None, least=0, most=LONG_MAX)
    broadcasting: bool = False
    auto_commit: bool = True
    body_size_max: int = number(64 * 1024 * 1024)
    offsets_folder: str = ""

    def offsets_path(self, ip: str, group: str) -> Path:
        """Return the path of a broadcasting group's local offsets.json, as in the Java client; creates no file."""
        folder = Path(self.offsets_folder or Path.home() / ".rocketmq_offsets")
        return folder / f"{ip}@{self.instance_name or 'DEFAULT'}" / group / "offsets.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class PullConsumerSettings(ConsumerSettings):
    """Settings of a pull consumer (DefaultLitePullConsumer), and of queue readers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleConsumerSettings(ClientSettings):
    """Settings of a simple consumer.

    Attributes:
        invisible_ms: popInvisibleTime; default time for which a received message is hidden before its redelivery, ms.
        wait_ms: BROKER_SUSPEND_MAX_TIME_MILLIS; default time for which `receive` waits for the first message, ms.
        consume_from: FIRST or LAST; start of a group that never consumed the queue.
        retries_max: maxReconsumeTimes; a message redelivered more often becomes a dead letter when it is received.
        body_size_max: Maximum length of a compressed body after decompression, bytes.
    """

    invisible_ms: int = number(60_000)
    wait_ms: int = number(15_000, least=0)
    consume_from: ConsumeFrom = ConsumeFrom.FIRST
    retries_max: int = number(16, least=0)
    body_size_max: int = number(64 * 1024 * 1024)

    def __post_init__(self) -> None:
        ClientSettings.__post_init__(self)
        if self.consume_from is ConsumeFrom.TIMESTAMP:
            raise refused(
                self,
                "consume_from",
                "FIRST or LAST, the only starting points of a simple consumer",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PushConsumerSettings(ConsumerSettings):
    """Settings of a push consumer, in addition to those of all consumers.

    Attributes:
        concurrency: consumeThreadMax; maximum number of concurrent listener calls, apart from those that consoles request.
        batch_count: consumeMessageBatchMaxSize; maximum number of messages per call of a `batch_listener`; None: 32.
        retries_max: maxReconsumeTimes; number of retries before a message becomes a dead letter; -1: 16, or with
            `orderly` unlimited. With `broadcasting` refused messages are not retried.
        consume_timeout_ms: consumeTimeout (Java: minutes); time limit of a listener call, after which its messages are
            retried, ms; not with `orderly` or `broadcasting`, nor for popped messages. The call itself goes on.
        close_timeout_ms: awaitTerminationMillisWhenShutdown; how long `close` waits for running listeners, ms (Java: 0).
        orderly: Whether the messages of a queue are delivered in order, one listener call at a time
            (MessageListenerOrderly). Unless broadcasting, a refused message is delivered again while its queue waits.
        order_key: With `orderly`: returns the ordering key of a message (`first_key`). Only messages of a queue with
            the same key are delivered in order; other keys proceed concurrently. A refused message blocks only its key,
            until so many others are cached, by `queue_span_max` for example, that pulls pause.
        commit_by_listener: ConsumeOrderlyContext.setAutoCommit(false), with `orderly`: messages are committed when the
            listener returns `OrderlyStatus.COMMIT`; `OrderlyStatus.ROLLBACK` redelivers all since the last commit.
        suspend_queue_ms: suspendCurrentQueueTimeMillis; with `orderly`, usual pause before a refused message comes again, ms.
        lock_interval_ms: rocketmq.client.rebalance.lockInterval; time between two renewals of queue locks, ms.
        lock_valid_ms: rocketmq.client.rebalance.lockMaxLiveTime; how long a lock is valid after it was requested, ms.
        client_rebalance: clientRebalance; False: brokers of 5.x assign the queues, and decide whether they are pulled or
            popped (SET_MESSAGE_REQUEST_MODE); not with `orderly` or `broadcasting`. Must be the same in all members.
        pop_count: popBatchNums; maximum number of messages per pop, up to 32.
        pop_invisible_ms: popInvisibleTime; how long popped messages are hidden from other consumers, ms.
        pop_queue_count_max: popThresholdForQueue; number of unacknowledged popped messages per queue that makes pops pause.
        pop_delays_ms: popDelayLevel; delays before a refused popped message is redelivered, by retry; the last repeats; ms.
    """

    concurrency: int = number(20, most=10_000)
    batch_count: int | None = number(None, most=1024)
    retries_max: int = number(-1, least=-1)
    consume_timeout_ms: int = number(15 * 60_000)
    close_timeout_ms: int = number(10_000, least=0)
    orderly: bool = False
    order_key: Callable[[StoredMessage], str] | None = None
    commit_by_listener: bool = False
    suspend_queue_ms: int = number(1000, least=0)
    lock_interval_ms: int = number(20_000)
    lock_valid_ms: int = number(30_000)
    client_rebalance: bool = True
    pop_count: int = number(32, most=32)
    pop_invisible_ms: int = number(60_000)
    pop_queue_count_max: int = number(96)
    pop_delays_ms: tuple[int, ...] = number(tuple(1000 * seconds for seconds in _POP_DELAYS))

    def __post_init__(self) -> None:
        ConsumerSettings.__post_init__(self)
        if not self.auto_commit:
            raise refused(
                self,
                "auto_commit",
                "True; a push consumer commits what its listener has consumed",
            )
        if self.commit_by_listener and not self.orderly:
            raise refused(self, "commit_by_listener", "False unless orderly is True")
        if self.order_key is not None and (not self.orderly or self.commit_by_listener):
            raise refused(
                self, "order_key", "None unless orderly is True and commit_by_listener is False"
            )
        # A lock that expires before it is renewed would stop its queue again and again.
        if self.orderly and self.lock_valid_ms <= self.lock_interval_ms:
            wanted = f"more than lock_interval_ms ({self.lock_interval_ms})"
            raise refused(self, "lock_valid_ms", wanted)
