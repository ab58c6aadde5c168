"""Policies of Auth 2.0: what a user may do to which resource, from where.

    {"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": [
        {"resource": "Topic:orders*", "actions": ["Pub"], "sourceIps": ["10.0.0.0/8"], "decision": "Allow"}]}]}

The Custom policy is asked first, the Default one where nothing of it fits, and where nothing fits at all the answer is no. Of entries that
fit the most exact counts: a name, then the longest prefix, then any; of two on one level the one that denies. RocketMQ 5.3.3
means the same and does otherwise (there Allow wins, and the shorter prefix).
"""

from collections.abc import Iterable, Mapping
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Any, TypeVar

from cometmq.model.errors import SettingsError
from cometmq.model.frozen import dataclass
from cometmq.model.rights import ANY_NAME, Access, Action, Resource, needs_its_name

ALLOW, DENY = "Allow", "Deny"
CUSTOM, DEFAULT = "Custom", "Default"
ALL = "All"
# Policies and entries of a user, entries of a policy, addresses of an entry.
ENTRIES_MAX, ADDRESSES_MAX = 1_000, 100
_RESOURCE_MAX = 512

_ACTIONS: Mapping[str, frozenset[Action]] = {
    ALL.lower(): frozenset(Action),
    **{action.value.lower(): frozenset({action}) for action in Action},
}
_KINDS = {kind.value.lower(): kind for kind in Resource}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """One thing that is allowed or denied.

    Attributes:
        resource: as it is written, `Topic:orders*`.
        kind: of the resource; None: any.
        name: of it, or what it begins with.
        level: how exact that is; the higher counts.
        actions: with the resource.
        action_names: as they are written.
        networks: where a request comes from; none: from anywhere.
        addresses: as they are written.
        is_allowed: or denied.
    """

    resource: str
    kind: Resource | None
    name: str
    level: int
    actions: frozenset[Action]
    action_names: tuple[str, ...]
    networks: tuple[IPv4Network | IPv6Network, ...]
    addresses: tuple[str, ...]
    is_allowed: bool

    def fits(self, access: Access, address: IPv4Address | IPv6Address) -> bool:
        """Whether the entry is about the thing that is asked for."""
        if self.kind is not None and self.kind is not access.resource:
            return False
        if self.actions.isdisjoint(access.actions):
            return False
        if access.name == ANY_NAME and access.resource is not Resource.CLUSTER:
            # All of a kind: allowed by what allows all, and denied by what denies one.
            is_named = self.level <= 1 or not self.is_allowed
        elif self.level == _EXACT or needs_its_name(access):
            is_named = self.level == _EXACT and access.name == self.name
        else:
            is_named = self.names(access.name)
        # The addresses last: few entries get so far.
        return is_named and (
            not self.networks or any(address in network for network in self.networks)
        )

    def names(self, name: str) -> bool:
        """Return whether the entry is about a resource of its kind with this name."""
        return name == self.name if self.level == _EXACT else name.startswith(self.name)

    def to_json(self) -> dict[str, Any]:
        """The entry as RocketMQ's JSON."""
        sources = {"sourceIps": list(self.addresses)} if self.addresses else {}
        decision = ALLOW if self.is_allowed else DENY
        return {
            "resource": self.resource,
            "actions": list(self.action_names),
            **sources,
            "decision": decision,
        }


# Levels: any kind 0, any name 1, a prefix 2 and its length, a name above all of them.
_EXACT = 1 << 20


