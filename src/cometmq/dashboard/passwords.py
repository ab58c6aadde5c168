"""The dashboard's own users: names, roles and scrypt hashes of passwords, in a file written for its owner only.

    {"version": 1, "users": [{"name": "admin", "role": "admin", "password": "scrypt$14$8$1$SALT$HASH"}]}

The file is reloaded when it has changed, so `cometmq dashboard user create` needs no restart. While the file is invalid,
nobody can log in.
"""

import base64
import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from cometmq.model.errors import SettingsError
from cometmq.model.text import as_given, decode_reason, in_quotes

FILE_NAME = "users.json"
FIRST_USER = "admin"
USERS_MAX = 1000
PASSWORD_MIN, PASSWORD_MAX = 8, 256
_NAME = re.compile(r"[\w.@+-]{1,64}", re.ASCII)
_SIZE_MAX = 1 << 20
_VERSION = 1
# 16 MiB and about 50 ms per check (RFC 7914's parameters for interactive logins).
_LOG_N, _R, _P = 14, 8, 1
_HASH_BYTES = 32


class Role(StrEnum):
    """The role of a dashboard user: reader or admin (may make changes)."""

    READER = "reader"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class DashboardUser:
    """One of the dashboard's own users.

    Attributes:
        name: Name; a new one has 1 to 64 ASCII letters, digits and `. @ + - _`.
        role: What the user may do.
        password: Hash of the password, as in the file.
    """

    name: str
    role: Role
    password: str


def new_password() -> str:
    """Return a random password of 123 bits, five groups of lower-case letters and digits that are easy to tell apart."""
    letters = "abcdefghjkmnpqrstuvwxyz23456789"
    return "-".join("".join(secrets.choice(letters) for _ in range(5)) for _ in range(5))


def hash_password(password: str) -> str:
    """Hash a password to text, in about 50 ms. Raises SettingsError unless it has 8 to 256 characters."""
    if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
        raise SettingsError(f"a password must have {PASSWORD_MIN} to {PASSWORD_MAX} characters")
    salt = secrets.token_bytes(16)
    digest = _scrypt(password, salt)
    text = (base64.b64encode(part).decode() for part in (salt, digest))
    return "$".join(("scrypt", str(_LOG_N), str(_R), str(_P), *text))


def is_password(password: str, hashed: str) -> bool:
    """Return whether a password (its first 256 characters) matches a hash of `hash_password`; takes about 50 ms."""
    _, _, _, _, salt, digest = hashed.split("$")
    found = _scrypt(password[:PASSWORD_MAX], base64.b64decode(salt))
    return hmac.compare_digest(found, base64.b64decode(digest))


def _scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(
        password.encode("utf-8", "surrogatepass"),
        salt=salt,
        n=1 << _LOG_N,
        r=_R,
        p=_P,
        maxmem=64 << 20,
        dklen=_HASH_BYTES,
    )


