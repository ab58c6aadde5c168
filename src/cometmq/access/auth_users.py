"""Users and policies of Auth 2.0, stored in one file.

    {"version": 1, "users": [{"username": "alice", "password": "...", "userType": "Normal", "userStatus": "enable"}],
     "acls": [{"subject": "User:alice", "policies": [...]}]}

RocketMQ 5.3.3 stores them in RocksDB. Only the owner may access the file (0600). Changes are written to a temporary
file, flushed and renamed, so that a power cut leaves either the old or the new content. Each change creates a new
table, so readers never see half of a change.
"""

import json
import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from cometmq.access.owner_file import check_owner, write_whole_file
from cometmq.access.policies import UserPolicies, read_policies
from cometmq.access.switch_interval import short_switch_interval
from cometmq.access.user import UserTable
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError, SettingsError, invalid_parameter
from cometmq.model.frozen import dataclass
from cometmq.model.names import NAME_BYTES_MAX
from cometmq.model.rights import EVERYBODY, Access, Asker, Resource, Right
from cometmq.model.text import as_given

_log = logging.getLogger(__name__)

SUPER, NORMAL = "Super", "Normal"
ENABLE, DISABLE = "enable", "disable"
USERS_MAX = 10_000
_VERSION = 1
_NAME = re.compile(r"[\w.@%|:/+-]{1,128}", re.ASCII)
_PASSWORD_MAX = 256
_SIZE_MAX = 64 << 20
_NO_POLICIES = UserPolicies({})
# Maximum number of cached decisions per user.
_DECISIONS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class AuthUser:
    """A user of Auth 2.0.

    Attributes:
        name: Name, which is the access key.
        secret: Password, which signs the user's requests.
        is_super: Whether the user has all rights.
        is_enabled: Whether the server accepts the user's signatures.
        policies: What the user may do, unless `is_super` or not `is_authorized`.
        cluster: Name of this server's cluster, for resources `Cluster:NAME`.
        is_authorized: Whether policies are checked; if not, all but administrators' and brokers' requests are allowed.
        decided: Cache of decisions; each new table of users starts with an empty one.
    """

    name: str
    secret: bytes = field(repr=False)
    is_super: bool = False
    is_enabled: bool = True
    policies: UserPolicies = _NO_POLICIES
    cluster: str = ""
    is_authorized: bool = True
    decided: dict[tuple[Access, str], bool] = field(
        default_factory=dict, repr=False, compare=False
    )

    def may(self, access: Access, right: Right, ip: str) -> bool:
        """Return whether the user may make an access from an address, in a request that requires `right`."""
        if self.is_super:
            return True
        if not self.is_authorized:
            return right not in (Right.ADMINISTRATOR, Right.BROKER)
        decided = self.decided.get((access, ip))
        if decided is None:
            named = access
            if access.resource is Resource.CLUSTER:
                named = access._replace(name=self.cluster)
            decided = self.policies.may(named, ip)
            if len(self.decided) < _DECISIONS_MAX and len(access.name) <= NAME_BYTES_MAX:
                self.decided[access, ip] = decided
        return decided

    def to_json(self, *, with_password: bool = False) -> dict[str, str]:
        """Return the user as a dict in RocketMQ's JSON form, with "******" for the password unless `with_password`."""
        password = self.secret.decode() if with_password else "******"
        return {
            "password": password,
            "userStatus": ENABLE if self.is_enabled else DISABLE,
            "userType": SUPER if self.is_super else NORMAL,
            "username": self.name,
        }


def with_policies(user: AuthUser) -> dict[str, Any]:
    """Return a user as a dict in RocketMQ's JSON form, with password and policies."""
    return {**user.to_json(with_password=True), "policies": user.policies.to_json()}


