"""Settings of the dashboard: its address, the cluster that it shows, and its files."""

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path

from cometmq import Credentials, TlsSettings
from cometmq.admin import IgnoreList
from cometmq.model.address import is_loopback
from cometmq.model.errors import SettingsError
from cometmq.model.text import in_quotes

PORT = 8082  # As RocketMQ's own dashboard.
_LOOPBACK = ("127.0.0.1", "::1")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class DashboardCluster:
    """One of several clusters of a dashboard.

    Attributes:
        name: Its name on the pages and in their addresses: up to 64 letters, digits and `. _ -`, a letter or digit first.
        nameservers: Addresses of its nameservers, "ip:port;ip:port"; None for NAMESRV_ADDR, then 127.0.0.1:9876.
        credentials: Sign requests of the dashboard and its own users; None: those of the environment, if any.
        tls: Encryption of all connections to it; None: that of the environment, if any.
    """

    name: str
    nameservers: str | None
    credentials: Credentials | None = None
    tls: TlsSettings | None = None


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
        is_behind_proxy: Whether a proxy in front ends TLS; headers of the proxy with a browser's address are trusted.
        proxies: IP addresses from which the proxy connects; empty: loopback addresses.
        user_header: Header in which the proxy names the user whom it has logged in; empty: users log in here.
        groups_header: Header in which it lists the user's groups, with commas; empty: roles are those of the users file.
        admin_groups: Groups whose users are admins; the others are readers.
        credentials: Sign requests of the dashboard and its own users; None: those of the environment, if any.
        clusters: Several clusters instead of the one of `nameservers`, each with pages of its own.
        job_folders: Folders with outputs of Spark jobs, whose runs are shown.
        sample_seconds: Pause between two polls of the brokers, seconds, 0.1 to 3600.
        ignore_file: Findings that the doctor leaves out, one `CHECK` or `CHECK:OBJECT` a line; read anew for each page.

    Raises:
        SettingsError: An unusable ignore file; cleartext passwords on a network; certificate or key alone; invalid
            `proxies`, `sample_seconds` or names of clusters; a header of users without a named proxy, or groups without theirs.
    """

    nameservers: str | None = None
    data_dir: Path = Path("cometmq-dashboard")
    host: str = "127.0.0.1"
    port: int = PORT
    host_names: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    is_behind_proxy: bool = False
    proxies: tuple[str, ...] = ()
    user_header: str = ""
    groups_header: str = ""
    admin_groups: tuple[str, ...] = ()
    credentials: Credentials | None = None
    clusters: tuple[DashboardCluster, ...] = ()
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
        self._check_headers()
        names = [each.name for each in self.clusters]
        if len({*names}) < len(names) or not all(map(_CLUSTER.fullmatch, names)):
            raise SettingsError(
                f"the clusters {in_quotes(', '.join(names), 200)} need different names of up to 64 letters, digits and . _ -, "
                "a letter or digit first"
            )
        if not 0.1 <= self.sample_seconds <= 3600:
            raise SettingsError(f"sample_seconds={self.sample_seconds}: write 0.1 to 3600")

    def _check_headers(self) -> None:
        for option, header in (
            ("--user-header", self.user_header),
            ("--groups-header", self.groups_header),
        ):
            if header and not _HEADER.fullmatch(header):
                raise SettingsError(
                    f"{option} {in_quotes(header, 80)} is not the name of a header; use letters, digits and -"
                )
        if self.user_header and not (self.is_behind_proxy and self.proxies):
            raise SettingsError(
                "--user-header needs --behind-proxy and --proxy with each address from which the proxy connects: any "
                "program that connects from there can be any user"
            )
        if bool(self.groups_header) != bool(self.admin_groups):
            raise SettingsError("--groups-header and --admin-group belong together")
        if self.groups_header and not self.user_header:
            raise SettingsError("--groups-header needs --user-header")

    def ignored(self) -> IgnoreList:
        """Read the list of findings that the doctor leaves out; raise SettingsError if its file is unusable."""
        return IgnoreList.read(self.ignore_file)

    @property
    def trusted_proxies(self) -> tuple[str, ...]:
        """The addresses of the proxy in front; empty without one."""
        return (self.proxies or _LOOPBACK) if self.is_behind_proxy else ()

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
