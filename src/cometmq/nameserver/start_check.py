"""Checks settings before a nameserver opens anything; `-p` and `cometmq config check` run them without starting it."""

import os

from cometmq.model.address import PortClaim, metrics_claim
from cometmq.nameserver.settings import NameServerSettings
from cometmq.store.folder_check import check_writable


def ports_of(settings: NameServerSettings, host: str) -> list[PortClaim]:
    """Return the ports on which a nameserver that listens on `host` will listen, without those that the system chooses."""
    claims = []
    if settings.listen_port:
        claims.append(PortClaim("listenPort", host, settings.listen_port, is_needed=True))
    if settings.metrics_port:
        claims.append(metrics_claim(settings.metrics_host, settings.metrics_port))
    return claims


def _check_folder(settings: NameServerSettings) -> None:
    if settings.kv_config_path:
        folder = os.path.dirname(os.path.abspath(settings.kv_config_path))  # noqa: PTH100, PTH120
        check_writable("kvConfigPath", folder)


def _check_users(settings: NameServerSettings) -> None:
    """If access control is on, check accounts or users as a start would, without storing those that it would create."""
    if not settings.is_guarded:
        return
    from cometmq.access.known_users import known_accounts, known_users

    if settings.is_acl_enabled:
        known_accounts(settings)
    else:
        known_users(settings, settings.auth_path, settings.cluster_name, is_dry=True)


# Each raises SettingsError or OSError for what would end the start.
CHECKS = (
    NameServerSettings.check_access,
    NameServerSettings.check_client_files,
    _check_users,
)
# Only needed when a key-value configuration is stored.
LATER_CHECKS = (_check_folder,)
