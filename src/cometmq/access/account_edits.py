"""Changes of accounts over the wire: the file of an account is rewritten and takes effect immediately.

Comments in the file are lost, as in RocketMQ; the file mode is kept. Follows PlainPermissionManager of RocketMQ 4.9.8.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from cometmq.access.account_files import AccountFiles
from cometmq.access.account_text import ACCOUNTS, DATA_VERSION, GLOBAL_WHITE, read_accounts
from cometmq.access.accounts import FolderAccounts
from cometmq.access.owner_file import write_whole_file
from cometmq.access.switch_interval import short_switch_interval
from cometmq.access.yaml_text import LOADER
from cometmq.codec.headers.account import UpdateAccount
from cometmq.model.clock import Clock
from cometmq.model.errors import SettingsError

# The compiled writer, if PyYAML has it.
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def _several(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return [part.strip() for part in text.split(",") if part.strip()]


def _values(change: UpdateAccount) -> dict[str, Any]:
    """Return the values that a change sets in an account, by key of the file; a list replaces the whole old list."""
    values = {
        "accessKey": change.access_key,
        "secretKey": change.secret_key,
        "whiteRemoteAddress": change.white_remote_address,
        "admin": change.admin,
        "defaultTopicPerm": change.default_topic_perm,
        "defaultGroupPerm": change.default_group_perm,
        "topicPerms": _several(change.topic_perms),
        "groupPerms": _several(change.group_perms),
    }
    return {key: value for key, value in values.items() if value is not None}


class AccountEdits:
    """Changes the files of accounts and puts the result in force; its methods wait for the disk, so call them in threads."""

    def __init__(self, files: AccountFiles, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._one_at_a_time = threading.Lock()

    def change(self, change: UpdateAccount) -> None:
        """Change an account in its file, or create it in `plain_acl.yml`.

        Raises:
            SettingsError: The account or file is invalid, the file was changed meanwhile, or no admin would be left.
            OSError: Reading or writing failed.
        """

        def edit(content: dict[str, Any]) -> None:
            accounts = content.setdefault(ACCOUNTS, None) or []
            content[ACCOUNTS] = accounts
            found = _find(accounts, change.access_key)
            if found is None:
                found = {}
                accounts.append(found)
            found.update(_values(change))

        with self._begun():
            self._edit(self._path_of(change.access_key) or self._files.default_path, edit)

    def delete(self, access_key: str) -> None:
        """Delete an account.

        Raises:
            SettingsError: The account does not exist, is the last one or the last admin, or the file is unusable.
            OSError: Reading or writing failed.
        """

        def edit(content: dict[str, Any]) -> None:
            found = _find(content[ACCOUNTS], access_key)
            content[ACCOUNTS] = [each for each in content[ACCOUNTS] if each is not found]

        with self._begun():
            path = self._path_of(access_key)
            if path is None:
                raise SettingsError("no account has this accessKey")
            self._edit(path, edit)

    def set_white(self, addresses: str, path: str | None) -> None:
        """Set the global white addresses of a file, by default of `plain_acl.yml`.

        Raises:
            SettingsError: The path is no file of accounts, or the addresses are invalid or the file unusable.
            OSError: Reading or writing failed.
        """

        def edit(content: dict[str, Any]) -> None:
            content[GLOBAL_WHITE] = _several(addresses)

        with self._begun():
            path = path or self._files.default_path
            if path != self._files.default_path and path not in self._files.texts:
                raise SettingsError("aclFileFullPath is not an account file of this broker")
            self._edit(path, edit)

    @contextmanager
    def _begun(self) -> Iterator[None]:
        """Lock out other changes within the context; reload the files first, which may have been changed by hand."""
        with self._one_at_a_time, short_switch_interval():
            self._files.look()
            yield

    def _path_of(self, access_key: str) -> str | None:
        for path, text in self._files.texts.items():
            if any(account.name == access_key for _, account in text.accounts):
                return path
        return None

    def _edit(self, path: str, edit: Callable[[dict[str, Any]], None]) -> None:
        before = _state(path)
        content = _load(path)
        edit(content)
        version = self._files.texts.get(path)
        counter = 0 if version is None or version.version is None else version.version[0]
        content[DATA_VERSION] = [{"counter": counter + 1, "timestamp": self._clock.now_ms()}]
        written = yaml.dump(
            content, Dumper=_DUMPER, sort_keys=False, allow_unicode=True
        ).encode()
        # Validate before writing, so that the file stays valid; errors for clients contain no path.
        read_accounts(written, Path(path).name)
        texts = {**self._files.texts, path: read_accounts(written, path)}
        after = self._files.joined(texts)
        if not len(after):
            raise SettingsError(
                "the last account cannot be removed: no client could send requests any more"
            )
        if _has_admin(self._files.current) and not _has_admin(after):
            raise SettingsError(
                "the last account must keep admin: true, because otherwise no user could change accounts"
            )
        if _state(path) != before:
            raise SettingsError(f"{Path(path).name} was changed meanwhile; try again")
        write_whole_file(path, written)
        self._files.take(path, texts)


def _has_admin(accounts: FolderAccounts) -> bool:
    return any(account.is_super for account in accounts.accounts.values())


def _find(accounts: list[Any], access_key: str) -> dict[str, Any] | None:
    for account in accounts:
        if isinstance(account, dict) and str(account.get("accessKey")) == access_key:
            return account
    return None


class _TextLoader(LOADER):  # type: ignore[misc]  # PyYAML has no types.
    """A YAML loader that converts only null and booleans: as a number, a key would lose its leading zeros."""


_TextLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith((":null", ":bool"))]
    for first, resolvers in LOADER.yaml_implicit_resolvers.items()
}


def _state(path: str) -> tuple[int, int, int] | None:
    """Return a file's inode, size and modification time, for detecting changes; None if there is no file."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _load(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            content = yaml.load(file, Loader=_TextLoader)  # noqa: S506  A safe loader.
    except FileNotFoundError:
        content = None
    except yaml.YAMLError:
        raise SettingsError(f"{Path(path).name} is not valid YAML; fix it first") from None
    if content is not None and not isinstance(content, dict):
        raise SettingsError(f"{Path(path).name} is not a YAML mapping; fix it first")
    return content or {}


def versions(files: AccountFiles) -> Mapping[str, tuple[int, int]]:
    """Return the version of each file by its path: counter and time (ms since 1970); (0, 0) if the file has none."""
    return {path: text.version or (0, 0) for path, text in files.texts.items()}
