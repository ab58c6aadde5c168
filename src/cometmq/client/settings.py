"""Settings of the client: frozen values, each with the name that RocketMQ's users know.

Each is looked at when it is made (`setting_checks`): SettingsError says which cannot be used, and why. Defaults are those of the Java client 5.3.3 (ClientConfig, DefaultMQProducer, DefaultMQPushConsumer,
DefaultLitePullConsumer) unless a line says otherwise.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from cometmq.client.consumer.allocation import Allocation, allocate_averagely
from cometmq.client.identity import checked_ip
from cometmq.client.setting_checks import check_settings, number, refused
from cometmq.codec.compression import LEVEL_DEFAULT, Compression
from cometmq.model.address import PORT_MAX, split_address
from cometmq.model.credentials import Credentials
from cometmq.model.errors import SettingsError
from cometmq.model.message import StoredMessage
from cometmq.model.names import TRACE_TOPIC, topic_fault
from cometmq.model.tls import TlsSettings

NAMESERVERS_VARIABLE = "NAMESRV_ADDR"  # As every RocketMQ client and tool reads it.
NAMESERVERS_DEFAULT = "127.0.0.1:9876"
CREDENTIAL_VARIABLES = ("COMETMQ_ACCESS_KEY", "COMETMQ_SECRET_KEY", "COMETMQ_SECURITY_TOKEN")
# A broker forgets a member that is silent for 120 s and gives its queues to others (CHANNEL_EXPIRED_TIMEOUT).
_SILENCE_MS_MAX = 119_000
_QUEUES_MAX = 65_536  # Of a topic on one broker (model.route).
_LONG_MAX = 2**63 - 1
_LEVELS = {Compression.ZLIB: (-1, 9), Compression.ZSTD: (-(2**17), 22)}  # LZ4 takes none.
_ID_MAX = 255  # Characters of a client id, an instance or a namespace.
# DefaultMQPushConsumerImpl.popDelayLevel of 5.3.3, seconds.
_POP_DELAYS = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


def nameserver_addresses(text: str | None) -> tuple[str, ...]:
    """Split "ip:port;ip:port" into addresses; None takes NAMESRV_ADDR, then 127.0.0.1:9876.

    Raises:
        SettingsError: an address without a port.
    """
    text = text or os.environ.get(NAMESERVERS_VARIABLE) or NAMESERVERS_DEFAULT
    addresses = tuple(
        part.strip() for part in text.replace(",", ";").split(";") if part.strip()
    )
    for address in addresses:
        try:
            host, _ = split_address(address)
        except ValueError:
            raise SettingsError(
                f"nameserver {address!r} of {text!r} has no port from 1 to {PORT_MAX}; "
                "write host:port, e.g. 127.0.0.1:9876"
            ) from None
        if "/" in host or any(map(str.isspace, host)):
            raise SettingsError(
                f"nameserver {address!r} of {text!r} has no host; write host:port, e.g. 127.0.0.1:9876"
            )
    if not addresses:
        raise SettingsError(f"{text!r} names no nameserver; write host:port;host:port")
    return addresses


def environment_credentials() -> Credentials | None:
    """Credentials from COMETMQ_ACCESS_KEY, COMETMQ_SECRET_KEY and COMETMQ_SECURITY_TOKEN; None if unset.

    Raises:
        SettingsError: one of the first two is there without the other.
    """
    access_key, secret_key = (os.environ.get(name, "") for name in CREDENTIAL_VARIABLES[:2])
    if not access_key and not secret_key:
        return None
    if not access_key or not secret_key:
        raise SettingsError(
            f"{CREDENTIAL_VARIABLES[0]} and {CREDENTIAL_VARIABLES[1]} go together: set both, or none"
        )
    return Credentials(access_key, secret_key, os.environ.get(CREDENTIAL_VARIABLES[2]) or None)


def environment_tls() -> TlsSettings | None:
    """TLS settings from COMETMQ_TLS and COMETMQ_TLS_CA_FILE, _CERT_FILE, _KEY_FILE; None if unset.

    Raises:
        SettingsError: COMETMQ_TLS is neither true nor false.
    """
    said = os.environ.get("COMETMQ_TLS", "").strip().lower()
    if said not in ("", "true", "false"):
        raise SettingsError(f"COMETMQ_TLS={said} must be true or false")
    if said != "true":
        return None
    ca_file, cert_file, key_file = (
        os.environ.get(f"COMETMQ_TLS_{name}") or None
        for name in ("CA_FILE", "CERT_FILE", "KEY_FILE")
    )
    return TlsSettings(ca_file=ca_file, cert_file=cert_file, key_file=key_file)


class ConsumeFrom(StrEnum):
    """The start of a group in a queue in which it has no offset yet (ConsumeFromWhere).

    A broker says 0 for a queue whose first message it still has in memory, so in a young queue every
    new group begins at the start, LAST or not.
    """

    LAST = "CONSUME_FROM_LAST_OFFSET"
    FIRST = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Settings that producers, consumers and admins share (ClientConfig).

    Attributes:
        instance_name: instanceName; part of the client id `ip@instance#random`. Empty: the
            process id.
        client_ip: clientIP; empty: this machine's address on the way to the nameserver.
        request_timeout_ms: mqClientApiTimeout; of every request that is no send and no pull.
        connect_timeout_ms: connectTimeoutMillis.
        route_interval_ms: pollNameServerInterval; how often routes are asked for again.
        heartbeat_interval_ms: heartbeatBrokerInterval.
        namespace: in front of the names of topics and groups (`cometmq.model.namespace`).
        trace: enableTrace; tell a topic what becomes of each message.
        trace_topic: traceTopic; which one.
        telemetry: make spans of OpenTelemetry (pip install cometmq[otel]).
        credentials: what all requests are signed with, where servers have access control (AclClientRPCHook). None:
            `environment_credentials`.
        tls: how all connections are encrypted (useTLS, with tls.client.*). None: `environment_tls`.
    """

    instance_name: str = ""
    client_ip: str = ""
    request_timeout_ms: int = number(3000)
    connect_timeout_ms: int = number(3000)
    route_interval_ms: int = number(30_000)
    heartbeat_interval_ms: int = number(30_000, most=_SILENCE_MS_MAX)
    namespace: str = ""
    trace: bool = False
    trace_topic: str = TRACE_TOPIC
    telemetry: bool = False
    credentials: Credentials | None = None
    tls: TlsSettings | None = None

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            SettingsError: one cannot be used.
        """
        check_settings(self)
        for name in ("instance_name", "namespace", "trace_topic"):
            text = getattr(self, name)
            if len(text) > _ID_MAX or not text.isprintable():
                raise refused(self, name, f"{_ID_MAX} printable characters at most")
        if self.client_ip:
            checked_ip(self.client_ip)
        if self.trace and (fault := topic_fault(self.trace_topic)):
            raise refused(self, "trace_topic", f"the name of a topic: {fault}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings(ClientSettings):
    """Settings of a producer (DefaultMQProducer).

    Attributes:
        send_timeout_ms: sendMsgTimeout; one deadline for all attempts.
        attempt_timeout_ms: sendMsgMaxTimeoutPerRequest; most time of an attempt that is not the last, where there is
            another broker; 0: an equal part of the time that is left.
        retries: retryTimesWhenSendFailed; attempts after the first, each on another broker
            where there is one.
        retry_when_not_ok: retryAnotherBrokerWhenNotStoreOK; also retry a message that was
            stored but not flushed or replicated in time (consumers may then see it twice).
        compress_over: compressMsgBodyOverHowmuch; longer bodies are compressed, bytes.
        compression: compressType.
        compression_level: compressMsgLevel.
        body_size_max: maxMessageSize, bytes; longer ones are refused before any network.
        default_topic_queues: defaultTopicQueueNums; queues of a topic that a first send creates.
        latency_fault: sendLatencyFaultEnable; keep away from slow brokers for a while.
        auto_batch: autoBatch; sends of a topic that come close together leave as one request
            (`cometmq.client.producer.accumulator` says what that costs).
        batch_delay_ms: batchMaxDelayMs; how long a message waits for others; 0: until the next
            turn of the loop.
        batch_bytes: batchMaxBytes; a batch of this size is sent at once.
        retry_pause_ms: before a broker that refused or failed is tried again, doubled each round;
            another broker is tried at once.
        in_flight_max: backPressureForAsyncSendNum; sends that may be under way; further ones wait
            for room, within their timeout.
        in_flight_bytes_max: backPressureForAsyncSendSize; the same for their bodies, bytes.
    """

    send_timeout_ms: int = number(3000)
    attempt_timeout_ms: int = number(0, least=0)
    retries: int = number(2, least=0)
    retry_when_not_ok: bool = False
    compress_over: int = number(4096, least=0)
    compression: Compression = Compression.ZLIB
    compression_level: int = number(LEVEL_DEFAULT, least=-(2**17), most=22)
    body_size_max: int = number(4 * 1024 * 1024)
    default_topic_queues: int = number(4, most=_QUEUES_MAX)
    latency_fault: bool = False
    auto_batch: bool = False
    batch_delay_ms: int = number(10, least=0)
    batch_bytes: int = number(32 * 1024)
    retry_pause_ms: int = number(20, least=0)
    in_flight_max: int = number(10_000)
    in_flight_bytes_max: int = number(100 * 1024 * 1024, most=_LONG_MAX)

    def __post_init__(self) -> None:
        """Check every value."""
        # By name: super() does not find its class where dataclass makes another one with slots.
        ClientSettings.__post_init__(self)
        least, most = _LEVELS.get(self.compression, (-(2**17), 22))
        if not least <= self.compression_level <= most:
            wanted = f"from {least} to {most} with {self.compression.name}"
            raise refused(self, "compression_level", wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings(ClientSettings):
    """Settings of push and pull consumers (DefaultMQPushConsumer, DefaultLitePullConsumer).

    Attributes:
        pull_count: pullBatchSize; messages a pull asks for (a broker gives at most 32).
        pull_bytes: pullBatchSizeInBytes; what a pull asks for at most, bytes; 0 leaves it to
            the broker.
        suspend_ms: brokerSuspendMaxTimeMillis; how long a broker holds a pull that finds nothing.
        suspended_timeout_ms: consumerTimeoutMillisWhenSuspend; when we give up on such a pull.
        allocation: allocateMessageQueueStrategy; who consumes which queues, one of
            `cometmq.client.consumer.allocation` or your own function; the same in all members.
        rebalance_interval_ms: rocketmq.client.rebalance.waitInterval.
        persist_interval_ms: persistConsumerOffsetInterval.
        queue_count_max: pullThresholdForQueue; messages cached for a queue before pulls wait.
        queue_bytes_max: pullThresholdSizeForQueue, bytes (Java: MiB).
        queue_span_max: consumeConcurrentlyMaxSpan; between the smallest and largest offset cached.
        consume_from: consumeFromWhere.
        consume_timestamp_ms: consumeTimestamp, for TIMESTAMP: ms since 1970. None: half an hour
            before the start.
        broadcasting: messageModel; every member gets every message, and keeps its offsets in
            a local file.
        auto_commit: autoCommit; whether what a pull consumer received is committed by itself.
        body_size_max: the longest body after decompression, bytes; protects against bombs. Java
            has no such bound.
        offsets_folder: rocketmq.client.localOffsetStoreDir; where broadcasting consumers keep
            offsets. Empty: ~/.rocketmq_offsets.
    """

    pull_count: int = number(32, most=1024)
    pull_bytes: int = number(256 * 1024, least=0)
    suspend_ms: int = number(15_000, least=0)
    suspended_timeout_ms: int = number(30_000)
    allocation: Allocation = allocate_averagely
    rebalance_interval_ms: int = number(20_000)
    persist_interval_ms: int = number(5_000)
    queue_count_max: int = number(1000)
    queue_bytes_max: int = number(100 * 1024 * 1024, most=_LONG_MAX)
    queue_span_max: int = number(2000)
    consume_from: ConsumeFrom = ConsumeFrom.LAST
    consume_timestamp_ms: int | None = number(None, least=0, most=_LONG_MAX)
    broadcasting: bool = False
    auto_commit: bool = True
    body_size_max: int = number(64 * 1024 * 1024)
    offsets_folder: str = ""

    def __post_init__(self) -> None:
        """Check every value."""
        ClientSettings.__post_init__(self)
        # As DefaultLitePullConsumerImpl: such a pull is given up before a broker answers it.
        if self.suspended_timeout_ms <= self.suspend_ms:
            raise refused(self, "suspended_timeout_ms", f"over suspend_ms ({self.suspend_ms})")

    def offsets_path(self, ip: str, group: str) -> Path:
        """The path of a broadcasting group's offsets.json on this machine, where Java's client keeps it."""
        folder = Path(self.offsets_folder or Path.home() / ".rocketmq_offsets")
        return folder / f"{ip}@{self.instance_name or 'DEFAULT'}" / group / "offsets.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleSettings(ClientSettings):
    """Settings of a simple consumer.

    Attributes:
        invisible_ms: popInvisibleTime; how long a message is hidden before it comes again.
        wait_ms: BROKER_SUSPEND_MAX_TIME_MILLIS; how long `receive` waits for a first message.
        consume_from: FIRST or LAST: where a group begins that has never been there.
        retries_max: maxReconsumeTimes; a message that came more often goes to the dead letters.
        body_size_max: the longest body after decompression, bytes.
    """

    invisible_ms: int = number(60_000)
    wait_ms: int = number(15_000, least=0)
    consume_from: ConsumeFrom = ConsumeFrom.FIRST
    retries_max: int = number(16, least=0)
    body_size_max: int = number(64 * 1024 * 1024)

    def __post_init__(self) -> None:
        """Check every value."""
        ClientSettings.__post_init__(self)
        if self.consume_from is ConsumeFrom.TIMESTAMP:
            raise refused(self, "consume_from", "FIRST or LAST: a pop knows no other")


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSettings(ConsumerSettings):
    """Settings of a push consumer, besides those of all consumers.

    Attributes:
        concurrency: consumeThreadMax; listeners that run at once.
        batch_count: consumeMessageBatchMaxSize; messages that a `batch_listener` gets at once, at
            most; None: 32.
        retries_max: maxReconsumeTimes; -1: the group's own (16).
        consume_timeout_ms: consumeTimeout (Java: minutes); after this a message is taken from
            its listener and given back; not with `orderly`.
        close_timeout_ms: awaitTerminationMillisWhenShutdown; how long close waits for listeners
            (Java: 0).
        orderly: the messages of a queue are given to the listener one after the other
            (MessageListenerOrderly); what it refuses is given to it again, and the queue waits.
            `retries_max` of -1 means without end then.
        order_key: with `orderly`: gives what a message belongs to (`first_key`). Messages of a queue with one key
            are given one after the other, others beside them; what is refused has only its key wait, until
            `queue_span_max` messages lie behind it.
        commit_by_listener: ConsumeOrderlyContext.setAutoCommit(false), with `orderly`: what
            was consumed counts when the listener answers `OrderlyStatus.COMMIT`; `OrderlyStatus.ROLLBACK`
            has everything since then given again.
        suspend_queue_ms: suspendCurrentQueueTimeMillis; that pause.
        lock_interval_ms: rocketmq.client.rebalance.lockInterval; how often queue locks are renewed.
        lock_valid_ms: rocketmq.client.rebalance.lockMaxLiveTime; how long a lock is believed in.
        client_rebalance: clientRebalance; False: the broker says which queues are ours, and
            whether each is pulled or popped (SET_MESSAGE_REQUEST_MODE); not with `orderly` or
            `broadcasting`. The same in all members.
        pop_count: popBatchNums; messages a pop asks for, up to 32.
        pop_invisible_ms: popInvisibleTime; how long a popped message is ours.
        pop_queue_count_max: popThresholdForQueue; popped messages open before pops wait.
        pop_delays_ms: popDelayLevel; how long a refused message is hidden, by its tries.
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
        """Check every value."""
        ConsumerSettings.__post_init__(self)
        if self.commit_by_listener and not self.orderly:
            raise refused(self, "commit_by_listener", "False without orderly")
        if self.order_key is not None and (not self.orderly or self.commit_by_listener):
            raise refused(self, "order_key", "None without orderly and with commit_by_listener")
        # A lock that ends before it is renewed would stop its queue again and again.
        if self.orderly and self.lock_valid_ms <= self.lock_interval_ms:
            wanted = f"over lock_interval_ms ({self.lock_interval_ms})"
            raise refused(self, "lock_valid_ms", wanted)
