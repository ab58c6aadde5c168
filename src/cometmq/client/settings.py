"""Settings of the client: frozen dataclasses; most fields are documented with RocketMQ's name for them.

Making settings with a value of a wrong type or out of bounds raises SettingsError. Most defaults are those of the
Java client 5.3.3 (ClientConfig, DefaultMQProducer, DefaultMQPushConsumer, DefaultLitePullConsumer).
"""

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from cometmq.client.consumer.allocation import Allocation, allocate_averagely
from cometmq.client.identity import checked_ip
from cometmq.codec.compression import LEVEL_DEFAULT, Compression
from cometmq.model.address import PORT_MAX, split_address
from cometmq.model.credentials import Credentials
from cometmq.model.errors import SettingsError
from cometmq.model.message import StoredMessage
from cometmq.model.names import TRACE_TOPIC, topic_fault
from cometmq.model.text import as_given, in_quotes
from cometmq.model.tls import TlsSettings

NAMESERVERS_VARIABLE = "NAMESRV_ADDR"  # The variable that every RocketMQ client and tool reads.
NAMESERVERS_DEFAULT = "127.0.0.1:9876"
CREDENTIAL_VARIABLES = ("COMETMQ_ACCESS_KEY", "COMETMQ_SECRET_KEY", "COMETMQ_SECURITY_TOKEN")
# After 120 s without a heartbeat a broker removes a member and assigns its queues to others (CHANNEL_EXPIRED_TIMEOUT).
_SILENCE_MS_MAX = 119_000
_QUEUES_MAX = 65_536  # Per topic and broker (model.route).
_LONG_MAX = 2**63 - 1
_LEVELS = {Compression.ZLIB: (-1, 9), Compression.ZSTD: (-(2**17), 22)}  # LZ4 has no levels.
_ID_MAX = 255  # Characters of a client id, an instance name or a namespace.
# DefaultMQPushConsumerImpl.popDelayLevel of 5.3.3, seconds.
_POP_DELAYS = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


def nameserver_addresses(text: str | None) -> tuple[str, ...]:
    """Split "host:port;host:port" into a tuple of addresses; None or "": those of NAMESRV_ADDR, or 127.0.0.1:9876 without it.

    A comma separates, too. Raises SettingsError if an address has no valid port or no host, or if there is no address.
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
                f"nameserver {in_quotes(address)} of {in_quotes(text)} has no port from 1 to {PORT_MAX}; "
                "write host:port, e.g. 127.0.0.1:9876"
            ) from None
        if "/" in host or any(map(str.isspace, host)):
            raise SettingsError(
                f"nameserver {in_quotes(address)} of {in_quotes(text)} has no host; write host:port, e.g. "
                "127.0.0.1:9876"
            )
    if not addresses:
        raise SettingsError(
            f"the nameserver list {in_quotes(text)} has no address; write host:port;host:port"
        )
    return addresses


def environment_credentials() -> Credentials | None:
    """Return the credentials in COMETMQ_ACCESS_KEY, COMETMQ_SECRET_KEY, COMETMQ_SECURITY_TOKEN; None without keys.

    Raises SettingsError if only one of the two keys is set.
    """
    access_key, secret_key = (os.environ.get(name, "") for name in CREDENTIAL_VARIABLES[:2])
    if not access_key and not secret_key:
        return None
    if not access_key or not secret_key:
        raise SettingsError(
            f"{CREDENTIAL_VARIABLES[0]} and {CREDENTIAL_VARIABLES[1]} belong together: set both, or neither"
        )
    return Credentials(access_key, secret_key, os.environ.get(CREDENTIAL_VARIABLES[2]) or None)


def environment_tls() -> TlsSettings | None:
    """Return the TLS settings in COMETMQ_TLS and COMETMQ_TLS_CA_FILE, _CERT_FILE, _KEY_FILE; None unless enabled.

    Raises SettingsError if COMETMQ_TLS is neither empty nor true nor false, or is true with a key file but no certificate.
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


INT_MAX = 2**31 - 1  # Maximum of Java's int: 24 days in ms, or 2 GiB.


def number(default: Any, *, least: int = 1, most: int = INT_MAX) -> Any:
    """Declare a dataclass field whose integers `check_settings` requires to be from `least` to `most`."""
    return dataclasses.field(default=default, metadata={"least": least, "most": most})


def check_settings(settings: object) -> None:
    """Raise SettingsError if a field of a settings dataclass has the wrong type or is out of bounds."""
    of: type = type(settings)
    for name, kind, bounds in _fields(of):
        wanted = _fault(getattr(settings, name), kind, bounds)
        if wanted is not None:
            raise refused(settings, name, wanted)


@cache
def _fields(kind: type) -> tuple[tuple[str, Any, Mapping[str, int]], ...]:
    """Return name, type and bounds of each field of a settings dataclass."""
    hints = get_type_hints(kind)
    return tuple(
        (each.name, hints[each.name], each.metadata) for each in dataclasses.fields(kind)
    )


def refused(settings: object, name: str, wanted: str) -> SettingsError:
    """Return an error that names a setting, its value (of credentials only the type) and the allowed values."""
    value = as_given(getattr(settings, name))
    if name == "credentials":  # An invalid value may still contain a secret.
        value = f"of the kind {type(getattr(settings, name)).__name__}"
    return SettingsError(f"{type(settings).__name__}.{name} is {value}; it must be {wanted}")


