"""Users and policies, as `AsyncAdmin.users`; masters and slaves keep their own, so most requests go to every member."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from cometmq.client.admin.noun import AsyncNoun
from cometmq.client.api.asking import side_by_side
from cometmq.client.api.users import UserApi, UserReport
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import BrokerNotFound, BrokerRefused, CometError, SettingsError
from cometmq.model.route import MASTER_ID
from cometmq.model.text import in_quotes

Value = TypeVar("Value")


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
        user: Name (access key).
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


class AccountsReport(NamedTuple):
    """The users and policies of all brokers that answer, as far as they were queried.

    Attributes:
        users: Users; one that brokers describe differently occurs several times.
        entries: Distinct policy entries.
        refusals: Errors of the members that refused or gave no valid answer, by "name:id".
        brokers: The other members, "name:id".
        malformed: A sentence about each user whose policies at a member are malformed; `entries` has none of them.
    """

    users: list[UserLine]
    entries: list[EntryLine]
    refusals: dict[str, CometError]
    brokers: tuple[str, ...]
    malformed: tuple[str, ...] = ()


class AsyncUserAdmin(AsyncNoun):
    """The methods that list, create, change and delete users of all brokers, and their policies (Auth 2.0).

    All but `put`, which changes one master, make a change at every registered member and return the names of these,
    "name:id". If some fail, they raise CometError with the reasons. In a group that elects its leader, the leader makes it.
    """

    _noun = "users"

    @property
    def _api(self) -> UserApi:
        return UserApi(self._live)

    async def create(self, name: str, password: str, *, is_super: bool) -> list[str]:
        """Create a user, with `is_super` one with all rights, at every registered broker; raise CometError if some fail."""
        kind = "Super" if is_super else "Normal"
        return await self._all(lambda address: self._api.create(address, name, password, kind))

    async def put(
        self,
        broker_name: str,
        values: Mapping[str, str],
        policies: Sequence[Any],
        *,
        is_dry: bool = False,
    ) -> bool:
        """Create or change a user at one master, with password and policies, and return whether the user is new there.

        Args:
            broker_name: The broker group.
            values: username, password, userType and userStatus, as in a broker's file of users.
            policies: Policies in RocketMQ's form; their entries replace those for the same resources.
            is_dry: Whether only to find out if the user is new.

        Raises:
            BrokerNotFound: No such master is registered.
            CometError: It refuses or gives no valid answer.
        """
        address, name = await self._live.nameserver_api.member(broker_name), values["username"]
        is_new = name not in {each.name for each in await self._api.users(address)}
        if is_dry:
            return is_new
        if is_new:
            await self._api.create(address, name, values["password"], values["userType"])
        await self._api.update(address, name, dict(values))
        if policies:
            await self._api.put_policies(address, name, policies)
        return is_new

    async def delete(self, name: str) -> list[str]:
        """Delete a user and its policies at every registered broker; raise CometError if some fail, or none knows the user."""
        is_known = False

        async def work(address: str) -> None:
            nonlocal is_known
            # A broker would report success for an unknown user.
            if name in {each.name for each in await self._api.users(address)}:
                is_known = True
                await self._api.delete(address, name)

        done = await self._all(work)
        if not is_known:
            raise CometError(
                f"user {in_quotes(name)} does not exist; cometmq acl list lists the users"
            )
        return done

    async def put_entry(
        self,
        name: str,
        resource: str,
        actions: Sequence[str],
        sources: Sequence[str],
        *,
        is_allowed: bool,
    ) -> list[str]:
        """Allow or deny a user actions on a resource at every broker, replacing an earlier Custom entry for it.

        Raises SettingsError for an invalid entry, which changes nothing, and CometError if some brokers fail.
        """
        from cometmq.access.policies import read_policies

        entry = {
            "resource": resource,
            "actions": list(actions),
            "sourceIps": list(sources),
            "decision": "Allow" if is_allowed else "Deny",
        }
        policies = [{"policyType": "Custom", "entries": [entry]}]
        read_policies(policies)
        return await self._all(lambda address: self._api.put_policies(address, name, policies))

    async def delete_entry(self, name: str, resource: str) -> list[str]:
        """Delete a resource's entry from a user's Custom policy at every broker; raise CometError if some fail."""
        return await self._all(lambda address: self._api.delete_entry(address, name, resource))

    async def _all(self, work: Callable[[str], Awaitable[None]]) -> list[str]:
        said = await self._each_member(work)
        if not said:
            raise BrokerNotFound("no broker is registered at the nameserver; start one")
        said = {name: each for name, each in said.items() if not _is_led(name, said)}
        failed = {name: each for name, each in said.items() if isinstance(each, CometError)}
        if not failed:
            return list(said)
        if len(said) == 1:
            raise next(iter(failed.values()))
        done = ", ".join(name for name in said if name not in failed) or "no broker"
        reasons = "; ".join(f"{name}: {each}" for name, each in failed.items())
        raise CometError(f"the change was made at {done}, but failed at {reasons}; repeat it")

    async def _each_member(
        self, ask: Callable[[str], Awaitable[Value]]
    ) -> Mapping[str, Value | CometError]:
        """Query each registered member of each broker group concurrently; return the answers or errors, by "name:id"."""
        brokers = (await self._live.nameserver_api.cluster()).brokers
        members = {
            f"{name}:{number}": address
            for name, broker in sorted(brokers.items())
            for number, address in sorted(broker.addresses.items())
        }
        said = await side_by_side(ask, members.values())
        return dict(zip(members, said, strict=True))

    # --- Methods named like types stand last: in annotations behind them, these names would mean the methods.

    async def set(self, name: str, values: Mapping[str, str]) -> list[str]:
        """Change a user's password, userType or userStatus at every registered broker; raise CometError if some fail."""
        return await self._all(lambda address: self._api.update(address, name, dict(values)))

    async def list(
        self,
        *,
        with_users: bool = True,
        with_policies: bool = True,
        policies_of: str | None = None,
    ) -> AccountsReport:
        """Return the users and policies of the registered brokers that answer, and the errors of the others.

        Args:
            with_users: Whether users are queried.
            with_policies: Whether policies are queried; not if users are queried first and no broker returns them.
            policies_of: Only policies of this user. None: of all users.

        Raises:
            CometError: No nameserver can be queried.
        """
        users, refusals = _told(await self._each_member(self._api.users) if with_users else {})
        is_next = with_policies and (bool(users) or not with_users)
        policies, more = _told(await self._each_member(self._api.policies) if is_next else {})
        wanted = {
            broker: {name: each for name, each in told.items() if policies_of in (None, name)}
            for broker, told in policies.items()
        }
        refusals = {**more, **refusals}
        brokers = tuple(each for each in {**users, **policies} if each not in refusals)
        entries, malformed = entry_lines(wanted)
        return AccountsReport(user_lines(users), entries, refusals, brokers, malformed)


