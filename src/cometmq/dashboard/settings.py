"""Settings of the dashboard: where it listens, whom it asks, where its files lie."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cometmq.client import Credentials
from cometmq.model.errors import SettingsError

PORT = 8082  # As RocketMQ's own dashboard.
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardSettings:
    """Of a dashboard.

    Attributes:
        nameservers: "ip:port;ip:port"; None: NAMESRV_ADDR, then 127.0.0.1:9876.
        data_dir: where its users and its audit lie; made if missing, its owner's alone.
        host: address to listen on.
        port: 0 takes a free one.
        host_names: names besides those of loopback and `host` by which browsers may reach it.
        certificate: PEM file with the certificate, and those that signed it.
        key: PEM file with its private key.
        is_behind_proxy: a proxy in front of it ends TLS; what it says of a browser's address is believed.
        proxies: the proxy's addresses, from which connections come.
        credentials: what is asked with for users of the dashboard's own; None: those of the environment.
        job_folders: where outputs of Spark's jobs lie, whose runs are shown.
        sample_seconds: between two looks at the brokers.

    Raises:
        SettingsError: passwords would go over a network in the clear, or a value cannot be used.
    """

    nameservers: str | None = None
    data_dir: Path = Path("cometmq-dashboard")
    host: str = "127.0.0.1"
    port: int = PORT
    host_names: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    is_behind_proxy: bool = False
    proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    credentials: Credentials | None = None
    job_folders: tuple[Path, ...] = ()
    sample_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Look at what belongs together."""
        if (self.certificate is None) != (self.key is None):
            raise SettingsError("a certificate and its key go together: name both, or none")
        if not (self.is_secure or is_loopback(self.host)):
            raise SettingsError(
                f"on {self.host} passwords would go over the network in the clear: name a certificate and its key, "
                "or say that a proxy in front of it ends TLS (--behind-proxy)"
            )
        for proxy in self.proxies:
            try:
                ipaddress.ip_address(proxy)
            except ValueError:
                raise SettingsError(
                    f"{proxy!r:.80} is no IP address: --proxy names the address from which the proxy connects"
                ) from None
        if not 0.1 <= self.sample_seconds <= 3600:
            raise SettingsError(f"sample_seconds={self.sample_seconds}: write 0.1 to 3600")

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach it by TLS."""
        return self.certificate is not None or self.is_behind_proxy

    @property
    def allowed_hosts(self) -> frozenset[str]:
        """The names that a request's Host may have, without a port."""
        own = f"[{self.host}]" if ":" in self.host else self.host
        return frozenset(
            name.lower() for name in (*LOOPBACK_NAMES, own, *self.host_names) if name
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