class AuthUsers(UserTable):
    """An immutable snapshot of all users of Auth 2.0."""

    def __init__(
        self,
        users: Mapping[str, AuthUser],
        *,
        unasked: frozenset[int] = frozenset(),
        unauthorized: frozenset[int] = frozenset(),
    ) -> None:
        """Set the request codes that need no signature (`unasked`) and those that need no right (`unauthorized`)."""
        self.users = users
        self._unasked = unasked
        self._unauthorized = unauthorized

    def find(self, name: str) -> AuthUser | None:
        """Return the user with this name, or None."""
        return self.users.get(name)

    def is_open(self, code: int) -> bool:
        """Return whether requests with this code need no user; the gate may still refuse them from other machines."""
        return code in self._unasked

    def is_right_spared(self, code: int) -> bool:
        """Return whether a user needs no right for requests with this code."""
        return code in self._unauthorized

    def changed(self, users: Mapping[str, AuthUser]) -> "AuthUsers":
        """Return a table of the given users with the same exempt codes and without cached decisions."""
        fresh = {name: replace(user, decided={}) for name, user in users.items()}
        return AuthUsers(fresh, unasked=self._unasked, unauthorized=self._unauthorized)


class AuthFile:
    """The current users of a server, and the file that stores them."""

    def __init__(
        self,
        path: str,
        *,
        cluster: str,
        is_authorized: bool,
        unasked: frozenset[int] = frozenset(),
        unauthorized: frozenset[int] = frozenset(),
        is_kept: bool = True,
    ) -> None:
        """Read the file, if any; unless `is_kept`, changes are not written.

        Raises SettingsError, naming no secret, if the file is unusable, and OSError if it is unreadable.
        """
        self.path = path
        self._is_kept = is_kept
        self._cluster = cluster
        self._is_authorized = is_authorized
        self._changing = threading.Lock()
        self._ensured: dict[str, str] = {}
        self.current = AuthUsers({}, unasked=unasked, unauthorized=unauthorized)
        self.current = self.current.changed(self._read())

    def _read(self) -> dict[str, AuthUser]:
        try:
            status = os.stat(self.path)  # noqa: PTH116
        except FileNotFoundError:
            return {}
        if status.st_mode & 0o077:
            raise SettingsError(
                f"{self.path} contains passwords, but other users may read it; run chmod 600 {self.path}"
            )
        check_owner(self.path)
        if status.st_size > _SIZE_MAX:
            raise SettingsError(f"{self.path} has more than {_SIZE_MAX} bytes, the maximum")
        try:
            with open(self.path, "rb") as file:  # noqa: PTH123
                content = json.load(file)
            return self._users_of(content)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise SettingsError(
                f"{self.path} is not a file of users and policies; restore it from a copy"
            ) from None
        except SettingsError as error:
            raise SettingsError(f"{self.path}: {error}") from None

    def _users_of(self, content: Any) -> dict[str, AuthUser]:
        if content["version"] != _VERSION:
            raise SettingsError(
                f"its version is {as_given(content['version'])}, but this CometMQ reads version {_VERSION}"
            )
        users = {}
        for each in content["users"]:
            user = self._changed_by(None, each["username"], each)
            users[user.name] = user
        for acl in content["acls"]:
            name = name_of(acl["subject"])
            users[name] = replace(users[name], policies=read_policies(acl["policies"]))
        return users

    # --- changes; each waits for the disk, in a thread

    def put_user(
        self, name: str, values: Any, *, is_new: bool, asker: Asker = EVERYBODY
    ) -> None:
        """Create or change a user; only a Super user may do that if the user is or becomes Super.

        Raises:
            RequestError: A new user exists already, a known one does not, the asker may not do it, or no Super user
                would be left.
            SettingsError: A value is invalid, or there are USERS_MAX users already.
            OSError: Writing failed.
        """

        def edit(users: dict[str, AuthUser]) -> None:
            before = users.get(name)
            if is_new and before is not None:
                raise RequestError(ResponseCode.NO_PERMISSION, "The user is existed")
            if not is_new and before is None:
                raise RequestError(ResponseCode.NO_PERMISSION, "The user is not exist")
            if is_new and len(users) >= USERS_MAX:
                raise SettingsError(f"there are {USERS_MAX} users, the maximum; delete one")
            after = users[name] = self._changed_by(before, name, values)
            _check_super(before, after, asker)

        self._edit(edit)

    def delete_user(self, name: str, *, asker: Asker = EVERYBODY) -> bool:
        """Delete a user and their policies; return whether the user existed. Only Super users may delete Super users.

        Raises:
            RequestError: The asker may not do it, or the user is the last enabled Super user.
            OSError: Writing failed.
        """
        if self.current.find(name) is None:
            return False

        def edit(users: dict[str, AuthUser]) -> None:
            _check_super(users.pop(name, None), None, asker)

        self._edit(edit)
        return True

    def put_policies(self, name: str, policies: UserPolicies) -> None:
        """Add entries to the policies of a user; within a policy an entry for the same resource replaces the old one.

        Raises:
            RequestError: The user does not exist.
            SettingsError: There would be too many entries.
            OSError: Writing failed.
        """

        def edit(users: dict[str, AuthUser]) -> None:
            if name not in users:
                raise no_subject(f"The subject of User:{name} is not exist.")
            merged = users[name].policies.merged(policies)
            users[name] = replace(users[name], policies=merged)

        self._edit(edit)

    def delete_policies(self, name: str, policy: str, resource: str | None) -> None:
        """Delete the entry for a resource from a policy of a user; without a resource delete all policies of the user.

        Raises:
            RequestError: The user does not exist or has no policies.
            SettingsError: The entry does not exist.
            OSError: Writing failed.
        """

        def edit(users: dict[str, AuthUser]) -> None:
            if name not in users:
                raise no_subject()
            if not users[name].policies.entries:
                raise RequestError(ResponseCode.NO_PERMISSION, "The acl is not exist.")
            left = _NO_POLICIES
            if resource:
                left = users[name].policies.without(policy, resource)
            users[name] = replace(users[name], policies=left)

        self._edit(edit)

    def ensure_super(self, name: str, password: str) -> None:
        """Make sure that a Super user with this name and password exists and is enabled.

        Raises:
            SettingsError: Name or password is invalid, or there are USERS_MAX users already.
            OSError: Writing failed.
        """
        self._ensured[name] = password
        values = {"password": password, "userType": SUPER, "userStatus": ENABLE}
        user = self.current.find(name)
        is_as_wanted = user is not None and user.is_super and user.is_enabled
        if user is None or not is_as_wanted or user.secret != password.encode():
            self.put_user(name, values, is_new=user is None)

    def ensure_again(self) -> list[str]:
        """Repeat each `ensure_super`, and return the names of the changed users. Raises the errors of `ensure_super`."""
        before = self.current
        for name, password in self._ensured.items():
            self.ensure_super(name, password)
        return [name for name in self._ensured if self.current.find(name) != before.find(name)]

    def read(self, name: str, values: Mapping[str, Any]) -> AuthUser:
        """Return the user that `with_policies` described; raise SettingsError if a value is invalid."""
        user = self._changed_by(None, name, dict(values))
        return replace(user, policies=read_policies(values.get("policies")))

    def put_all(self, changes: Mapping[str, AuthUser | None]) -> None:
        """Set users with their policies, or delete those that are None, as another server has them.

        Raises:
            RequestError: No enabled Super user would be left; nothing is changed.
            OSError: Writing failed.
        """
        fresh = {
            name: user for name, user in changes.items() if self.current.find(name) != user
        }

        def edit(users: dict[str, AuthUser]) -> None:
            for name, user in fresh.items():
                users.pop(name, None)
                if user is not None:
                    users[name] = user

        if fresh:
            self._edit(edit)

    def add_all(self, users: Mapping[str, AuthUser]) -> int:
        """Add users that do not exist yet, with their policies; return their number. Raises OSError if writing fails."""
        fresh = {name: user for name, user in users.items() if name not in self.current.users}
        if fresh:
            self._edit(lambda known: known.update(fresh))
        return len(fresh)

    def other_clusters(self) -> list[str]:
        """Return a sorted list of the resources in policies that name other clusters and thus never apply."""
        entries = (
            entry
            for user in self.current.users.values()
            for each in user.policies.entries.values()
            for entry in each
        )
        return sorted(
            {
                entry.resource
                for entry in entries
                if entry.kind is Resource.CLUSTER and not entry.names(self._cluster)
            }
        )

    def made(self, **values: Any) -> AuthUser:
        """Create a user of this server without storing it."""
        return AuthUser(cluster=self._cluster, is_authorized=self._is_authorized, **values)

    def _changed_by(self, before: AuthUser | None, name: Any, values: Any) -> AuthUser:
        if not isinstance(values, dict):
            raise SettingsError("a user must be a JSON object")
        check_user_name(name)
        password, kind, status = (
            values.get(key) for key in ("password", "userType", "userStatus")
        )
        user = before or self.made(name=name, secret=b"")
        if password not in (None, ""):
            check_password(password)
            user = replace(user, secret=password.encode())
        if not user.secret:
            raise SettingsError("password: it is missing")
        if kind not in (None, ""):
            user = replace(user, is_super=_one_of(kind, (SUPER, NORMAL), "userType") == SUPER)
        if status not in (None, ""):
            word = _one_of(status, (ENABLE, DISABLE), "userStatus")
            user = replace(user, is_enabled=word == ENABLE)
        return user

    def _edit(self, edit: Callable[[dict[str, AuthUser]], object]) -> None:
        with self._changing, short_switch_interval():
            users = dict(self.current.users)
            before = self.current.users
            edit(users)
            if _has_super(before) and not _has_super(users):
                raise invalid_parameter(
                    "the last Super user must stay Super and enabled, because otherwise no user could create users"
                )
            if self._is_kept:
                write_whole_file(self.path, _encoded(users.values()))
            self.current = self.current.changed(users)
            # Clear the old caches one by one; freeing all of them at once would block other threads.
            for user in before.values():
                user.decided.clear()


