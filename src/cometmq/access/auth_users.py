"""Users and policies of Auth 2.0, in one file: read, changed, written whole.

    {"version": 1, "users": [{"username": "alice", "password": "...", "userType": "Normal", "userStatus": "enable"}],
     "acls": [{"subject": "User:alice", "policies": [...]}]}

RocketMQ 5.3.3 keeps them in RocksDB. The file is its owner's alone (0600); it is written aside, brought to the device and put in
place, so that after a power cut there is the old content or the new one. Each change is another table; whoever decides by one
sees no half of a change.
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
from cometmq.access.user import User
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError, SettingsError
from cometmq.model.frozen import dataclass
from cometmq.model.names import NAME_BYTES_MAX
from cometmq.model.rights import EVERYBODY, Access, Asker, Resource, Right

_log = logging.getLogger(__name__)

SUPER, NORMAL = "Super", "Normal"
ENABLE, DISABLE = "enable", "disable"
USERS_MAX = 10_000
_VERSION = 1
_NAME = re.compile(r"[\w.@%|:/+-]{1,128}", re.ASCII)
_PASSWORD_MAX = 256
_SIZE_MAX = 64 << 20
_NO_POLICIES = UserPolicies({})
# Decisions of a user that are remembered.
_DECISIONS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class AuthUser:
    """A user.

    Attributes:
        name: his name, the access key.
        secret: his password, with which he signs.
        is_super: whether he may do everything.
        is_enabled: whether he may ask at all.
        policies: what he may do.
        cluster: the name of this server's cluster, for resources `Cluster:NAME`.
        is_authorized: whether rights are asked about; without that a user may do what is no administrator's.
        decided: what was decided before; another table of users begins anew.
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
        """See `User`."""
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
        """The user as RocketMQ's JSON; answers to clients hold no password."""
        password = self.secret.decode() if with_password else "******"
        return {
            "password": password,
            "userStatus": ENABLE if self.is_enabled else DISABLE,
            "userType": SUPER if self.is_super else NORMAL,
            "username": self.name,
        }


class AuthUsers:
    """All users at one time."""

    def __init__(
        self,
        users: Mapping[str, AuthUser],
        *,
        unasked: frozenset[int] = frozenset(),
        unauthorized: frozenset[int] = frozenset(),
    ) -> None:
        """Codes of requests that need no signature, and no right."""
        self.users = users
        self._unasked = unasked
        self._unauthorized = unauthorized

    def find(self, name: str) -> AuthUser | None:
        """See `UserTable`."""
        return self.users.get(name)

    def is_unasked(self, _ip: str) -> bool:
        """See `UserTable`: no address is."""
        return False

    def is_unsigned(self, _user: User, _ip: str) -> bool:
        """See `UserTable`: nobody is."""
        return False

    def is_open(self, code: int) -> bool:
        """See `UserTable`."""
        return code in self._unasked

    def is_right_spared(self, code: int) -> bool:
        """See `UserTable`."""
        return code in self._unauthorized

    def changed(self, users: Mapping[str, AuthUser]) -> "AuthUsers":
        """A table with other users; decisions made before are forgotten."""
        fresh = {name: replace(user, decided={}) for name, user in users.items()}
        return AuthUsers(fresh, unasked=self._unasked, unauthorized=self._unauthorized)


