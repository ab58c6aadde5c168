"""Settings of the nameserver: keys of RocketMQ 5.3.3 (nameserver, network, access control, TLS) and of CometMQ only.

A `namesrv.conf` written for Java can usually be used unchanged. A difference: without `bindAddress` the nameserver
listens on loopback only, unless it has a container's network for itself (docs/compatibility.md).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from cometmq.access.keys import AccessKeys, check_secret_files, further_layers
from cometmq.model.frozen import dataclass
from cometmq.model.judged_keys import read_settings
from cometmq.model.settings import Layer, setting
from cometmq.model.unsupported import BLACK_LIST, TLS
from cometmq.process.program_log import LogLevel
from cometmq.store.conf_file import ConfFile, conf_file

PORT_DEFAULT = 9876

_HOME = str(Path("~/namesrv").expanduser())

# Keys that a start refuses or warns of by name.
UNSUPPORTED_KEYS = (TLS, BLACK_LIST)


@dataclass(frozen=True, slots=True)
class NameServerSettings(AccessKeys):
    """Settings of a nameserver.

    Attributes:
        bind_address: Address to listen on; None is loopback, or all addresses in a container with its own network.
        listen_port: Port to listen on; 0 selects a free one.
        idle_seconds_max: Seconds of silence after which a connection is closed; at most 15 if it never sent anything.
        kv_config_path: File of the key-value configuration; None keeps it in memory only.
        scan_interval_ms: Minimum time between checks for silent brokers, ms.
        is_order_message_enabled: Whether routes contain the order configuration of their topic.
        is_order_config_returned: Whether answers to registrations contain the order configurations.
        is_all_topic_list_enabled: Whether GET_ALL_TOPIC_LIST_FROM_NAMESERVER 206 is answered.
        is_topic_list_enabled: Whether GET_TOPICS_BY_CLUSTER 224 and the lists of unit topics are answered.
        is_acting_master_supported: Whether a slave may take the place of its lost master in routes of read-only topics.
        deletes_missing_topics: Whether a registration may remove topics of the broker that it does not name.
        waits_for_brokers: Whether routes are refused for the first `wait_seconds` after the start.
        wait_seconds: Seconds in which all brokers are expected to register.
        missing_hours: Hours for which a broker that left is remembered at most (CometMQ only); 0: not at all.
        cluster_name: Cluster that Auth 2.0 policies for `Cluster:NAME` must name (clusterName of AuthConfig).
        metrics_host: Host on which /metrics, /healthz and /readyz are served (CometMQ only).
        metrics_port: Port of these; None: not served; 0 selects a free one, which the log names.
        log_level: Lowest level of the lines of the log: debug, info, warning or error (CometMQ only).
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
    log_level: LogLevel = setting(LogLevel.info, is_remote=True)

    # Not implemented; setting them causes a warning.
    is_min_id_change_notified: bool = setting(
        False, key="notifyMinBrokerIdChanged", has_effect=False
    )
    is_controller_enabled: bool = setting(
        False, key="enableControllerInNamesrv", has_effect=False
    )


def layers_of(
    path: str | None, environment: Mapping[str, str], arguments: Sequence[str] = ()
) -> list[Layer]:
    """Return the layers of a nameserver's settings, from lowest to highest priority.

    Raises SettingsError if a file cannot be read, or a flag is unknown.
    """
    return _layers(conf_file(NameServerSettings, path, environment, arguments), environment)


def _layers(file: ConfFile, environment: Mapping[str, str]) -> list[Layer]:
    layers = [*file.layers(), *file.above]
    return [*further_layers(layers, file.path, environment), *layers]


def read_nameserver_settings(
    path: str | None, arguments: Sequence[str], environment: Mapping[str, str]
) -> tuple[NameServerSettings, ConfFile, list[str]]:
    """Read a nameserver's settings from file, environment and flags; return them, the `ConfFile`, and warnings.

    Args:
        path: Path of a Java properties file, or None.
        arguments: Flags such as `--listen-port 0`.
        environment: Environment of the process, with COMETMQ_* variables.

    Raises:
        SettingsError: A file cannot be read, or a setting cannot be used.
    """
    file = conf_file(NameServerSettings, path, environment, arguments)
    layers = _layers(file, environment)
    check_secret_files(NameServerSettings, layers)
    settings, warnings = read_settings(NameServerSettings, layers, UNSUPPORTED_KEYS)
    settings.check_access()
    return settings, file, warnings
