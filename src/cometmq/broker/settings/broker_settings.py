"""The broker's settings: mostly RocketMQ's keys, so that a Java broker's broker.conf usually works unmodified.

Settings of RocketMQ that change nothing here are in `model.rocketmq_keys`; `unsupported_keys` has those that a start
refuses or warns of by name. docs/operate/settings.md is generated from all of them.
"""

import os
import platform
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum

from cometmq.access.keys import check_secret_files, further_layers
from cometmq.broker.settings.metrics_keys import MetricsKeys
from cometmq.broker.settings.replica_keys import split_addresses
from cometmq.broker.settings.unsupported_keys import UNSUPPORTED_KEYS
from cometmq.model.address import split_address
from cometmq.model.errors import SettingsError
from cometmq.model.frozen import dataclass
from cometmq.model.judged_keys import read_settings
from cometmq.model.settings import (
    Layer,
    SettingsInForce,
    setting,
)
from cometmq.model.unsupported import asked_by_environment
from cometmq.process.program_log import LogLevel
from cometmq.store.conf_file import ConfFile, conf_file
from cometmq.store.settings import StoreSettings

LISTEN_PORT = 10911
LOOPBACK = "127.0.0.1"
# Old clients send to a second port ("VIP channel"), this far below the main one.
FAST_PORT_DISTANCE = 2

_HOST_NAME = platform.node() or "broker-a"