class AuthFile:
    """The users of a server, and their file.

    Attributes:
        current: they, as they are now.
        path: of the file.
    """

    def __init__(
        self,
        path: str,
        *,
        cluster: str,
        is_authorized: bool,
        unasked: frozenset[int] = frozenset(),
        unauthorized: frozenset[int] = frozenset(),
    ) -> None:
        """Read the file; without one there are no users yet.

        Raises:
            SettingsError: it cannot be used; the message names it and holds nothing of it.
        """
        self.path = path
        self._cluster = cluster
        self._is_authorized = is_authorized
        self._changing = threading.Lock()
        self.current = AuthUsers({}, unasked=unasked, unauthorized=unauthorized)
        self.current = self.current.changed(self._read())

    def _read(self) -> dict[str, AuthUser]:
        try:
            status = os.stat(self.path)  # noqa: PTH116
        except FileNotFoundError:
            return {}
        if status.st_mode & 0o077:
            raise SettingsError(
                f"{self.path} holds passwords, and others may read it: chmod 600"
            )
        check_owner(self.path)
        if status.st_size > _SIZE_MAX:
            raise SettingsError(f"{self.path}: more than {_SIZE_MAX} bytes")
        try:
            with open(self.path, "rb") as file:  # noqa: PTH123
                content = json.load(file)
            return self._users_of(content)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise SettingsError(f"{self.path} is no file of users and policies") from None
        except SettingsError as error:
            raise SettingsError(f"{self.path}: {error}") from None

    def _users_of(self, content: Any) -> dict[str, AuthUser]:
        if content["version"] != _VERSION:
            raise SettingsError(f"version {content['version']!r} is not {_VERSION}")
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
        """Make a user, or change him, if the asker may: Super users are for Super users to change.

        Raises:
            RequestError: he is there already, or is not; or the asker may not.
            SettingsError: a value cannot be used.
            OSError: it could not be written.
        """

        def edit(users: dict[str, AuthUser]) -> None:
            before = users.get(name)
            if is_new and before is not None:
                raise RequestError(ResponseCode.NO_PERMISSION, "The user is existed")
            if not is_new and before is None:
                raise RequestError(ResponseCode.NO_PERMISSION, "The user is not exist")
            if is_new and len(users) >= USERS_MAX:
                raise SettingsError(f"there are {USERS_MAX} users, which is the most")
            after = users[name] = self._changed_by(before, name, values)
            _check_super(before, after, asker)

        self._edit(edit)

    def delete_user(self, name: str, *, asker: Asker = EVERYBODY) -> bool:
        """Delete a user with his policies, if the asker may; whether there was one.

        Raises:
            RequestError: the asker may not.
            OSError: it could not be written.
        """
        if self.current.find(name) is None:
            return False

        def edit(users: dict[str, AuthUser]) -> None:
            _check_super(users.pop(name, None), None, asker)

        self._edit(edit)
        return True

    def put_policies(self, name: str, policies: UserPolicies) -> None:
        """Add entries to the policies of a user; one of the same resource takes the place of what was.

        Raises:
            RequestError: there is no such user.
            SettingsError: there would be too many.
            OSError: it could not be written.
        """

        def edit(users: dict[str, AuthUser]) -> None:
            if name not in users:
                raise no_subject(f"The subject of User:{name} is not exist.")
            merged = users[name].policies.merged(policies)
            users[name] = replace(users[name], policies=merged)

        self._edit(edit)

    def delete_policies(self, name: str, policy: str, resource: str | None) -> None:
        """Take away the entry of a resource, or all policies of a user.

        Raises:
            RequestError: there is no such user, or he has no policies.
            SettingsError: there is no such entry.
            OSError: it could not be written.
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
        """Have a user who may do everything, with this password.

        Raises:
            SettingsError: the name or password cannot be used.
            OSError: it could not be written.
        """
        values = {"password": password, "userType": SUPER, "userStatus": ENABLE}
        user = self.current.find(name)
        is_as_wanted = user is not None and user.is_super and user.is_enabled
        if user is None or not is_as_wanted or user.secret != password.encode():
            self.put_user(name, values, is_new=user is None)

    def add_all(self, users: Mapping[str, AuthUser]) -> int:
        """Add users who are not there yet, with their policies; how many there were.

        Raises:
            OSError: it could not be written.
        """
        fresh = {name: user for name, user in users.items() if name not in self.current.users}
        if fresh:
            self._edit(lambda known: known.update(fresh))
        return len(fresh)

    def other_clusters(self) -> list[str]:
        """Return the resources of policies for other clusters than this server's: such policies never apply here."""
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
        """A user of this server."""
        return AuthUser(cluster=self._cluster, is_authorized=self._is_authorized, **values)

    def _changed_by(self, before: AuthUser | None, name: Any, values: Any) -> AuthUser:
        if not isinstance(values, dict):
            raise SettingsError("a user has to be an object")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise SettingsError(
                "username: 1 to 128 letters, digits and . @ % | : / + - _ are wanted"
            )
        password, kind, status = (
            values.get(key) for key in ("password", "userType", "userStatus")
        )
        user = before or self.made(name=name, secret=b"")
        if password not in (None, ""):
            if not isinstance(password, str) or len(password) > _PASSWORD_MAX:
                raise SettingsError(
                    f"password: a text of at most {_PASSWORD_MAX} characters is wanted"
                )
            if not password.isprintable():
                raise SettingsError("password: printable characters are wanted")
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
                raise RequestError(
                    ResponseCode.INVALID_PARAMETER,
                    "the last Super user stays Super and enabled: nobody could make users any more",
                )
            write_whole_file(self.path, _encoded(users.values()))
            self.current = self.current.changed(users)
            # Freed at once, what was decided of all of them keeps every other thread waiting.
            for user in before.values():
                user.decided.clear()


def _check_super(before: AuthUser | None, after: AuthUser | None, asker: Asker) -> None:
    """Refuse a change of a Super user, or one that makes a Super user, unless a Super user asks for it."""
    is_about_super = any(user is not None and user.is_super for user in (before, after))
    if is_about_super and not asker.is_super:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, "The super user can only be update by super user"
        )


def _has_super(users: Mapping[str, AuthUser]) -> bool:
    return any(user.is_super and user.is_enabled for user in users.values())


def _encoded(users: Iterable[AuthUser]) -> bytes:
    """The file of these users: one a line, and each for itself, so that other threads get their turn in between."""
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
    """The answer where nobody is known by the name of a subject; its code is that of all of Auth 2.0's errors."""
    return RequestError(ResponseCode.NO_PERMISSION, remark)


def name_of(subject: Any) -> str:
    """The user of a subject, `User:alice`.

    Raises:
        SettingsError: it is none.
    """
    kind, _, name = subject.partition(":") if isinstance(subject, str) else ("", "", "")
    if kind.lower() != "user" or not name:
        raise SettingsError("subject: User:NAME is wanted")
    return name


def _one_of(value: Any, known: tuple[str, ...], of: str) -> str:
    for word in known:
        if isinstance(value, str) and value.lower() == word.lower():
            return word
    raise SettingsError(f"{of}: {' or '.join(known)} is wanted")
