"""Settings of the client: frozen dataclasses; most fields are documented with RocketMQ's name for them.

Making settings with a value of a wrong type or out of bounds raises SettingsError. Most defaults are those of the
Java client 5.3.3 (ClientConfig, DefaultMQProducer, DefaultMQPushConsumer, DefaultLitePullConsumer).
"""

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from cometmq.client.identity import checked_ip
from cometmq.codec.compression import LEVEL_DEFAULT, Compression
from cometmq.model.address import PORT_MAX, split_address
from cometmq.model.credentials import Credentials
from cometmq.model.errors import SettingsError
from cometmq.model.names import TRACE_TOPIC, topic_fault
from cometmq.model.text import as_given, in_quotes
from cometmq.model.tls import TlsSettings

NAMESERVERS_VARIABLE = "NAMESRV_ADDR"  # The variable that every RocketMQ client and tool reads.
NAMESERVERS_DEFAULT = "127.0.0.1:9876"
CREDENTIAL_VARIABLES = ("COMETMQ_ACCESS_KEY", "COMETMQ_SECRET_KEY", "COMETMQ_SECURITY_TOKEN")
# After 120 s without a heartbeat a broker removes a member and assigns its queues to others (CHANNEL_EXPIRED_TIMEOUT).
_SILENCE_MS_MAX = 119_000
_QUEUES_MAX = 65_536  # Per topic and broker (model.route).
LONG_MAX = 2**63 - 1
_LEVELS = {Compression.ZLIB: (-1, 9), Compression.ZSTD: (-(2**17), 22)}  # LZ4 has no levels.
_ID_MAX = 255  # Characters of a client id, an instance name or a namespace.


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
    in_flight_bytes_max: int = number(100 * 1024 * 1024, most=LONG_MAX)

    def __post_init__(self) -> None:
        # By name: super() does not find its class because dataclass creates a new one for slots.
        ClientSettings.__post_init__(self)
        least, most = _LEVELS.get(self.compression, (-(2**17), 22))
        if not least <= self.compression_level <= most:
            wanted = f"from {least} to {most} with {self.compression.name}"
            raise refused(self, "compression_level", wanted)
