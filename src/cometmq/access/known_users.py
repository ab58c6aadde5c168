"""Loading of a server's users: accounts of ACL 1.0, or users of Auth 2.0."""

import os
from pathlib import Path
from typing import Any

from cometmq.access.account_files import AccountFiles
from cometmq.access.accounts import Account, Permission
from cometmq.access.auth_users import AuthFile, AuthUser
from cometmq.access.keys import AccessKeys
from cometmq.access.policies import ALL, ALLOW, CUSTOM, DEFAULT, DENY, read_policies
from cometmq.model.errors import SettingsError

AUTH_FILE = "auth.json"


def known_accounts(settings: AccessKeys) -> AccountFiles:
    """Load the accounts of ACL 1.0; SettingsError without a folder or account or for a bad file, OSError if examining the paths fails."""
    return AccountFiles(settings.account_folder(), is_white_unsigned=settings.is_white_unsigned)


def known_users(settings: AccessKeys, folder: str | None, cluster: str) -> AuthFile:
    """Load the users of Auth 2.0; make those in the settings Super users, and add accounts of ACL 1.0 if migration is on.

    Raises:
        SettingsError: No folder is named, a setting or a file cannot be used, or there is no enabled Super user.
        OSError: The folder or a file cannot be read or written.
    """
    if folder is None:
        raise SettingsError(
            "authenticationEnabled=true needs authConfigPath: set it to the folder of users and policies"
        )
    Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    users = AuthFile(
        os.path.join(folder, AUTH_FILE),  # noqa: PTH118
        cluster=cluster,
        is_authorized=settings.is_authorization_enabled,
        unasked=settings.open_codes(),
        unauthorized=settings.spared_codes(),
    )
    first, inner = settings.first_user(), settings.credentials()
    if first is not None:
        users.ensure_super(*first)
    if inner is not None:
        users.ensure_super(inner.access_key, inner.secret_key)
    if settings.is_migrated:
        accounts = AccountFiles(settings.account_folder()).current.accounts
        users.add_all({name: user_of(users, account) for name, account in accounts.items()})
    if not any(user.is_super and user.is_enabled for user in users.current.users.values()):
        raise SettingsError(
            f"authenticationEnabled=true, but {users.path} has no Super user, so no user could create users: set one "
            "in initAuthenticationUser"
        )
    return users


def user_of(users: AuthFile, account: Account) -> AuthUser:
    """Return a user, not stored yet, for an account of ACL 1.0, as AuthMigrator does; white addresses are dropped."""
    custom = [_entry(f"Topic:{name}", held) for name, held in account.topics.items()]
    custom += [_entry(f"Group:{name}", held) for name, held in account.groups.items()]
    default = [
        _entry("Topic:*", account.default_topic), _entry("Group:*", account.default_group),
    ]  # fmt: skip
    policies = read_policies(
        [
            {"policyType": CUSTOM, "entries": custom},
            {"policyType": DEFAULT, "entries": default},
        ]
    )
    return users.made(
        name=account.name,
        secret=account.secret,
        is_super=account.is_super,
        policies=policies,
    )


def _entry(resource: str, held: Permission) -> dict[str, Any]:
    if not held:
        return {"resource": resource, "actions": [ALL], "decision": DENY}
    actions = sorted(action.value for action in held)
    return {"resource": resource, "actions": actions, "decision": ALLOW}
