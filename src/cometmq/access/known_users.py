"""Loading of a server's users: accounts of ACL 1.0, or users of Auth 2.0."""

import os
from pathlib import Path
from typing import Any

from cometmq.access.account_files import AccountFiles
from cometmq.access.accounts import Account, Permission
from cometmq.access.auth_users import AuthFile, AuthUser, check_password, check_user_name
from cometmq.access.keys import AccessKeys
from cometmq.access.policies import (
    ALL,
    ALLOW,
    CUSTOM,
    DEFAULT,
    DENY,
    UserPolicies,
    read_policies,
)
from cometmq.model.errors import SettingsError
from cometmq.model.text import in_quotes
from cometmq.store.folder_check import check_writable

AUTH_FILE = "auth.json"


def known_accounts(settings: AccessKeys) -> AccountFiles:
    """Load the accounts of ACL 1.0.

    Raises SettingsError without a folder or an account or for a bad file, OSError if examining the paths fails.
    """
    return AccountFiles(settings.account_folder(), is_white_unsigned=settings.is_white_unsigned)


def known_users(
    settings: AccessKeys, folder: str | None, cluster: str, *, is_dry: bool = False
) -> AuthFile:
    """Load the users of Auth 2.0; make those in the settings Super users, and add accounts of ACL 1.0 if migration is on.

    With `is_dry`, changes are only made in memory, and the folder may be missing.

    Raises:
        SettingsError: No folder is named, a setting or a file cannot be used, or there is no enabled Super user.
        OSError: The folder or a file cannot be read or written.
    """
    if folder is None:
        raise SettingsError(
            "authenticationEnabled=true needs authConfigPath: set it to the folder of users and policies"
        )
    if not is_dry:
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    elif settings.auth_path:
        check_writable("authConfigPath", folder)
    users = AuthFile(
        os.path.join(folder, AUTH_FILE),  # noqa: PTH118
        cluster=cluster,
        is_authorized=settings.is_authorization_enabled,
        unasked=settings.open_codes(),
        unauthorized=settings.spared_codes(),
        is_kept=not is_dry,
    )
    first, inner = settings.first_user(), settings.credentials()
    if first is not None:
        users.ensure_super(*first)
    if inner is not None:
        users.ensure_super(inner.access_key, inner.secret_key)
    if settings.is_migrated:
        accounts = AccountFiles(settings.account_folder()).current.accounts
        fresh = [each for name, each in accounts.items() if name not in users.current.users]
        for account in fresh:
            check_migration(account)
        users.add_all({account.name: user_of(users, account) for account in fresh})
    if not any(user.is_super and user.is_enabled for user in users.current.users.values()):
        raise SettingsError(
            f"authenticationEnabled=true, but {users.path} has no Super user, so no user could create users: set one "
            "in initAuthenticationUser"
        )
    return users


def check_migration(account: Account) -> None:
    """Raise SettingsError if an account of ACL 1.0 cannot become a user, because the next start would refuse the file."""
    said = f"account {in_quotes(account.name)} cannot become a user of Auth 2.0: "
    try:
        check_user_name(account.name)
        check_password(account.secret.decode())
        _policies_of(account)
    except SettingsError as error:
        raise SettingsError(
            f"{said}{error}; change it in the file of accounts, or create the user under another name"
        ) from None


def user_of(users: AuthFile, account: Account) -> AuthUser:
    """Return a user, not stored yet, for an account of ACL 1.0, as AuthMigrator does; white addresses are dropped."""
    return users.made(
        name=account.name,
        secret=account.secret,
        is_super=account.is_super,
        policies=_policies_of(account),
    )


def _policies_of(account: Account) -> UserPolicies:
    custom = [_entry(f"Topic:{name}", held) for name, held in account.topics.items()]
    custom += [_entry(f"Group:{name}", held) for name, held in account.groups.items()]
    default = [
        _entry("Topic:*", account.default_topic), _entry("Group:*", account.default_group),
    ]  # fmt: skip
    return read_policies(
        [
            {"policyType": CUSTOM, "entries": custom},
            {"policyType": DEFAULT, "entries": default},
        ]
    )


def _entry(resource: str, held: Permission) -> dict[str, Any]:
    if not held:
        return {"resource": resource, "actions": [ALL], "decision": DENY}
    actions = sorted(action.value for action in held)
    return {"resource": resource, "actions": actions, "decision": ALLOW}
