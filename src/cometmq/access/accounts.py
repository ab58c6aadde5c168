"""Accounts of ACL 1.0 and what they may do.

Names, defaults and their meaning are those of PlainPermissionManager of RocketMQ 4.9.8; what its five codes for administrators and
none for all the others became stands in docs/design/0050.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field

from cometmq.access.address_pattern import AddressPattern
from cometmq.access.user import User
from cometmq.model.frozen import dataclass
from cometmq.model.names import DEFAULT_TOPIC, TRACE_TOPIC
from cometmq.model.rights import ANY_NAME, Access, Action, Resource, Right, needs_its_name

# Names and secrets are longer than this (AclConstants.ACCESS_KEY_MIN_LENGTH).
KEY_LENGTH = 6

Permission = frozenset[Action]
_PUB, _SUB = frozenset({Action.PUB}), frozenset({Action.SUB})
_BOTH = _PUB | _SUB
PERMISSIONS: Mapping[str, Permission] = {
    "DENY": frozenset(),
    "PUB": _PUB,
    "SUB": _SUB,
    "PUB|SUB": _BOTH,
    "SUB|PUB": _BOTH,
    "ANY": _BOTH,
}
DENIED = PERMISSIONS["DENY"]
_READS = frozenset({Action.GET})
_ANY = _BOTH | _READS
# Traces are sent by everybody, and what a new topic would be like may be asked for.
_OF_EVERYBODY = {TRACE_TOPIC: _PUB, DEFAULT_TOPIC: _READS}


@dataclass(frozen=True, slots=True)
class Account:
    """An account.

    Attributes:
        name: its access key.
        secret: its secret key.
        is_super: `admin: true`.
        white: addresses that it need not sign from, where that is allowed.
        default_topic: permission for topics that are not named.
        default_group: the same for groups.
        topics: permission by topic.
        groups: permission by group.
        is_enabled: accounts are.
    """

    name: str
    secret: bytes = field(repr=False)
    is_super: bool = False
    white: AddressPattern | None = None
    default_topic: Permission = DENIED
    default_group: Permission = DENIED
    topics: Mapping[str, Permission] = field(default_factory=dict)
    groups: Mapping[str, Permission] = field(default_factory=dict)
    is_enabled: bool = True

    def may(self, access: Access, right: Right, _ip: str) -> bool:
        """See `User`: who may send to a topic or consume it may also read about it; its messages are for who may consume it."""
        if self.is_super:
            return True
        resource, name, actions, shows_messages = access
        if resource is Resource.CLUSTER:
            # At nameservers clients ask for brokers and keys; at brokers no such row is for anybody.
            return right is Right.ANYBODY and actions == _READS
        if name == ANY_NAME:
            return False
        wanted = actions
        if actions == _READS:
            wanted = _SUB if shows_messages else _ANY
        if needs_its_name(access):
            held = self.topics.get(name, DENIED)
        elif resource is Resource.GROUP:
            held = self.groups.get(name, self.default_group)
        else:
            held = self.topics.get(name, self.default_topic) | _OF_EVERYBODY.get(name, DENIED)
        return not wanted.isdisjoint(held)


class FolderAccounts:
    """All accounts of a folder's files, at one time.

    Attributes:
        accounts: by their names.
    """

    def __init__(
        self,
        accounts: Mapping[str, Account],
        *,
        white: Sequence[AddressPattern] = (),
        is_white_unsigned: bool = False,
    ) -> None:
        """`white` are the global white addresses; they count where `is_white_unsigned`."""
        self.accounts = accounts
        self._white = tuple(white) if is_white_unsigned else ()
        self._is_white_unsigned = is_white_unsigned

    def __len__(self) -> int:
        return len(self.accounts)

    def find(self, name: str) -> Account | None:
        """See `UserTable`."""
        return self.accounts.get(name)

    def is_unasked(self, ip: str) -> bool:
        """See `UserTable`: a global white address, where such need not sign."""
        return any(pattern.holds(ip) for pattern in self._white)

    def is_unsigned(self, user: User, ip: str) -> bool:
        """See `UserTable`: the account's own white address, where such need not sign."""
        if not self._is_white_unsigned or not isinstance(user, Account):
            return False
        return user.white is not None and user.white.holds(ip)

    def is_open(self, _code: int) -> bool:
        """See `UserTable`: no code is."""
        return False

    def is_right_spared(self, _code: int) -> bool:
        """See `UserTable`: of no code."""
        return False
