"""Makes the access gate of a server from its settings; where access control is off, imports nothing of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cometmq.access.account_files import AccountFiles
    from cometmq.access.auth_users import AuthFile
    from cometmq.access.gate import AccessGate
    from cometmq.access.keys import AccessKeys
    from cometmq.model.clock import Clock


class AccessGuard(NamedTuple):
    """The gate of a server, and what is behind it.

    Attributes:
        gate: asks requests; None: there is no access control.
        accounts: those of ACL 1.0.
        users: those of Auth 2.0.
    """

    gate: AccessGate | None = None
    accounts: AccountFiles | None = None
    users: AuthFile | None = None


def access_guard(
    settings: AccessKeys, clock: Clock, *, folder: str | None, cluster: str = ""
) -> AccessGuard:
    """Make the access gate that the settings ask for.

    Args:
        settings: of the server.
        clock: time.
        folder: of users and policies, where settings name none.
        cluster: its name.

    Raises:
        SettingsError: something cannot be used; the message says which.
        OSError: users could not be written.
    """
    if not settings.is_guarded:
        return AccessGuard()
    from cometmq.access.gate import AccessGate
    from cometmq.access.known_users import known_accounts, known_users
    from cometmq.access.login_failures import LoginFailures

    gate = partial(
        AccessGate,
        is_admin_without_tls=settings.is_admin_without_tls,
        failures=LoginFailures(clock),
    )
    if settings.is_acl_enabled:
        accounts = known_accounts(settings)
        return AccessGuard(gate(accounts), accounts=accounts)
    users = known_users(settings, settings.auth_path or folder, cluster)
    return AccessGuard(gate(users), users=users)
