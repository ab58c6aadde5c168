"""Accounts of ACL 1.0 and their permissions.

Names, defaults and their meaning are those of PlainPermissionManager of RocketMQ 4.9.8. RocketMQ requires an
administrator for five request codes only; docs/design/0050 lists what this server requires.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field

from cometmq.access.address_pattern import AddressPattern
from cometmq.access.user import User, UserTable
from cometmq.model.frozen import dataclass
from cometmq.model.names import DEFAULT_TOPIC, TRACE_TOPIC
from cometmq.model.rights import ANY_NAME, Access, Action, Resource, Right, needs_its_name

# Minimum length of names and secrets is one more than this (AclConstants.ACCESS_KEY_MIN_LENGTH).
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
# Everybody may send traces and query the template of new topics.
_OF_EVERYBODY = {TRACE_TOPIC: _PUB, DEFAULT_TOPIC: _READS}


@dataclass(frozen=True, slots=True)
class Account:
    """An account of ACL 1.0.

    Attributes:
        name: Access key.
        secret: Secret key.
        is_super: Value of `admin`.
        white: Addresses from which it need not sign, if that is allowed.
        default_topic: Permission for topics without an entry; not for messages of topics that only brokers write to.
        default_group: Permission for groups without an entry.
        topics: Permission by topic.
        groups: Permission by group.
        is_enabled: Always true for accounts.
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
        """Return whether the account may make an access. Reading messages needs SUB, reading metadata PUB or SUB.

        An admin may make any access. Others may make none that concerns all topics or groups at once, and may only read
        of the cluster what anybody may. Anybody may send to the trace topic, and read metadata of it and of TBW102.
        """
        if self.is_super:
            return True
        resource, name, actions, shows_messages = access
        if resource is Resource.CLUSTER:
            # At nameservers, clients ask for brokers and keys; at brokers no such request is open to anybody.
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


class FolderAccounts(UserTable):
    """An immutable snapshot of all accounts of ACL 1.0 in a folder, by name."""

    def __init__(
        self,
        accounts: Mapping[str, Account],
        *,
        white: Sequence[AddressPattern] = (),
        is_white_unsigned: bool = False,
    ) -> None:
        """Use white addresses, the global ones (`white`) and those of the accounts, only if `is_white_unsigned`."""
        self.accounts = accounts
        self._white = tuple(white) if is_white_unsigned else ()
        self._is_white_unsigned = is_white_unsigned

    def __len__(self) -> int:
        return len(self.accounts)

    def find(self, name: str) -> Account | None:
        """Return the account with this name, or None."""
        return self.accounts.get(name)

    def is_unasked(self, ip: str) -> bool:
        """Return whether an address is a global white address and such addresses need not sign."""
        return any(pattern.holds(ip) for pattern in self._white)

    def is_unsigned(self, user: User, ip: str) -> bool:
        """Return whether an address is white for this account and such addresses need not sign."""
        if not self._is_white_unsigned or not isinstance(user, Account):
            return False
        return user.white is not None and user.white.holds(ip)
