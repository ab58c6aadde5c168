"""Settings of access control, TLS and connections per address for brokers and nameservers."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cometmq.access.auth_keys import AuthKeys
from cometmq.model.credentials import Credentials, read_credentials
from cometmq.model.errors import SettingsError
from cometmq.model.frozen import dataclass
from cometmq.model.settings import Layer, secret_names, setting
from cometmq.net.tls_keys import tls_layers

ACL_ENABLE, ACL_FOLDER, ROCKETMQ_HOME = "aclEnable", "aclFolder", "rocketmqHome"
MIGRATE = "migrateAuthFromV1Enabled"


@dataclass(frozen=True, slots=True)
class AccessKeys(AuthKeys):
    """Settings of access control, TLS and connections per address for brokers and nameservers.

    Attributes:
        is_own_machine_trusted: peers on this machine may administrate without access control, and need neither TLS nor
            a limit on wrong signatures; set false if anything on this machine forwards connections of others (haproxy,
            stunnel, docker-proxy, `ssh -R`, a sidecar); not a key of RocketMQ.
        connections_per_address_max: maximum number of connections per address (IPv6: per /64) other than this machine;
            not a key of RocketMQ.
        is_acl_enabled: ACL 1.0 of RocketMQ 4.9: accounts in `plain_acl.yml` and `acl/**/*.yml` sign the requests.
        acl_folder: folder of these files; default: `conf` below `rocketmqHome` or ROCKETMQ_HOME, otherwise the folder
            of the configuration file; not a key of RocketMQ.
        is_white_unsigned: white addresses in these files need not sign; differs: RocketMQ always lets them pass; not a
            key of RocketMQ.
        is_admin_without_tls: with access control, accept changes by administrators on other machines without TLS; not a
            key of RocketMQ.
        inner_credentials: credentials that sign the server's own requests, `{"accessKey":"...","secretKey":"..."}`;
            never shown, and not accepted as a flag.
    """

    is_own_machine_trusted: bool = setting(default=True, key="ownMachineIsTrusted")
    connections_per_address_max: int = setting(200, key="connectionsPerAddressMax", least=1)
    is_acl_enabled: bool = setting(
        default=False,
        key=ACL_ENABLE,
        differs="batch sends and reads are checked as well (operate/security.md)",
    )
    acl_folder: str | None = setting(None)
    is_white_unsigned: bool = setting(default=False, key="aclWhiteAddressesUnsigned")
    is_admin_without_tls: bool = setting(default=False, key="adminWithoutTls")
    inner_credentials: str = setting(
        "", key="innerClientAuthenticationCredentials", is_secret=True
    )

    @property
    def is_guarded(self) -> bool:
        """Whether access control is on."""
        return self.is_acl_enabled or self.is_authentication_enabled

    def account_folder(self) -> str:
        """Return the folder of the files of accounts. Raises SettingsError if no setting names it."""
        if not self.acl_folder:
            raise SettingsError(
                "aclEnable=true needs account files, but there is no configuration file with a folder for them: "
                f"set {ACL_FOLDER} to the folder of plain_acl.yml"
            )
        return self.acl_folder

    def check_access(self) -> None:
        """Check the settings of access control and TLS. Raises SettingsError if they cannot be used."""
        self.credentials()
        self.server_tls()
        self.client_tls()
        self.check_auth()
        if self.is_acl_enabled and self.is_authentication_enabled:
            raise SettingsError(
                "aclEnable=true and authenticationEnabled=true exclude each other: set one of them; "
                "migrateAuthFromV1Enabled=true converts accounts to users"
            )
        if self.is_acl_enabled or (self.is_authentication_enabled and self.is_migrated):
            self.account_folder()

    def credentials(self) -> Credentials | None:
        """Return the credentials for the server's own requests, or None. Raises SettingsError if they are malformed."""
        if not self.inner_credentials:
            return None
        return read_credentials(self.inner_credentials, "innerClientAuthenticationCredentials")


def further_layers(
    layers: Sequence[Layer], conf: str | None, environment: Mapping[str, str]
) -> list[Layer]:
    """Return the layers of lowest priority, at most two: the default folder of accounts, and the TLS file.

    Raises SettingsError if the file that `tls.config.file` names cannot be read.
    """
    return [*folder_layers(layers, conf, environment), *tls_layers(layers)]


def folder_layers(
    layers: Iterable[Layer], conf: str | None, environment: Mapping[str, str]
) -> list[Layer]:
    """Return a list with a layer for the default folder of accounts; empty unless `aclFolder` is needed but not set.

    The default is `conf` below rocketmqHome or ROCKETMQ_HOME, otherwise the folder of the configuration file `conf`;
    without both the list is empty.
    """
    values = {key: text.strip() for layer in layers for key, text in layer.values.items()}
    is_wanted = any(values.get(key, "").lower() == "true" for key in (ACL_ENABLE, MIGRATE))
    if not is_wanted or values.get(ACL_FOLDER):
        return []
    home = values.get(ROCKETMQ_HOME) or environment.get("ROCKETMQ_HOME")
    if home:
        folder = Path(home) / "conf"
    elif conf:
        folder = Path(conf).parent
    else:
        return []
    return [Layer("beside the configuration", {ACL_FOLDER: str(folder.absolute())})]


def check_secret_files(kind: type, layers: Sequence[Layer]) -> None:
    """Raise SettingsError if the mode of a configuration file with secrets gives access to others than owner and group."""
    secrets = secret_names(kind)
    for layer in layers:
        held = [key for key, text in layer.values.items() if key in secrets and text.strip()]
        # Layers without a path come from the environment or the program.
        if held and layer.origin.startswith("/") and os.stat(layer.origin).st_mode & 0o007:  # noqa: PTH116
            raise SettingsError(
                f"{layer.origin} contains {', '.join(held)}, but other users may read it; run chmod 600"
            )
