"""The files of ACL 1.0: `plain_acl.yml` and `acl/**/*.yml` (or .yaml; not tools.yml) in a folder, with reloading.

A running server checks them every 500 ms, as in RocketMQ, reads changes in a thread and applies all or none: if a file
is invalid, the previous accounts stay, and a log line says why. A file that other users may access, or its group may
write, is refused.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from cometmq.access.account_text import AccountText, read_accounts
from cometmq.access.accounts import Account, FolderAccounts
from cometmq.access.owner_file import check_owner
from cometmq.access.switch_interval import short_switch_interval
from cometmq.model.errors import SettingsError
from cometmq.model.text import plural
from cometmq.net.loop import beat_sleep

_log = logging.getLogger(__name__)

PLAIN_ACL, ACL_FOLDER = "plain_acl.yml", "acl"
_SUFFIXES = (".yml", ".yaml")
_TOOLS = "tools.yml"  # File of mqadmin; holds its own credentials.
LOOK_SECONDS = 0.5
# Maximum size of a file in bytes, and maximum number of files.
SIZE_MAX, FILES_MAX = 4 << 20, 1_000
# Other users may neither read nor write, and the group may not write.
_MODE_REFUSED = 0o027


class _Look(NamedTuple):
    """The metadata of a file, for detecting changes."""

    path: str
    inode: int
    size: int
    changed_ns: int
    mode: int


class AccountFiles:
    """The accounts of ACL 1.0 in the files of a folder.

    Attributes:
        folder: Folder of the files.
        current: The accounts in force.
        texts: Parsed content of each file by path.
    """

    def __init__(self, folder: str, *, is_white_unsigned: bool = False) -> None:
        """Read the files; SettingsError without an account or if a file is unusable, OSError if examining the paths fails."""
        self.folder = folder
        self._is_white_unsigned = is_white_unsigned
        self._changing = threading.Lock()
        self._looks = self._look()
        if not self._looks:
            raise SettingsError(
                f"aclEnable=true, but {folder} has neither {PLAIN_ACL} nor {ACL_FOLDER}/*.yml: create one, "
                "or set aclFolder to its folder"
            )
        self.texts: Mapping[str, AccountText] = {look.path: _read(look) for look in self._looks}
        self.current = self.joined(self.texts)
        if not len(self.current):
            raise SettingsError(
                f"aclEnable=true, but the files in {folder} have no account, so no client could send requests: add one"
            )

    @property
    def default_path(self) -> str:
        """Path of the file for new accounts."""
        return os.path.join(self.folder, PLAIN_ACL)  # noqa: PTH118

    def joined(self, texts: Mapping[str, AccountText]) -> FolderAccounts:
        """Combine the contents of files to `FolderAccounts`. Raises SettingsError if an account occurs twice."""
        accounts = accounts_by_name(texts.values())
        white = [pattern for text in texts.values() for pattern in text.white]
        return FolderAccounts(accounts, white=white, is_white_unsigned=self._is_white_unsigned)

    def look(self) -> bool:
        """Reload the files if changed and valid; return whether accounts were reloaded. Callable in any thread."""
        with self._changing:
            return self._look_again()

    def _look_again(self) -> bool:
        try:
            looks = self._look()
        except (OSError, SettingsError) as error:
            _log.warning("The accounts cannot be reloaded and stay unchanged: %s", error)
            return False
        if looks == self._looks:
            return False
        self._looks = looks  # Report an error once.
        with short_switch_interval():
            try:
                texts = {look.path: _read(look) for look in looks}
                current = self.joined(texts)
            except SettingsError as error:
                _log.error("The accounts cannot be reloaded and stay unchanged: %s", error)
                return False
            self.texts, self.current = texts, current
        _log.info("Accounts are reloaded: %d %s in %d %s", len(current), plural(len(current), "account"),
            len(looks), plural(len(looks), "file"),
        )  # fmt: skip
        return True

    def take(self, path: str, texts: Mapping[str, AccountText]) -> None:
        """Put the contents of all files (by path) in force, after the file `path` was written.

        What was changed by hand in other files since the last `look` is found by the next one.
        """
        with self._changing:
            self.current, self.texts = self.joined(texts), texts
            fresh = {look.path: look for look in self._look()}
            known = {look.path: look for look in self._looks}
            known[path] = fresh[path]
            gone = [look for each, look in known.items() if each not in fresh]
            self._looks = [known[each] for each in fresh if each in known] + gone

    async def follow(self) -> None:
        """Every 500 ms, reload the files if they have changed and are valid; runs until it is cancelled."""
        while True:
            await beat_sleep(LOOK_SECONDS)
            await asyncio.to_thread(self.look)

    def _look(self) -> list[_Look]:
        found = []
        for path in _paths(Path(self.folder)):
            status = path.stat()
            # ctime also changes with the mode.
            found.append(
                _Look(
                    str(path), status.st_ino, status.st_size, status.st_ctime_ns, status.st_mode
                )
            )
            if len(found) > FILES_MAX:
                raise SettingsError(
                    f"{self.folder} has more than {FILES_MAX} account files; remove some"
                )
        return found


def accounts_by_name(texts: Iterable[AccountText]) -> dict[str, Account]:
    """Return the accounts of several files by their access keys. Raises SettingsError if one occurs twice."""
    accounts: dict[str, Account] = {}
    for text in texts:
        for place, account in text.accounts:
            if account.name in accounts:
                raise place.wrong("another account has the same accessKey")
            accounts[account.name] = account
    return accounts


def _paths(folder: Path) -> Iterator[Path]:
    plain = folder / PLAIN_ACL
    if plain.is_file():
        yield plain
    for path in sorted((folder / ACL_FOLDER).rglob("*")):
        if path.suffix in _SUFFIXES and path.name != _TOOLS and path.is_file():
            yield path


def check_readers(path: str, mode: int) -> None:
    """Raise SettingsError if the group may write a file of accounts, others may use it, or `check_owner` rejects it."""
    if mode & _MODE_REFUSED:
        raise SettingsError(
            f"{path} has the mode {mode & 0o777:04o}, so other users may read or write it; run chmod 600 {path}"
        )
    try:
        check_owner(path)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from None


def account_bytes(path: str) -> bytes:
    """Return the content of a file of accounts; raise SettingsError if it cannot be read or is too large."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            content = file.read(SIZE_MAX + 1)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from None
    if len(content) > SIZE_MAX:
        raise SettingsError(f"{path} has more than {SIZE_MAX} bytes, the maximum")
    return content


def _read(look: _Look) -> AccountText:
    check_readers(look.path, look.mode)
    return read_accounts(account_bytes(look.path), look.path)