def _fault(value: Any, kind: Any, bounds: Mapping[str, int]) -> str | None:
    """Return a description of the allowed values of a type, or None if the value is one of them."""
    if isinstance(kind, UnionType):
        inner = next(option for option in get_args(kind) if option is not NoneType)
        wanted = None if value is None else _fault(value, inner, bounds)
        return wanted and f"{wanted}, or None"
    if kind is int:
        is_number = isinstance(value, int) and not isinstance(value, bool | Enum)
        is_right = is_number and bounds["least"] <= value <= bounds["most"]
        return (
            None if is_right else f"a whole number from {bounds['least']} to {bounds['most']}"
        )
    if get_origin(kind) is tuple:
        if not isinstance(value, tuple) or not value:
            return "a tuple with at least one number"
        faults = (_fault(each, int, bounds) for each in value)
        wanted = next((each for each in faults if each), None)
        return wanted and f"a tuple whose values are each {wanted}"
    if not isinstance(kind, type):
        return None if callable(value) else "a function"
    return None if isinstance(value, kind) else _one_of(kind)


def _one_of(kind: type) -> str:
    if issubclass(kind, Enum):
        return f"one of {', '.join(f'{kind.__name__}.{name}' for name in kind.__members__)}"
    return {bool: "True or False", str: "a text"}.get(kind, f"{kind.__name__}(...)")


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
class ClientSettings:
    """Settings that producers, consumers and admins share (ClientConfig).

    Attributes:
        instance_name: instanceName; part of the client id `ip@instance#random`. Empty: the process id.
        client_ip: clientIP, part of the client id. Empty: this machine's own address on the way to the nameserver.
        request_timeout_ms: mqClientApiTimeout; timeout of requests other than sends, pulls and pops, ms; some, such as
            changes by an admin, have a longer one of their own.
        connect_timeout_ms: connectTimeoutMillis; timeout for opening a connection, ms.
        route_interval_ms: pollNameServerInterval; time between two refreshes of the routes, ms.
        heartbeat_interval_ms: heartbeatBrokerInterval; usual time between two heartbeats to the brokers, ms.
        namespace: Prefix of the names of topics and groups (`cometmq.model.namespace`).
        trace: enableTrace; whether producers (not encoded ones) and push consumers write message traces.
        trace_topic: traceTopic; topic that receives the traces.
        telemetry: Whether the same clients create OpenTelemetry spans and metrics (pip install cometmq[otel]).
        credentials: Keys that sign all requests, for servers with access control (AclClientRPCHook). None:
            `environment_credentials`.
        tls: Encryption of all connections (useTLS, with tls.client.*). None: `environment_tls`.
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
        """Raise SettingsError if a value is invalid."""
        check_settings(self)
        for name in ("instance_name", "namespace", "trace_topic"):
            text = getattr(self, name)
            if len(text) > _ID_MAX or not text.isprintable():
                raise refused(self, name, f"at most {_ID_MAX} printable characters")
        if self.client_ip:
            checked_ip(self.client_ip)
        if self.trace and (fault := topic_fault(self.trace_topic)):
            raise refused(self, "trace_topic", f"the name of a topic: {fault}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings(ClientSettings):
    """Settings of a producer (DefaultMQProducer).

    Attributes:
        send_timeout_ms: sendMsgTimeout; deadline for all attempts of a send together, ms.
        attempt_timeout_ms: sendMsgMaxTimeoutPerRequest; maximum duration of an attempt that can still be retried on
            another broker, ms; 0: an equal share of the remaining time.
        retries: retryTimesWhenSendFailed; maximum number of attempts after the first, if possible on a broker that has
            not failed; none for a send to a chosen queue, nor after an error that a retry cannot cure.
        retry_when_not_ok: retryAnotherBrokerWhenNotStoreOK; also retry a message that was stored but not flushed or
            replicated in time (consumers may then receive it twice).
        compress_over: compressMsgBodyOverHowmuch; bodies longer than this are compressed, bytes; batches never.
        compression: compressType; compression algorithm.
        compression_level: compressMsgLevel; level of the algorithm.
        body_size_max: maxMessageSize, bytes; longer bodies or batches are refused without being sent.
        default_topic_queues: defaultTopicQueueNums; most queues per broker of a topic that its first send creates.
        latency_fault: sendLatencyFaultEnable; whether to avoid slow brokers for a while.
        auto_batch: autoBatch; whether to combine concurrent sends of small messages to a topic into one request (for the
            drawbacks see `cometmq.client.producer.accumulator`).
        batch_delay_ms: batchMaxDelayMs; how long a message may wait for others, ms; 0: until the loop's next iteration.
        batch_bytes: batchMaxBytes; a batch of this size is sent immediately.
        retry_pause_ms: Longest pause before a retry once each broker has had an attempt, ms; doubled after each further round.
        in_flight_max: backPressureForAsyncSendNum; maximum number of sends in flight; others wait, as part of their timeout.
        in_flight_bytes_max: backPressureForAsyncSendSize; size of the bodies in flight from which on sends wait, bytes.
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
        # By name: super() does not find its class because dataclass creates a new one for slots.
        ClientSettings.__post_init__(self)
        least, most = _LEVELS.get(self.compression, (-(2**17), 22))
        if not least <= self.compression_level <= most:
            wanted = f"from {least} to {most} with {self.compression.name}"
            raise refused(self, "compression_level", wanted)


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
    queue_bytes_max: int = number(100 * 1024 * 1024, most=_LONG_MAX)
    queue_span_max: int = number(2000)
    consume_from: ConsumeFrom = ConsumeFrom.LAST
    consume_timestamp_ms: int | None = number(None, least=0, most=_LONG_MAX)
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
