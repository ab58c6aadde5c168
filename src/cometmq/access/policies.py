"""Policies of Auth 2.0: what a user may do to which resource, from which addresses.

    {"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": [
        {"resource": "Topic:orders*", "actions": ["Pub"], "sourceIps": ["10.0.0.0/8"], "decision": "Allow"}]}]}

The Custom policy is evaluated first, the Default one if no entry of the former matches; without any match the access is
denied. Among matching entries the most exact one decides: a name, then the longest prefix, then any; on the same level,
Deny wins. RocketMQ 5.3.3 intends the same but behaves differently (Allow and the shorter prefix win).
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
# Maximum numbers of entries per user, and of addresses per entry.
ENTRIES_MAX, ADDRESSES_MAX = 1_000, 100
_RESOURCE_MAX = 512
_ADDRESS_MAX = (
    64  # Characters of an address or network; the longest has 49, and its zone may have a name.
)
_RESOURCE_FORM = "resource: it must be Topic:NAME, Group:NAME, Cluster:NAME, with a * at the end of NAME for a prefix, or *"

_ACTIONS: Mapping[str, frozenset[Action]] = {
    ALL.lower(): frozenset(Action),
    **{action.value.lower(): frozenset({action}) for action in Action},
}
_KINDS = {kind.value.lower(): kind for kind in Resource}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """An entry that allows or denies access.

    Attributes:
        resource: Resource as written, `Topic:orders*`.
        kind: Kind of the resource; None for any.
        name: Name of the resource, or its prefix.
        level: How exact the name is; among matching entries of a policy the highest level decides.
        actions: Actions on the resource.
        action_names: Names of the actions.
        networks: Networks of the senders that the entry concerns; empty for all.
        addresses: Networks as written.
        is_allowed: Whether the entry allows; otherwise it denies.
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
        """Return whether the entry matches an access from an address."""
        if self.kind is not None and self.kind is not access.resource:
            return False
        if self.actions.isdisjoint(access.actions):
            return False
        if access.name == ANY_NAME and access.resource is not Resource.CLUSTER:
            # All resources of a kind: allowed by an entry for all, denied by an entry for any one.
            is_named = self.level <= 1 or not self.is_allowed
        elif self.level == _EXACT or needs_its_name(access):
            is_named = self.level == _EXACT and access.name == self.name
        else:
            is_named = self.names(access.name)
        # Check addresses last, because few entries get here.
        return is_named and (
            not self.networks or any(address in network for network in self.networks)
        )

    def names(self, name: str) -> bool:
        """Return whether the entry includes the name of a resource of its kind."""
        return name == self.name if self.level == _EXACT else name.startswith(self.name)

    def to_json(self) -> dict[str, Any]:
        """Return the entry as a dict of RocketMQ's JSON values."""
        sources = {"sourceIps": list(self.addresses)} if self.addresses else {}
        decision = ALLOW if self.is_allowed else DENY
        return {
            "resource": self.resource,
            "actions": list(self.action_names),
            **sources,
            "decision": decision,
        }


# Levels: 0 any kind, 1 any name, 2 + length for a prefix, and an exact name above all.
_EXACT = 1 << 20