def _is_led(name: str, said: Mapping[str, object]) -> bool:
    """Return whether a member refused because its users come from its group's leader, which has answered."""
    answer, leader = said[name], f"{name.rpartition(':')[0]}:{MASTER_ID}"
    return (
        isinstance(answer, BrokerRefused)
        and answer.code == ResponseCode.SLAVE_NOT_AVAILABLE
        and name != leader
        and leader in said
    )


def _told(
    said: Mapping[str, Value | CometError],
) -> tuple[dict[str, Value], dict[str, CometError]]:
    """Divide what members returned into answers and errors, both by member."""
    errors = {name: each for name, each in said.items() if isinstance(each, CometError)}
    answers = {name: each for name, each in said.items() if not isinstance(each, CometError)}
    return answers, errors


def user_lines(said: Mapping[str, Sequence[UserReport]]) -> list[UserLine]:
    """Return a `UserLine` for each user; a user that brokers describe differently has several."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for broker, known in said.items():
        for each in known:
            found.setdefault((each.name, each.kind, each.status), []).append(broker)
    return [UserLine(*user, brokers) for user, brokers in sorted(found.items())]


def entry_lines(
    said: Mapping[str, Mapping[str, Sequence[Any]]],
) -> tuple[list[EntryLine], tuple[str, ...]]:
    """Return an `EntryLine` for each distinct entry of the users' access policies (ACL), sorted, and what is malformed.

    Args:
        said: Policies as each broker reports them: by broker, then by user.
    """
    from cometmq.access.policies import read_policies

    found: dict[tuple[Any, ...], list[str]] = {}
    malformed: list[str] = []
    for broker, by_user in said.items():
        for user, told in by_user.items():
            try:
                policies = read_policies(list(told))
            except SettingsError as error:
                malformed.append(
                    f"{broker}: the policies of user {in_quotes(user)} are malformed: {error}"
                )
                continue
            for policy, entries in policies.entries.items():
                for each in entries:
                    decision = "Allow" if each.is_allowed else "Deny"
                    key = (user, policy, each.resource, each.action_names, each.addresses, decision)  # fmt: skip
                    found.setdefault(key, []).append(broker)
    lines = [
        EntryLine(user, policy, resource, list(actions), list(sources), decision, brokers)
        for (user, policy, resource, actions, sources, decision), brokers in sorted(
            found.items()
        )
    ]
    return lines, tuple(malformed)
