"""Users and policy entries of a cluster as lines, each distinct one with the brokers that have it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from cometmq.client.api.users import UserReport


class UserLine(NamedTuple):
    """A user, with the brokers that have the same data of the user.

    Attributes:
        user: Name (access key).
        type: Super (all rights) or Normal.
        status: enable or disable.
        brokers: Members with this data, "name:id".
    """

    user: str
    type: str
    status: str
    brokers: list[str]


class EntryLine(NamedTuple):
    """An entry of a user's policies, with the brokers that have it.

    Attributes:
        policy: Custom, or Default, which applies if no entry of Custom matches.
        resource: The resource, such as a topic.
        actions: Actions on the resource.
        sources: Source addresses to which it applies; empty: any.
        decision: Allow or Deny.
        brokers: Members that have the entry, "name:id".
    """

    user: str
    policy: str
    resource: str
    actions: list[str]
    sources: list[str]
    decision: str
    brokers: list[str]


def user_lines(said: "Mapping[str, Sequence[UserReport]]") -> list[UserLine]:
    """Return a `UserLine` for each user; a user that brokers describe differently has several."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for broker, known in said.items():
        for each in known:
            found.setdefault((each.name, each.kind, each.status), []).append(broker)
    return [UserLine(*user, brokers) for user, brokers in sorted(found.items())]


def entry_lines(said: Mapping[str, Mapping[str, Sequence[Any]]]) -> list[EntryLine]:
    """Return an `EntryLine` for each distinct entry of the users' access policies (ACL), sorted.

    Args:
        said: Policies as each broker reports them: by broker, then by user.

    Raises:
        SettingsError: A policy is malformed.
    """
    from cometmq.access.policies import read_policies

    found: dict[tuple[Any, ...], list[str]] = {}
    for broker, by_user in said.items():
        for user, told in by_user.items():
            for policy, entries in read_policies(list(told)).entries.items():
                for each in entries:
                    decision = "Allow" if each.is_allowed else "Deny"
                    key = (user, policy, each.resource, each.action_names, each.addresses, decision)  # fmt: skip
                    found.setdefault(key, []).append(broker)
    return [
        EntryLine(user, policy, resource, list(actions), list(sources), decision, brokers)
        for (user, policy, resource, actions, sources, decision), brokers in sorted(
            found.items()
        )
    ]


def new_entry(
    resource: str, actions: Sequence[str], sources: Sequence[str], *, is_allowed: bool
) -> dict[str, Any]:
    """Check a new policy entry and return it as a dict in RocketMQ's form; raise SettingsError if it is invalid."""
    from cometmq.access.policies import read_policies

    entry = {
        "resource": resource,
        "actions": list(actions),
        "sourceIps": list(sources),
        "decision": "Allow" if is_allowed else "Deny",
    }
    read_policies([{"policyType": "Custom", "entries": [entry]}])
    return entry
