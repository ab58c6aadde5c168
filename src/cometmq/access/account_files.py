"""The files of ACL 1.0: `plain_acl.yml` and `acl/**/*.yml` of a folder, as they are now.

They are looked at each 500 ms, as RocketMQ does. What has changed is read in a thread and counts as a whole, or not at all: a file that
cannot be read keeps the accounts that were there, and a line of the log names it with its line. A file that others
may read or write is refused: its secrets are no secrets.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Iterator, Mapping
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
_TOOLS = "tools.yml"  # Of mqadmin; its own credentials are no account.
LOOK_SECONDS = 0.5
# Of one file, bytes, and so many files.
SIZE_MAX, FILES_MAX = 4 << 20, 1_000
# Whoever is not the owner or of his group may neither read nor write, and the group may not write.
_MODE_REFUSED = 0o027


class _Look(NamedTuple):
    """The traits of a file by which it is seen that it was written to."""

    path: str
    inode: int
    size: int
    changed_ns: int
    mode: int


class AccountFiles:
    """The accounts of a folder.

    Attributes:
        folder: where the files are.
        current: the accounts in force.
        texts: what each file says, by its path.
    """

    def __init__(self, folder: str, *, is_white_unsigned: bool = False) -> None:
        """Read all files of accounts in a folder.

        Raises:
            SettingsError: there is none, or one of them cannot be used; the message names it.
        """
        self.folder = folder
        self._is_white_unsigned = is_white_unsigned
        self._changing = threading.Lock()
        self._looks = self._look()
        if not self._looks:
            raise SettingsError(
                f"aclEnable=true, and there is neither {PLAIN_ACL} nor {ACL_FOLDER}/*.yml in {folder}: write one, "
                "or name the folder in aclFolder"
            )
        self.texts: Mapping[str, AccountText] = {look.path: _read(look) for look in self._looks}
        self.current = self.joined(self.texts)
        if not len(self.current):
            raise SettingsError(
                f"aclEnable=true, and {folder} has no account: nobody could ask"
            )

    @property
    def default_path(self) -> str:
        """The path of the file for new accounts."""
        return os.path.join(self.folder, PLAIN_ACL)  # noqa: PTH118

    def joined(self, texts: Mapping[str, AccountText]) -> FolderAccounts:
        """The accounts of files together.

        Raises:
            SettingsError: one stands twice.
        """
        accounts: dict[str, Account] = {}
        for text in texts.values():
            for place, account in text.accounts:
                if account.name in accounts:
                    raise place.wrong(
                        "the accessKey of this account stands in another one, too"
                    )
                accounts[account.name] = account
        white = [pattern for text in texts.values() for pattern in text.white]
        return FolderAccounts(accounts, white=white, is_white_unsigned=self._is_white_unsigned)

    def look(self) -> bool:
        """Take what has changed, if it can be used; True where something has. In any thread."""
        with self._changing:
            return self._look_again()

    def _look_again(self) -> bool:
        try:
            looks = self._look()
        except (OSError, SettingsError) as error:
            _log.warning("the accounts stay as they are: %s", error)
            return False
        if looks == self._looks:
            return False
        self._looks = looks  # Told of once.
        with short_switch_interval():
            try:
                texts = {look.path: _read(look) for look in looks}
                current = self.joined(texts)
            except SettingsError as error:
                _log.error("the accounts stay as they are: %s", error)
                return False
            self.texts, self.current = texts, current
        _log.info("in force now: %d %s in %d %s", len(current), plural(len(current), "account"),
            len(looks), plural(len(looks), "file"),
        )  # fmt: skip
        return True

    def take(self, texts: Mapping[str, AccountText]) -> None:
        """Put in force what was written just now."""
        with self._changing:
            self.current, self.texts = self.joined(texts), texts
            self._looks = self._look()

    async def follow(self) -> None:
        """Look at the files as long as the program runs."""
        while True:
            await beat_sleep(LOOK_SECONDS)
            await asyncio.to_thread(self.look)

    def _look(self) -> list[_Look]:
        found = []
        for path in _paths(Path(self.folder)):
            status = path.stat()
            # The change time tells of rights, too.
            found.append(
                _Look(
                    str(path), status.st_ino, status.st_size, status.st_ctime_ns, status.st_mode
                )
            )
            if len(found) > FILES_MAX:
                raise SettingsError(f"{self.folder}: more than {FILES_MAX} files of accounts")
        return found


def _paths(folder: Path) -> Iterator[Path]:
    plain = folder / PLAIN_ACL
    if plain.is_file():
        yield plain
    for path in sorted((folder / ACL_FOLDER).rglob("*")):
        if path.suffix in _SUFFIXES and path.name != _TOOLS and path.is_file():
            yield path


def _read(look: _Look) -> AccountText:
    if look.mode & _MODE_REFUSED:
        raise SettingsError(
            f"{look.path}: its mode is {look.mode & 0o777:04o}, so others may read or write it: chmod 600"
        )
    try:
        check_owner(look.path)
        with open(look.path, "rb") as file:  # noqa: PTH123
            content = file.read(SIZE_MAX + 1)
    except OSError as error:
        raise SettingsError(f"{look.path}: {error.strerror or error}") from None
    if len(content) > SIZE_MAX:
        raise SettingsError(f"{look.path}: more than {SIZE_MAX} bytes")
    return read_accounts(content, look.path)