class BrokerRole(Enum):
    """The role of a broker in its group: ASYNC_MASTER, SYNC_MASTER (sends may wait for slaves) or SLAVE."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


@dataclass(frozen=True, slots=True)
class BrokerSettings(MetricsKeys):
    """Settings of a broker: keys of RocketMQ 5.3.3 as far as supported, some of CometMQ only; more in the base classes.

    Attributes:
        cluster_name: the cluster that the broker belongs to.
        broker_name: the name that a master and its slaves share.
        broker_id: 0 for the master; slaves have 1 and more.
        broker_role: ASYNC_MASTER, SYNC_MASTER, or SLAVE.
        nameservers: the nameservers to register at, `host:port;host:port`.
        broker_ip: the address that clients are given; a host name is resolved; differs: by default the address that the
            broker listens on, or if these are all, the one from which this machine sends.
        ha_ip: the address that slaves are given, an IP or a host name without a port.
        bind_address: the address to listen on; differs: the default is all interfaces in a container with a network of its
            own, else `brokerIP1`, or all interfaces if none has that address, else loopback; Java listens on all interfaces.
        listen_port: the port; 0 for any free one; old clients' second port is 2 below.
        grpc_port: the port for gRPC clients (apache.rocketmq.v2) of this broker, usually 8081; 0: none; needs the extra
            `grpc`; for RocketMQ a setting of its proxy.
        grpc_access_address: the "host:port" in routes for gRPC clients; empty: the one that they use; not a key of RocketMQ.
        connections_max: most connections; beyond it a silent one, of the address with the most, is closed for a new one,
            or the new one is refused; not a key of RocketMQ.
        idle_seconds_max: silent connections are closed after this time, s; after 15 s if they never sent anything.
        perm: 6 read and write, 4 read only, 2 write only.
        is_topic_auto_created: the first send to an unknown topic creates it.
        is_group_auto_created: the first use of an unknown consumer group creates it.
        default_topic_queues: most queues of a topic that is created automatically.
        topics_max: most topics besides the system's; the same number of retry and dead-letter topics is allowed; not a
            key of RocketMQ.
        groups_max: most consumer groups; not a key of RocketMQ.
        is_cluster_topic: new topics may inherit from the topic named like the cluster.
        is_broker_topic: new topics may inherit from the topic named like the broker.
        is_trace_topic: create the topic for message traces.
        trace_topic: the name of the topic for message traces.
        is_trace_on: ask producers to write message traces.
        region_id: sent to producers and stored with each message.
        is_light_read: topics %LMQ%... can be consumed.
        is_multi_dispatch: sends to light queues are refused.
        body_size_max: largest message body, bytes.
        accept_sends_from_ms: sends are refused before this time, ms since 1970.
        is_long_polling: a pull that finds nothing waits as long as its client asks for.
        short_polling_ms: how long a pull waits without long polling, ms.
        is_lite_pull: lite pull consumers of 5.x are served.
        notify_changes: group members are notified when members join or leave.
        is_reset_by_broker: the broker resets offsets itself; otherwise it asks the clients to do so.
        is_reply_stored: replies of request-reply are also stored.
        is_fast_failure: sends, and pulls of old messages, that have waited too long are refused with SYSTEM_BUSY.
        pull_wait_ms_max: longest wait of a pull of old messages for a thread, ms.
        busy_timeout_ms: sends that arrive while the broker is blocked for longer than this are refused, ms.
        is_slave_read: on a master: consumers that are far behind are sent to a slave; on a slave: consumers may read.
        is_offset_checked: on a slave: a consumer whose offset the slave lacks is moved to one that it has.
        client_timeout_ms: clients without heartbeats are removed after this time, ms.
        is_transaction_refused: half messages are refused.
        transaction_timeout_ms: half messages older than this are checked at their producers, ms.
        transaction_check_interval_ms: pause between rounds of checks, ms.
        transaction_check_max: number of checks after which a half message is discarded.
        register_period_ms: pause between registrations, 10 to 60 s, ms.
        register_timeout_ms: timeout for a nameserver's answer, ms.
        is_registration_compressed: send the topics compressed.
        log_level: lowest level of the lines of the log, debug, info, warning or error; the audit's are written at any
            level ([log](logs.md)); not a key of RocketMQ.
    """

    # --- identity and addresses
    cluster_name: str = setting("DefaultCluster", key="brokerClusterName")
    broker_name: str = setting(_HOST_NAME)
    broker_id: int = setting(0, least=0)
    broker_role: BrokerRole = setting(BrokerRole.ASYNC_MASTER)
    nameservers: str = setting("", key="namesrvAddr")
    broker_ip: str | None = setting(None, key="brokerIP1", is_host=True)
    ha_ip: str | None = setting(None, key="brokerIP2", is_host=True)
    bind_address: str | None = setting(None, is_host=True)
    listen_port: int = setting(LISTEN_PORT, least=0, most=65535)
    grpc_port: int = setting(0, key="grpcServerPort", least=0, most=65535)
    grpc_access_address: str = setting("", key="grpcAccessAddr")
    connections_max: int = setting(10_000, key="connectionsMax", least=1)
    idle_seconds_max: int = setting(120, key="serverChannelMaxIdleTimeSeconds", least=1)

    # --- topics, groups, permissions
    perm: int = setting(6, key="brokerPermission", least=0, most=15, is_remote=True)
    is_topic_auto_created: bool = setting(
        default=True, key="autoCreateTopicEnable", is_remote=True
    )
    is_group_auto_created: bool = setting(
        default=True, key="autoCreateSubscriptionGroup", is_remote=True
    )
    default_topic_queues: int = setting(8, key="defaultTopicQueueNums", least=1)
    topics_max: int = setting(20_000, key="topicsMax", least=1)
    groups_max: int = setting(20_000, key="groupsMax", least=1)
    is_cluster_topic: bool = setting(default=True, key="clusterTopicEnable")
    is_broker_topic: bool = setting(default=True, key="brokerTopicEnable")
    is_trace_topic: bool = setting(default=False, key="traceTopicEnable")
    trace_topic: str = setting("RMQ_SYS_TRACE_TOPIC", key="msgTraceTopicName")
    is_trace_on: bool = setting(default=True, key="traceOn")
    region_id: str = setting("DefaultRegion")

    is_light_read: bool = setting(
        default=False, key="enableLmq", differs="they get no new messages"
    )
    is_multi_dispatch: bool = setting(
        default=False, key="enableMultiDispatch", differs="RocketMQ stores them there"
    )

    # --- sending and pulling
    body_size_max: int = setting(4_194_304, key="maxMessageSize", least=1)
    accept_sends_from_ms: int = setting(0, key="startAcceptSendRequestTimeStamp", least=0)
    is_long_polling: bool = setting(default=True, key="longPollingEnable")
    short_polling_ms: int = setting(1_000, key="shortPollingTimeMills", least=1)
    is_lite_pull: bool = setting(default=True, key="litePullMessageEnable")
    notify_changes: bool = setting(default=True, key="notifyConsumerIdsChangedEnable")
    is_reset_by_broker: bool = setting(default=True, key="useServerSideResetOffset")
    is_reply_stored: bool = setting(default=True, key="storeReplyMessageEnable")
    is_fast_failure: bool = setting(default=True, key="brokerFastFailureEnable")
    pull_wait_ms_max: int = setting(5_000, key="waitTimeMillsInPullQueue", least=1)
    busy_timeout_ms: int = setting(1_000, key="osPageCacheBusyTimeOutMills", least=1)
    is_slave_read: bool = setting(default=False, key="slaveReadEnable")
    is_offset_checked: bool = setting(default=False, key="offsetCheckInSlave")
    client_timeout_ms: int = setting(120_000, key="channelExpiredTimeout", least=1_000)

    # --- transactions
    is_transaction_refused: bool = setting(
        default=False, key="rejectTransactionMessage", is_remote=True
    )
    transaction_timeout_ms: int = setting(
        6_000, key="transactionTimeOut", least=0, is_remote=True
    )
    transaction_check_interval_ms: int = setting(
        30_000, key="transactionCheckInterval", least=1, is_remote=True
    )
    transaction_check_max: int = setting(15, key="transactionCheckMax", least=0, is_remote=True)

    # --- registration
    register_period_ms: int = setting(30_000, key="registerNameServerPeriod", least=1)
    register_timeout_ms: int = setting(24_000, key="registerBrokerTimeoutMills", least=1)
    is_registration_compressed: bool = setting(default=False, key="compressedRegister")

    log_level: LogLevel = setting(LogLevel.info, is_remote=True)

    @property
    def nameserver_addresses(self) -> tuple[str, ...]:
        """The addresses in `namesrvAddr`, in order, normally "host:port" each; they are not checked."""
        return tuple(part.strip() for part in self.nameservers.split(";") if part.strip())

    def check_role(self) -> None:
        """Refuse a broker id that does not fit the role, and a master with access control whose log anyone could copy.

        Members of a group that elects its leader are not checked.

        Raises:
            SettingsError: The broker would be a second master of its name, or a slave that is taken for a master; or
                nothing distinguishes its slaves from strangers.
        """
        if self.is_elected:
            return  # The election decides about both, and only members may copy the log.
        role, number = self.broker_role.name, self.broker_id
        if self.is_slave and not number:
            raise SettingsError(
                f"brokerRole={role} with brokerId=0: 0 is the id of the master; write brokerId=1, or another "
                "number above 0 that no other slave of this brokerName has"
            )
        if number and not self.is_slave:
            raise SettingsError(
                f"brokerId={number} with brokerRole={role}: an id above 0 is the id of a slave; write brokerId=0, or "
                "brokerRole=SLAVE"
            )
        self._check_copies()

    @property
    def are_slaves_proven(self) -> bool:
        """Whether a slave must prove its membership with a secret or a certificate, wherever it connects from."""
        return self.ha_secret_file is not None or self.are_clients_certified

    def _check_copies(self) -> None:
        """Raise SettingsError if access control is on, but any program could register as a slave and copy the log."""
        if not self.is_guarded or self.is_slave or not self.nameserver_addresses:
            return
        if not (self.are_slaves_proven or split_addresses(self.ha_allowed)):
            raise SettingsError(
                "access control is on, but no setting restricts who may copy the log, and any program could register "
                f"as a slave of {self.broker_name}. Write one of these lines into broker.conf: "
                "haSecretFile=/etc/cometmq/ha.secret (a file of 16 bytes or more with mode 0600, the same for each "
                "member), haAllowedAddresses=10.0.0.2 (the addresses of the slaves; Java slaves do not support the "
                "secret), haAllowedAddresses=127.0.0.1 (no slave on another machine), or "
                "tls.server.need.client.auth=require (and not tls.server.mode=permissive)"
            )

    def store_settings(self) -> StoreSettings:
        """Return the settings of the store; raise SettingsError as `StoreKeys.store_settings` does.

        A slave has no transientStorePool, because it must only acknowledge what survives its own death. RocketMQ 5.3.3
        gives a slave none either (DefaultMessageStore.isTransientStorePoolEnable).
        """
        settings = MetricsKeys.store_settings(self)
        return replace(settings, pool_buffers=0) if self.is_slave else settings

    @property
    def is_slave(self) -> bool:
        """Whether the broker replicates a master's log."""
        return self.broker_role is BrokerRole.SLAVE


