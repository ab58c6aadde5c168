"""Parser for files of ACL 1.0 such as `plain_acl.yml`, with line numbers for errors.

    globalWhiteRemoteAddresses:
    - 10.10.103.*
    accounts:
    - accessKey: RocketMQ
      secretKey: 12345678
      whiteRemoteAddress:
      admin: false
      defaultTopicPerm: DENY
      defaultGroupPerm: SUB
      topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      groupPerms:
      - groupA=DENY

Except within `dataVersion`, every unknown key or value is an error, because an ignored permission might be a DENY.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, NamedTuple

from cometmq.access.accounts import KEY_LENGTH, PERMISSIONS, Account, Permission
from cometmq.access.address_pattern import AddressPattern
from cometmq.access.yaml_text import YamlNode, YamlPlace, read_yaml
from cometmq.model.errors import SettingsError
from cometmq.model.names import RETRY_PREFIX
from cometmq.model.numbers import whole_number

GLOBAL_WHITE, ACCOUNTS, DATA_VERSION = "globalWhiteRemoteAddresses", "accounts", "dataVersion"
_TOP_KEYS = (GLOBAL_WHITE, ACCOUNTS, DATA_VERSION)


class AccountText(NamedTuple):
    """The content of a file of accounts.

    Attributes:
        accounts: Its accounts with their places in the file.
        white: Its global white addresses.
        version: Last entry of `dataVersion`: counter and time (ms since 1970); None if there is none.
    """

    accounts: list[tuple[YamlPlace, Account]]
    white: list[AddressPattern]
    version: tuple[int, int] | None = None


def read_accounts(
    content: bytes, path: str, on_error: Callable[[SettingsError], None] | None = None
) -> AccountText:
    """Parse a file of accounts; it may be empty. Raises SettingsError with file, mostly also line, if it is invalid.

    With `on_error`, the errors of keys, accounts and addresses are passed to it instead, and these are left out.
    """
    found = AccountText([], [])
    top = read_yaml(content, path)
    if top is None:
        return found
    for at, name, value in top.pairs("the file"):
        with _errors_to(on_error):
            if name == GLOBAL_WHITE:
                for item in value.items(name):
                    with _errors_to(on_error):
                        found.white.append(_pattern(item, name))
            elif name == ACCOUNTS:
                for item in value.items(name):
                    with _errors_to(on_error):
                        found.accounts.append((item.place, _account(item)))
            elif name == DATA_VERSION:
                found = found._replace(version=_version(value))
            else:
                raise at.wrong(_unknown(name, _TOP_KEYS))
    top.let_go()
    return found


@contextmanager
def _errors_to(on_error: Callable[[SettingsError], None] | None) -> Iterator[None]:
    try:
        yield
    except SettingsError as error:
        if on_error is None:
            raise
        on_error(error)


def _pattern(node: YamlNode, of: str) -> AddressPattern:
    try:
        return AddressPattern(node.text(of))
    except ValueError as error:
        raise node.wrong(f"{of}: {error}") from None


def _version(node: YamlNode) -> tuple[int, int] | None:
    items = node.items(DATA_VERSION)
    if not items:
        return None
    values = {name: value for _, name, value in items[-1].pairs(DATA_VERSION)}
    numbers = []
    for name in ("counter", "timestamp"):
        number = whole_number(values[name].text(name)) if name in values else 0
        if number is None:
            raise values[name].wrong(f"{name} is not a number")
        numbers.append(number)
    return numbers[0], numbers[1]


def _key(node: YamlNode, of: str) -> str:
    text = node.text(of)
    if len(text) <= KEY_LENGTH:
        raise node.wrong(f"{of} has {len(text)} characters; it needs more than {KEY_LENGTH}")
    return text


def _permission(node: YamlNode, of: str) -> Permission:
    return _permission_of(node.text(of), node, of)


def _permission_of(text: str, node: YamlNode, of: str) -> Permission:
    permission = PERMISSIONS.get(text.strip() or "DENY")  # Java also denies if it is empty.
    if permission is None:
        raise node.wrong(f"{of} must be one of {', '.join(PERMISSIONS)}")
    return permission


def _permissions(node: YamlNode, of: str) -> dict[str, Permission]:
    found = {}
    for item in node.items(of):
        name, equals, text = item.text(of).rpartition("=")
        name = name.strip()
        if not equals or not name:
            raise item.wrong(
                f"{of}: an entry must be NAME= and one of {', '.join(PERMISSIONS)}"
            )
        found[name.removeprefix(RETRY_PREFIX)] = _permission_of(text, item, f"{of} of {name}")
    return found


# Keys of an account, with the attribute for each and the function that parses it.
_READERS: Mapping[str, tuple[str, Callable[[YamlNode, str], Any]]] = {
    "accessKey": ("name", _key),
    "secretKey": ("secret", lambda node, of: _key(node, of).encode()),
    "whiteRemoteAddress": ("white", _pattern),
    "admin": ("is_super", lambda node, of: node.truth(of)),
    "defaultTopicPerm": ("default_topic", _permission),
    "defaultGroupPerm": ("default_group", _permission),
    "topicPerms": ("topics", _permissions),
    "groupPerms": ("groups", _permissions),
}


def _account(node: YamlNode) -> Account:
    values = {}
    for at, name, value in node.pairs("an account"):
        if name not in _READERS:
            raise at.wrong(_unknown(name, tuple(_READERS)))
        attribute, read = _READERS[name]
        values[attribute] = read(value, name)
    for needed in ("accessKey", "secretKey"):
        if _READERS[needed][0] not in values:
            raise node.wrong(f"an account has no {needed}; add it")
    return Account(**values)


def _unknown(name: str, known: tuple[str, ...]) -> str:
    nearest = get_close_matches(name, known, n=1, cutoff=0.6)
    hint = (
        f"; did you mean {nearest[0]}?" if nearest else f"; known keys are {', '.join(known)}"
    )
    return f"unknown key {name}{hint}"