class UserFile:
    """The file with the dashboard's own users in a data folder, written with permissions for its owner only."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / FILE_NAME
        self._seen: tuple[int, int] | None = None
        self._users: dict[str, DashboardUser] = {}
        self._nobody = hash_password(new_password())

    @property
    def path(self) -> Path:
        """The path of the file of users."""
        return self._path

    def users(self) -> dict[str, DashboardUser]:
        """Return all users by name, after reloading a changed file; {} without file. SettingsError if unusable."""
        try:
            state = self._path.stat()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise SettingsError(f"{self._path} cannot be read: {error.strerror}") from None
        seen = state.st_mtime_ns, state.st_size
        if seen != self._seen:
            self._users = self._read()
            self._seen = seen
        return self._users

    def make_first(self) -> str | None:
        """Create the user `admin` if there are no users, and return the new password; otherwise return None.

        Raises:
            SettingsError: The file cannot be read.
            OSError: The file cannot be written.
        """
        with self._alone():
            if self.users():
                return None
            password = new_password()
            user = DashboardUser(FIRST_USER, Role.ADMIN, hash_password(password))
            self._write({FIRST_USER: user})
        return password

    def create(self, name: str, role: Role, password: str) -> None:
        """Create a user.

        Raises:
            SettingsError: The user exists, the name or password is not allowed, there are too many users, or the file
                cannot be read.
            OSError: The file cannot be written.
        """
        if not _NAME.fullmatch(name):
            raise SettingsError(
                f"{in_quotes(name)} is not a user name; use 1 to 64 letters, digits and . @ + - _"
            )
        user = DashboardUser(name, role, hash_password(password))
        with self._alone():
            users = self.users()
            if name in users:
                raise SettingsError(
                    f"{self._path} has a user {in_quotes(name)}; cometmq dashboard user set changes it"
                )
            if len(users) >= USERS_MAX:
                raise SettingsError(f"{self._path} has {USERS_MAX} users; delete one first")
            self._write({**users, name: user})

    def set(self, name: str, *, role: Role | None = None, password: str | None = None) -> None:
        """Change the role or password (None: unchanged) of a user; the user's sessions end at their next request.

        Raises:
            SettingsError: There is no such user, the password is not allowed, or the file cannot be read.
            OSError: The file cannot be written.
        """
        hashed = None if password is None else hash_password(password)
        with self._alone():
            users = dict(self.users())
            user = self._user(users, name)
            users[name] = replace(
                user, role=role or user.role, password=hashed or user.password
            )
            self._write(users)

    def delete(self, name: str) -> None:
        """Delete one of the dashboard's own users; their sessions end at their next request.

        Raises:
            SettingsError: There is no such user, it is the last one, or the file cannot be read.
            OSError: The file cannot be written.
        """
        with self._alone():
            users = dict(self.users())
            del users[self._user(users, name).name]
            if not users:
                raise SettingsError(f"user {in_quotes(name)} is the last; create another first")
            self._write(users)

    def _user(self, users: Mapping[str, DashboardUser], name: str) -> DashboardUser:
        if name not in users:
            raise SettingsError(f"{self._path} has no user {in_quotes(name)}")
        return users[name]

    def check(self, name: str, password: str) -> DashboardUser | None:
        """Return the own user with this name and password, or None; takes equally long if the name is unknown.

        Raises SettingsError if the file cannot be read.
        """
        user = self.users().get(name)
        is_right = is_password(password, self._nobody if user is None else user.password)
        return user if is_right else None

    def _read(self) -> dict[str, DashboardUser]:
        try:
            users = _users_of(self._path.read_bytes())
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as error:
            raise SettingsError(
                f"{self._path} is not a valid users file: {decode_reason(error)}; restore it from a copy, or "
                "delete it to start without users"
            ) from None
        return {user.name: user for user in users}

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait for and hold the lock under which all objects of this class, in any process, change the file."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(
            self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _write(self, users: dict[str, DashboardUser]) -> None:
        rows = [
            {"name": user.name, "role": user.role.value, "password": user.password}
            for user in users.values()
        ]
        aside = self._path.with_suffix(".new")
        aside.unlink(missing_ok=True)
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"version": _VERSION, "users": rows}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self._path)
        self._seen = None


def _users_of(content: bytes) -> list[DashboardUser]:
    if len(content) > _SIZE_MAX:
        raise ValueError(f"it has more than {_SIZE_MAX} bytes")
    found = json.loads(content)
    if found["version"] != _VERSION:
        raise ValueError(f"its version {as_given(found['version'])} is not supported")
    return [
        DashboardUser(each["name"], Role(each["role"]), _checked_hash(each["password"]))
        for each in found["users"]
    ]


def _checked_hash(text: str) -> str:
    kind, *figures, salt, digest = text.split("$")
    if kind != "scrypt" or figures != [str(_LOG_N), str(_R), str(_P)]:
        raise ValueError(f"a password hash has the unsupported kind {kind} or other parameters")
    base64.b64decode(salt, validate=True)
    if len(base64.b64decode(digest, validate=True)) != _HASH_BYTES:
        raise ValueError("a password hash has the wrong length")
    return text