def layers_of(
    conf: str | None, environment: Mapping[str, str], arguments: Sequence[str] = ()
) -> list[Layer]:
    """Return the layers of a broker's settings, from lowest to highest priority.

    From highest to lowest: flags, COMETMQ_* variables, changes by requests, conf file, NAMESRV_ADDR, TLS file; then the
    defaults, which are no layer.

    Raises:
        SettingsError: A file cannot be read, or a flag is unknown.
    """
    layers = []
    if environment.get("NAMESRV_ADDR"):
        layers.append(Layer("NAMESRV_ADDR", {"namesrvAddr": environment["NAMESRV_ADDR"]}))
    file = conf_file(BrokerSettings, conf, environment, arguments)
    of_environment, of_flags = file.above
    layers += file.layers()
    layers.append(of_environment)
    layers.append(asked_by_environment(UNSUPPORTED_KEYS, environment))
    layers.append(of_flags)
    return [*further_layers(layers, file.path, environment), *layers]


def load_settings(
    conf: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
) -> tuple[BrokerSettings, list[str]]:
    """Read the settings of a broker from its conf file, environment and flags (`layers_of`); return them with warnings.

    Raises:
        SettingsError: A file cannot be read or other users can read its secrets, a value is invalid or contradicts
            others, or a feature is required whose absence matters.
    """
    layers = layers_of(conf, os.environ if environment is None else environment, arguments)
    check_secret_files(BrokerSettings, layers)
    return settings_of(layers)


