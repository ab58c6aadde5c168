"""Settings of the nameserver: the keys of NamesrvConfig and NettyServerConfig of RocketMQ 5.3.3.

A `namesrv.conf` written for Java is read as it is. The one default that differs: without
`bindAddress` it listens on loopback only (docs/compatibility.md).
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cometmq.access.auth_keys import AUTH_KEYS_WITHOUT_EFFECT
from cometmq.access.keys import AccessKeys, check_secret_files, further_layers
from cometmq.model.frozen import dataclass
from cometmq.model.settings import environment_layer, flags_layer, read_settings, setting
from cometmq.model.unsupported import TLS, judge
from cometmq.store.conf_file import ConfFile
from cometmq.store.real_disk import RealDisk

LOOPBACK = "127.0.0.1"
PORT_DEFAULT = 9876

_HOME = str(Path("~/namesrv").expanduser())

# Java's threads, queues, buffers and paths, and the keys of NettyClientConfig: here is one loop, and
# it has none of them.
KEYS_WITHOUT_EFFECT = frozenset(
    """
    rocketmqHome configStorePath configBlackList productEnvName clusterTest
    clientRequestThreadPoolNums defaultThreadPoolNums clientRequestThreadPoolQueueCapacity
    defaultThreadPoolQueueCapacity unRegisterBrokerQueueCapacity
    serverWorkerThreads serverCallbackExecutorThreads serverSelectorThreads
    serverOnewaySemaphoreValue serverAsyncSemaphoreValue serverSocketSndBufSize
    serverSocketRcvBufSize writeBufferHighWaterMark writeBufferLowWaterMark serverSocketBacklog
    serverNettyWorkerGroupEnable serverPooledByteBufAllocatorEnable enableShutdownGracefully
    shutdownWaitTimeSeconds useEpollNativeSelector
    clientWorkerThreads clientCallbackExecutorThreads clientOnewaySemaphoreValue
    clientAsyncSemaphoreValue connectTimeoutMillis channelNotActiveInterval
    clientChannelMaxIdleTimeSeconds clientSocketSndBufSize clientSocketRcvBufSize
    clientPooledByteBufAllocatorEnable clientCloseSocketIfTimeout
    """.split()  # noqa: SIM905  One to a line would be a page.
)


@dataclass(frozen=True, slots=True)
class NameServerSettings(AccessKeys):
    """Settings of a nameserver.

    Attributes:
        bind_address: where it listens; None is loopback.
        listen_port: its port; 0 takes a free one.
        idle_seconds_max: a connection that is silent for longer is closed.
        kv_config_path: the file of the key-value configuration; None keeps it in memory only.
        scan_interval_ms: pause between looks for silent brokers.
        is_order_message_enabled: routes carry the order configuration of their topic.
        is_order_config_returned: so do answers to registrations.
        is_all_topic_list_enabled: 206 is answered.
        is_topic_list_enabled: 224 and the lists of unit topics are answered.
        is_acting_master_supported: a slave stands in for its lost master in routes.
        deletes_missing_topics: a registration without a topic removes it for that broker.
        waits_for_brokers: routes are refused for the first `wait_seconds` after the start.
        wait_seconds: long enough for all brokers to have registered.
        missing_hours: a broker that left without a word is remembered so long (ours alone); 0: not.
        cluster_name: The cluster that policies of Auth 2.0 for `Cluster:NAME` mean at this nameserver (clusterName of AuthConfig).
        metrics_host: where /metrics and /healthz are served (ours alone).
        metrics_port: and on which port; None: they are not; 0 takes a free one, which the log names.
    """

    bind_address: str | None = setting(None, is_host=True)
    listen_port: int = setting(PORT_DEFAULT, least=0, most=65_535)
    idle_seconds_max: int = setting(120, key="serverChannelMaxIdleTimeSeconds", least=1)
    kv_config_path: str | None = setting(f"{_HOME}/kvConfig.json")
    scan_interval_ms: int = setting(5000, key="scanNotActiveBrokerInterval", least=1)
    is_order_message_enabled: bool = setting(False, key="orderMessageEnable", is_remote=True)
    is_order_config_returned: bool = setting(
        True, key="returnOrderTopicConfigToBroker", is_remote=True
    )
    is_all_topic_list_enabled: bool = setting(True, key="enableAllTopicList", is_remote=True)
    is_topic_list_enabled: bool = setting(True, key="enableTopicList", is_remote=True)
    is_acting_master_supported: bool = setting(False, key="supportActingMaster", is_remote=True)
    deletes_missing_topics: bool = setting(
        False, key="deleteTopicWithBrokerRegistration", is_remote=True
    )
    waits_for_brokers: bool = setting(False, key="needWaitForService", is_remote=True)
    wait_seconds: int = setting(45, key="waitSecondsForService", least=0, is_remote=True)

    missing_hours: int = setting(72, key="missingBrokerReservedTime", least=0)
    cluster_name: str = setting("")
    metrics_host: str = setting("127.0.0.1", key="metricsPromExporterHost", is_host=True)
    metrics_port: int | None = setting(
        None, key="metricsPromExporterPort", least=0, most=65_535
    )

    # Not built yet: whoever switches them on is told.
    is_min_id_change_notified: bool = setting(
        False, key="notifyMinBrokerIdChanged", has_effect=False
    )
    is_controller_enabled: bool = setting(
        False, key="enableControllerInNamesrv", has_effect=False
    )

    @property
    def listen_host(self) -> str:
        """The host on which it listens."""
        return self.bind_address or LOOPBACK


def read_nameserver_settings(
    conf_file: str | None, arguments: Sequence[str], environment: Mapping[str, str]
) -> tuple[NameServerSettings, ConfFile, list[str]]:
    """The settings that a command line asks for, where changes of them go, and warnings.

    Args:
        conf_file: path of a Java properties file, or None.
        arguments: flags such as `--listen-port 0`.
        environment: the process's; COMETMQ_* variables count.

    Raises:
        SettingsError: the file cannot be read, or a value cannot be used.
    """
    path = os.path.abspath(conf_file) if conf_file else None  # noqa: PTH100  The disk port takes texts.
    conf = ConfFile(path, RealDisk())
    layers = [
        *conf.layers(),
        environment_layer(NameServerSettings, environment),
        flags_layer(NameServerSettings, arguments),
    ]
    layers = [*further_layers(layers, path, environment), *layers]
    check_secret_files(NameServerSettings, layers)
    settings, warnings = read_settings(
        NameServerSettings,
        layers,
        also_known=KEYS_WITHOUT_EFFECT.union(TLS.keys, AUTH_KEYS_WITHOUT_EFFECT),
    )
    settings.check_access()
    return settings, conf, warnings + judge((TLS,), layers)
