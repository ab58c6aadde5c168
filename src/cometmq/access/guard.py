"""Creation of a server's access gate from its settings; imports the rest only if access control is on."""

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
    """The gate of a server and its users.

    Attributes:
        gate: Checks requests; None without access control.
        accounts: Accounts of ACL 1.0, or None.
        users: Users of Auth 2.0, or None.
    """

    gate: AccessGate | None = None
    accounts: AccountFiles | None = None
    users: AuthFile | None = None


def access_guard(
    settings: AccessKeys, clock: Clock, *, folder: str | None, cluster: str = ""
) -> AccessGuard:
    """Create the gate and load the users that the settings ask for; empty (no gate) without access control.

    `folder` has the users and policies, if the settings name no folder; failed signatures are counted by `clock`.

    Raises:
        SettingsError: A setting or file cannot be used, or there is no account (ACL 1.0) or enabled Super user (Auth 2.0).
        OSError: The users cannot be read or written.
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