@dataclass(frozen=True, slots=True)
class UserPolicies:
    """The policies of one user.

    Attributes:
        entries: by the type of the policy.
    """

    entries: Mapping[str, tuple[PolicyEntry, ...]]

    def may(self, access: Access, ip: str) -> bool:
        """Whether the policies allow a thing."""
        decided = self.deciding(access, ip)
        return decided is not None and decided[1].is_allowed

    def deciding(self, access: Access, ip: str) -> tuple[str, PolicyEntry] | None:
        """The entry that decides about a thing, with the type of its policy; None where none fits: that is a no."""
        address = ip_address(ip)
        for policy in (CUSTOM, DEFAULT):
            entries = self.entries.get(policy, ())
            fitting = [each for each in entries if each.fits(access, address)]
            if fitting:
                return policy, max(fitting, key=lambda each: (each.level, not each.is_allowed))
        return None

    def merged(self, other: "UserPolicies") -> "UserPolicies":
        """These policies and another user's: an entry of the same resource takes the place of what was."""
        entries = {**self.entries}
        for policy, more in other.entries.items():
            by_resource = {each.resource: each for each in (*entries.get(policy, ()), *more)}
            entries[policy] = tuple(by_resource.values())
        merged = UserPolicies(entries)
        merged.check()
        return merged

    def without(self, policy: str, resource: str) -> "UserPolicies":
        """These policies without the entry of a resource.

        Raises:
            SettingsError: there is none.
        """
        kept = tuple(each for each in self.entries.get(policy, ()) if each.resource != resource)
        if len(kept) == len(self.entries.get(policy, ())):
            raise SettingsError("there is no entry of this resource in the policy")
        return UserPolicies({**self.entries, policy: kept}).trimmed()

    def trimmed(self) -> "UserPolicies":
        """These policies without those that have no entry."""
        return UserPolicies({policy: each for policy, each in self.entries.items() if each})

    def about(self, resource: str) -> "UserPolicies":
        """The policies whose resource contains this text."""
        return UserPolicies(
            {
                policy: tuple(each for each in entries if resource in each.resource)
                for policy, entries in self.entries.items()
            }
        ).trimmed()

    def check(self) -> None:
        """Refuse more than is looked at for each request.

        Raises:
            SettingsError: there are too many.
        """
        count = sum(map(len, self.entries.values()))
        if count > ENTRIES_MAX:
            raise SettingsError(f"{count} entries of one user; {ENTRIES_MAX} is the most")

    def to_json(self) -> list[dict[str, Any]]:
        """The policies as RocketMQ's JSON."""
        return [
            {"policyType": policy, "entries": [each.to_json() for each in entries]}
            for policy, entries in self.entries.items()
            if entries
        ]


def read_policies(value: Any) -> UserPolicies:
    """Policies from JSON.

    Raises:
        SettingsError: they cannot be used; the message says which field and what is right.
    """
    found: dict[str, tuple[PolicyEntry, ...]] = {}
    for policy in _list_of(value, "policies"):
        if not isinstance(policy, dict):
            raise SettingsError("policies: each has to be an object")
        name = _word(policy.get("policyType") or CUSTOM, (CUSTOM, DEFAULT), "policyType")
        entries = [_entry(each) for each in _list_of(policy.get("entries"), "entries")]
        by_resource = {each.resource: each for each in (*found.get(name, ()), *entries)}
        found[name] = tuple(by_resource.values())
    policies = UserPolicies(found).trimmed()
    policies.check()
    return policies


def _entry(value: Any) -> PolicyEntry:
    if not isinstance(value, dict):
        raise SettingsError("entries: each has to be an object")
    resource = value.get("resource")
    if not isinstance(resource, str) or not 0 < len(resource) <= _RESOURCE_MAX:
        raise SettingsError(
            "resource: it has to be Topic:NAME, Group:NAME, Cluster:NAME, with a * at the end of NAME for all that begin so, or *"
        )
    kind, name, level = _resource(resource)
    actions = [
        _word(each, (ALL, *(action.value for action in Action)), "actions")
        for each in _list_of(value.get("actions"), "actions")
    ]
    if not actions:
        raise SettingsError("actions: none is named; name some, or All")
    addresses = _list_of(value.get("sourceIps") or [], "sourceIps")
    if len(addresses) > ADDRESSES_MAX:
        raise SettingsError(f"sourceIps: {len(addresses)}; {ADDRESSES_MAX} is the most")
    return PolicyEntry(
        resource=resource,
        kind=kind,
        name=name,
        level=level,
        actions=frozenset().union(*(_ACTIONS[each.lower()] for each in actions)),
        action_names=tuple(actions),
        networks=tuple(_network(each) for each in addresses),
        addresses=tuple(addresses),
        is_allowed=_word(value.get("decision"), (ALLOW, DENY), "decision") == ALLOW,
    )


def _resource(text: str) -> tuple[Resource | None, str, int]:
    if text == "*":
        return None, "", 0
    kind_text, colon, name = text.partition(":")
    kind = _KINDS.get(kind_text.lower())
    if kind is None or not colon or not name or "*" in name[:-1]:
        raise SettingsError(
            "resource: it has to be Topic:NAME, Group:NAME, Cluster:NAME, with a * at the end of NAME for all that begin so, or *"
        )
    if name == "*":
        return kind, "", 1
    if name.endswith("*"):
        return kind, name[:-1], 2 + len(name)
    return kind, name, _EXACT


def _network(text: Any) -> IPv4Network | IPv6Network:
    try:
        return ip_network(str(text), strict=False)
    except ValueError:
        raise SettingsError(
            "sourceIps: each has to be an IP address, or one with /BITS"
        ) from None


def _word(value: Any, known: Iterable[str], of: str) -> str:
    words = {word.lower(): word for word in known}
    word = words.get(value.strip().lower()) if isinstance(value, str) else None
    if word is None:
        raise SettingsError(f"{of}: it has to be one of {', '.join(words.values())}")
    return word


def _list_of(value: Any, of: str) -> list[Any]:
    if not isinstance(value, list):
        raise SettingsError(f"{of}: it has to be a list")
    return value
