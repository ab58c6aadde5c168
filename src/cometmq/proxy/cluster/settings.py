"""Settings of the gRPC proxy of a cluster: keys of RocketMQ's `rmq-proxy.json` (5.3.3), and of CometMQ only.

Differs: without `bindAddress` the proxy listens on loopback only, unless it has a container's network for itself.
"""

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from cometmq.access.keys import AccessKeys, check_secret_files, further_layers
from cometmq.model.errors import SettingsError
from cometmq.model.frozen import dataclass
from cometmq.model.judged_keys import read_settings
from cometmq.model.settings import Layer, environment_layer, flags_layer, setting
from cometmq.model.text import error_text
from cometmq.model.unsupported import TLS, Unsupported, is_true
from cometmq.process.program_log import LogLevel

PORT_DEFAULT = 8081


class ProxyMode(Enum):
    """The modes of RocketMQ's proxy; `local` is refused, because here a broker is its own proxy."""

    cluster = "CLUSTER"
    local = "LOCAL"


# Keys that a start refuses or warns of by name.
UNSUPPORTED_KEYS = (
    TLS,
    Unsupported(
        ("enableACL", "enableAclRpcHookForClusterMode"),
        "write aclEnable=true, or authenticationEnabled=true, and see that the files of accounts or users are there",
    ),
    Unsupported(
        ("proxyMode",),
        "a broker serves gRPC clients itself: write grpcServerPort into its broker.conf instead",
        asks=lambda text: text.upper() == "LOCAL",
    ),
    Unsupported(
        ("remotingListenPort", "remotingAccessAddr"),
        "this proxy has no remoting port; let clients of 4.x connect to nameservers and brokers",
        asks=lambda text: text not in ("", "0"),
        is_refused=False,
    ),
    Unsupported(
        ("useDelayLevel",),
        "messages have a delivery time, not a level",
        is_true,
        is_refused=False,
    ),
)


@dataclass(frozen=True, slots=True)
class ProxySettings(AccessKeys):
    """Settings of a proxy.

    Attributes:
        cluster_name: Cluster of the brokers; Auth 2.0 policies for `Cluster:NAME` must name it.
        nameservers: Nameservers of the cluster, "host:port;host:port".
        proxy_mode: CLUSTER.
        bind_address: Address to listen on; None is loopback, or all addresses in a container with its own network (CometMQ
            only).
        grpc_port: Port of gRPC clients; 0 selects a free one. Several proxies of a machine may share it.
        grpc_access_address: The "host:port" in the routes of clients; empty: the one that they use (CometMQ only).
        body_size_max: Largest body of a message, bytes.
        delay_ms_max: How far ahead the delivery time of a message may be, ms; brokers have a limit of their own.
        idle_seconds: Seconds of silence after which a client without an open call is forgotten.
        log_level: Lowest level of the lines of the log: debug, info, warning or error (CometMQ only).
    """

    cluster_name: str = setting("DefaultCluster", key="rocketMQClusterName")
    nameservers: str = setting("", key="namesrvAddr")
    proxy_mode: ProxyMode = setting(ProxyMode.cluster)
    bind_address: str | None = setting(None, is_host=True)
    grpc_port: int = setting(PORT_DEFAULT, key="grpcServerPort", least=0, most=65_535)
    grpc_access_address: str = setting("", key="grpcAccessAddr")
    body_size_max: int = setting(4 << 20, key="maxMessageSize", least=1)
    delay_ms_max: int = setting(259_200_000, key="maxDelayTimeMills", least=0)
    idle_seconds: int = setting(120, key="channelExpiredInSeconds", least=1)
    log_level: LogLevel = setting(LogLevel.info)


def layers_of(
    path: str | None, environment: Mapping[str, str], arguments: Sequence[str] = ()
) -> list[Layer]:
    """Return the layers of a proxy's settings, from lowest to highest priority: `rmq-proxy.json`, environment, flags.

    Raises SettingsError if the file cannot be read or is no JSON object, or a flag is unknown.
    """
    layers = [
        *([file_layer(path)] if path else []),
        environment_layer(ProxySettings, environment),
        flags_layer(ProxySettings, arguments),
    ]
    return [*further_layers(layers, path, environment), *layers]


def file_layer(path: str) -> Layer:
    """Return the settings of a JSON file; raise SettingsError if it cannot be read or is no JSON object."""
    absolute = str(Path(path).absolute())
    try:
        values: Any = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise SettingsError(f"{absolute}: {error_text(error)}") from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{absolute}: this is not valid JSON: {error}") from None
    if not isinstance(values, dict):
        raise SettingsError(f"{absolute}: this is not a JSON object")
    return Layer(absolute, {key: _text_of(value) for key, value in values.items()})


def _text_of(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def read_proxy_settings(
    path: str | None, arguments: Sequence[str], environment: Mapping[str, str]
) -> tuple[ProxySettings, list[str]]:
    """Read a proxy's settings from file, environment and flags; return them and warnings.

    Raises:
        SettingsError: A file cannot be read, or a setting cannot be used.
    """
    layers = layers_of(path, environment, arguments)
    check_secret_files(ProxySettings, layers)
    settings, warnings = read_settings(ProxySettings, layers, UNSUPPORTED_KEYS)
    settings.check_access()
    return settings, warnings