def check_user_name(name: Any) -> None:
    """Raise SettingsError if a user cannot have this name."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SettingsError("username: use 1 to 128 letters, digits and . @ % | : / + - _")


def check_password(password: Any) -> None:
    """Raise SettingsError, without naming it, if a user cannot have this password."""
    if not isinstance(password, str) or len(password) > _PASSWORD_MAX:
        raise SettingsError(
            f"password: it must be a text of at most {_PASSWORD_MAX} characters"
        )
    if not password.isprintable():
        raise SettingsError("password: it must have only printable characters")


def _check_super(before: AuthUser | None, after: AuthUser | None, asker: Asker) -> None:
    is_about_super = any(user is not None and user.is_super for user in (before, after))
    if is_about_super and not asker.is_super:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, "The super user can only be update by super user"
        )


def _has_super(users: Mapping[str, AuthUser]) -> bool:
    return any(user.is_super and user.is_enabled for user in users.values())


def _encoded(users: Iterable[AuthUser]) -> bytes:
    """Return the file's bytes with one user per line, encoded separately so that other threads run in between."""
    rows, policies = [], []
    for user in users:
        rows.append(json.dumps(user.to_json(with_password=True)))
        if user.policies.entries:
            acl = {"subject": f"User:{user.name}", "policies": user.policies.to_json()}
            policies.append(json.dumps(acl))
    parts = (
        f'{{"version": {_VERSION}, "users": [',
        ",\n".join(rows),
        '], "acls": [',
        ",\n".join(policies),
        "]}",
    )
    return "\n".join((*parts, "")).encode()


def no_subject(remark: str = "The subject is not exist.") -> RequestError:
    """Return, without raising it, the error for an unknown subject, with RocketMQ's code NO_PERMISSION."""
    return RequestError(ResponseCode.NO_PERMISSION, remark)


def name_of(subject: Any) -> str:
    """Return the name in a subject such as `User:alice`. Raises SettingsError if it is malformed."""
    kind, _, name = subject.partition(":") if isinstance(subject, str) else ("", "", "")
    if kind.lower() != "user" or not name:
        raise SettingsError("subject: it must be User:NAME")
    return name


def _one_of(value: Any, known: tuple[str, ...], of: str) -> str:
    for word in known:
        if isinstance(value, str) and value.lower() == word.lower():
            return word
    raise SettingsError(f"{of}: it must be {' or '.join(known)}")
