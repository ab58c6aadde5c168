"""Users and entries of policies as lines: each once, with the brokers that have it so."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from cometmq.client.api.users import UserReport


class UserLine(NamedTuple):
    """A user.

    Attributes:
        user: his access key.
        type: Super (may everything) or Normal.
        status: enable or disable.
        brokers: members that know him so, "name:id".
    """

    user: str
    type: str
    status: str
    brokers: list[str]


class EntryLine(NamedTuple):
    """An entry of a user's policies.

    Attributes:
        user: whose.
        policy: Custom, or Default, which is asked where nothing of Custom fits.
        resource: what it is about.
        actions: what of it.
        sources: from where; none: from anywhere.
        decision: Allow or Deny.
        brokers: members that have it, "name:id".
    """

    user: str
    policy: str
    resource: str
    actions: list[str]
    sources: list[str]
    decision: str
    brokers: list[str]


def user_lines(said: "Mapping[str, Sequence[UserReport]]") -> list[UserLine]:
    """A line for each user, and for each way in which brokers know him."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for broker, known in said.items():
        for each in known:
            found.setdefault((each.name, each.kind, each.status), []).append(broker)
    return [UserLine(*user, brokers) for user, brokers in sorted(found.items())]


def entry_lines(said: Mapping[str, Mapping[str, Sequence[Any]]]) -> list[EntryLine]:
    """A line for each entry of a policy, with the brokers that have it.

    Raises:
        SettingsError: a broker has what is no policy.
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
    """Check a new entry of a policy, and make RocketMQ's JSON of it.

    Raises:
        SettingsError: it cannot be used.
    """
    from cometmq.access.policies import read_policies

    entry = {
        "resource": resource,
        "actions": list(actions),
        "sourceIps": list(sources),
        "decision": "Allow" if is_allowed else "Deny",
    }
    read_policies([{"policyType": "Custom", "entries": [entry]}])
    return entry