@dataclass(frozen=True, slots=True)
class UserPolicies:
    """The policies of a user: entries by type of policy, Custom or Default."""

    entries: Mapping[str, tuple[PolicyEntry, ...]]

    def may(self, access: Access, ip: str) -> bool:
        """Return whether the policies allow an access."""
        decided = self.deciding(access, ip)
        return decided is not None and decided[1].is_allowed

    def deciding(self, access: Access, ip: str) -> tuple[str, PolicyEntry] | None:
        """Return policy type and entry that decide about an access from an IP address; None means denied."""
        address = ip_address(ip)
        for policy in (CUSTOM, DEFAULT):
            entries = self.entries.get(policy, ())
            fitting = [each for each in entries if each.fits(access, address)]
            if fitting:
                return policy, max(fitting, key=lambda each: (each.level, not each.is_allowed))
        return None

    def merged(self, other: "UserPolicies") -> "UserPolicies":
        """Return these policies with the entries of `other`, which replace those of the same type for a resource.

        Raises SettingsError if there are too many entries.
        """
        entries = {**self.entries}
        for policy, more in other.entries.items():
            by_resource = {each.resource: each for each in (*entries.get(policy, ()), *more)}
            entries[policy] = tuple(by_resource.values())
        merged = UserPolicies(entries)
        merged.check()
        return merged

    def without(self, policy: str, resource: str) -> "UserPolicies":
        """Return the policies without one policy's entry for a resource. Raises SettingsError if it does not exist."""
        kept = tuple(each for each in self.entries.get(policy, ()) if each.resource != resource)
        if len(kept) == len(self.entries.get(policy, ())):
            raise SettingsError("the policy has no entry for this resource")
        return UserPolicies({**self.entries, policy: kept}).trimmed()

    def trimmed(self) -> "UserPolicies":
        """Return these policies without those that have no entry."""
        return UserPolicies({policy: each for policy, each in self.entries.items() if each})

    def about(self, resource: str) -> "UserPolicies":
        """Return new `UserPolicies` with only the entries whose resource contains a text."""
        return UserPolicies(
            {
                policy: tuple(each for each in entries if resource in each.resource)
                for policy, entries in self.entries.items()
            }
        ).trimmed()

    def check(self) -> None:
        """Raise SettingsError if there are more than ENTRIES_MAX entries, because each request may check all of them."""
        count = sum(map(len, self.entries.values()))
        if count > ENTRIES_MAX:
            raise SettingsError(f"a user has {count} entries; the limit is {ENTRIES_MAX}")

    def to_json(self) -> list[dict[str, Any]]:
        """Return the policies as a list of dicts in RocketMQ's JSON form, without empty ones."""
        return [
            {"policyType": policy, "entries": [each.to_json() for each in entries]}
            for policy, entries in self.entries.items()
            if entries
        ]


def read_policies(value: Any) -> UserPolicies:
    """Parse a user's policies from a list of JSON values. Raises SettingsError if one is invalid, or too many."""
    found: dict[str, tuple[PolicyEntry, ...]] = {}
    for policy in _list_of(value, "policies"):
        if not isinstance(policy, dict):
            raise SettingsError("policies: each must be a JSON object")
        name = _word(policy.get("policyType") or CUSTOM, (CUSTOM, DEFAULT), "policyType")
        entries = [_entry(each) for each in _list_of(policy.get("entries"), "entries")]
        by_resource = {each.resource: each for each in (*found.get(name, ()), *entries)}
        found[name] = tuple(by_resource.values())
    policies = UserPolicies(found).trimmed()
    policies.check()
    return policies


def _entry(value: Any) -> PolicyEntry:
    if not isinstance(value, dict):
        raise SettingsError("entries: each must be a JSON object")
    resource = value.get("resource")
    if not isinstance(resource, str) or not 0 < len(resource) <= _RESOURCE_MAX:
        raise SettingsError(_RESOURCE_FORM)
    kind, name, level = _resource(resource)
    # Repeated ones would be kept, without a limit.
    actions = dict.fromkeys(
        _word(each, (ALL, *(action.value for action in Action)), "actions")
        for each in _list_of(value.get("actions"), "actions")
    )
    if not actions:
        raise SettingsError("actions: the list is empty; name actions, or All")
    addresses = _list_of(value.get("sourceIps") or [], "sourceIps")
    if len(addresses) > ADDRESSES_MAX:
        raise SettingsError(
            f"sourceIps: the list has {len(addresses)} addresses; at most {ADDRESSES_MAX} are allowed"
        )
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
        raise SettingsError(_RESOURCE_FORM)
    if name == "*":
        return kind, "", 1
    if name.endswith("*"):
        return kind, name[:-1], 2 + len(name)
    return kind, name, _EXACT


def _network(text: Any) -> IPv4Network | IPv6Network:
    try:
        network = ip_network(str(text), strict=False)
    except ValueError:
        network = None
    if network is None or len(str(text)) > _ADDRESS_MAX:
        raise SettingsError(
            "sourceIps: each must be an IP address, or a network such as 10.0.0.0/8, "
            f"of at most {_ADDRESS_MAX} characters"
        )
    return network


def _word(value: Any, known: Iterable[str], of: str) -> str:
    words = {word.lower(): word for word in known}
    word = words.get(value.strip().lower()) if isinstance(value, str) else None
    if word is None:
        raise SettingsError(f"{of}: it must be one of {', '.join(words.values())}")
    return word


def _list_of(value: Any, of: str) -> list[Any]:
    if not isinstance(value, list):
        raise SettingsError(f"{of}: it must be a list")
    return value