def changeable(
    settings: BrokerSettings, conf: ConfFile | None
) -> SettingsInForce[BrokerSettings]:
    """Return a broker's settings as an object that can change some; without a file, only until the next start."""

    def check(changed: BrokerSettings) -> None:
        changed.check_role()
        changed.check_replicas()
        changed.check_group()
        changed.store_settings()

    keeping = threading.Lock()

    def keep(values: Mapping[str, str]) -> None:
        if conf is not None:
            with keeping:  # Several threads may save values.
                conf.remember(values)

    return SettingsInForce(settings, check=check, keep=keep)


def settings_of(layers: Sequence[Layer]) -> tuple[BrokerSettings, list[str]]:
    """Merge layers of settings, the last with the highest precedence; return the settings with warnings.

    Raises:
        SettingsError: A value is invalid or contradicts others, or requires a feature whose absence matters.
    """
    settings, warnings = read_settings(BrokerSettings, layers, UNSUPPORTED_KEYS)
    settings.check_access()
    settings.check_replicas()
    settings.check_group()
    return settings, warnings + nameserver_hints(settings) + settings.group_hints()


def nameserver_hints(settings: BrokerSettings) -> list[str]:
    """Return warnings about invalid nameserver addresses; the broker starts all the same, as RocketMQ does."""
    hints = []
    for address in settings.nameserver_addresses:
        parts = re.split(r"[,\s]+", address)
        if len(parts) > 1:
            hints.append(
                f"namesrvAddr={settings.nameservers}: RocketMQ separates nameservers by ; so {address} is read as one "
                f"address, which does not exist; write {';'.join(filter(None, parts))}"
            )
            continue
        try:
            split_address(address)
        except ValueError as error:
            hints.append(f"namesrvAddr={settings.nameservers}: {address}: {error}")
    return hints
