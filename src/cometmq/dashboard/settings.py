"""Settings of the dashboard: its address, the cluster that it shows, and its files."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cometmq import Credentials
from cometmq.admin import IgnoreList
from cometmq.model.address import is_loopback
from cometmq.model.errors import SettingsError
from cometmq.model.text import in_quotes

PORT = 8082  # As RocketMQ's own dashboard.
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardSettings:
    """Settings of a dashboard.

    Attributes:
        nameservers: Addresses of the nameservers, "ip:port;ip:port"; None for NAMESRV_ADDR, then 127.0.0.1:9876.
        data_dir: Folder of its users and audit; created, for its owner only, if missing.
        host: Address to listen on.
        port: Port to listen on; 0 for a free one.
        host_names: Names by which browsers may reach it, in addition to loopback names and `host`.
        certificate: PEM file with the certificate and its chain.
        key: PEM file with the private key.
        is_behind_proxy: Whether a proxy in front ends TLS; headers of `proxies` with a browser's address are trusted.
        proxies: IP addresses from which the proxy connects.
        credentials: Sign requests of the dashboard and its own users; None: those of the environment, if any.
        job_folders: Folders with outputs of Spark jobs, whose runs are shown.
        sample_seconds: Pause between two polls of the brokers, seconds, 0.1 to 3600.
        ignore_file: Findings that the doctor leaves out, one `CHECK` or `CHECK:OBJECT` a line; read anew for each page.

    Raises:
        SettingsError: An unusable ignore file; cleartext passwords on a network; certificate or key alone; invalid
            `proxies` or `sample_seconds`.
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
    ignore_file: Path | None = None

    def __post_init__(self) -> None:
        self.ignored()
        if (self.certificate is None) != (self.key is None):
            raise SettingsError("--tls-cert and --tls-key belong together: set both or neither")
        if not (self.is_secure or is_loopback(self.host)):
            raise SettingsError(
                f"on {self.host} passwords would go over the network in cleartext: set --tls-cert and --tls-key, "
                "or --behind-proxy if a reverse proxy terminates TLS"
            )
        for proxy in self.proxies:
            try:
                ipaddress.ip_address(proxy)
            except ValueError:
                raise SettingsError(
                    f"--proxy {in_quotes(proxy, 80)} is not an IP address; name the address from which the proxy "
                    "connects"
                ) from None
        if not 0.1 <= self.sample_seconds <= 3600:
            raise SettingsError(f"sample_seconds={self.sample_seconds}: write 0.1 to 3600")

    def ignored(self) -> IgnoreList:
        """Read the list of findings that the doctor leaves out; raise SettingsError if its file is unusable."""
        return IgnoreList.read(self.ignore_file)

    @property
    def is_secure(self) -> bool:
        """Whether, by these settings, browsers reach the dashboard by TLS, its own or that of a proxy."""
        return self.certificate is not None or self.is_behind_proxy

    @property
    def allowed_hosts(self) -> frozenset[str]:
        """The host names, without port, that a request may have in its Host header."""
        own = f"[{self.host}]" if ":" in self.host else self.host
        return frozenset(
            name.lower() for name in (*LOOPBACK_NAMES, own, *self.host_names) if name
        )
