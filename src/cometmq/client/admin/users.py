"""Users and policies, as `AsyncAdmin.users`; masters and slaves keep their own, so requests are sent to every member."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from cometmq.client.admin.account_lines import (
    EntryLine,
    UserLine,
    entry_lines,
    new_entry,
    user_lines,
)
from cometmq.client.admin.noun import AsyncNoun
from cometmq.client.api.asking import side_by_side
from cometmq.client.api.users import UserApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.model.errors import CometError

Value = TypeVar("Value")


class AccountsReport(NamedTuple):
    """The users and policies of all brokers that answer.

    Attributes:
        users: Users; one that brokers describe differently occurs several times.
        entries: Distinct policy entries.
        refusals: Errors of the members that refused or gave no valid answer, by "name:id".
    """

    users: list[UserLine]
    entries: list[EntryLine]
    refusals: dict[str, CometError]


async def each_member(
    instance: ClientInstance, ask: Callable[[str], Awaitable[Value]]
) -> Mapping[str, Value | CometError]:
    """Query each registered member of each broker group concurrently; return the answers or errors, by "name:id"."""
    brokers = (await instance.nameserver_api.cluster()).brokers
    members = {
        f"{name}:{number}": address
        for name, broker in sorted(brokers.items())
        for number, address in sorted(broker.addresses.items())
    }
    said = await side_by_side(ask, members.values())
    return dict(zip(members, said, strict=True))


class AsyncUserAdmin(AsyncNoun):
    """The users of all brokers and their policies (Auth 2.0)."""

    _noun = "users"

    @property
    def _api(self) -> UserApi:
        return UserApi(self._live)

    async def create(self, name: str, password: str, *, is_super: bool) -> None:
        """Create a user at every registered broker; if some fail, raise CometError with the reasons."""
        kind = "Super" if is_super else "Normal"
        await self._all(lambda address: self._api.create(address, name, password, kind))

    async def delete(self, name: str) -> None:
        """Delete a user and its policies at every registered broker; if some fail, raise CometError with the reasons."""
        await self._all(lambda address: self._api.delete(address, name))

    async def put_entry(
        self,
        name: str,
        resource: str,
        actions: Sequence[str],
        sources: Sequence[str],
        *,
        is_allowed: bool,
    ) -> None:
        """Allow or deny a user actions on a resource at every broker, replacing an earlier Custom entry for it.

        Raises SettingsError for an invalid entry, which changes nothing, and CometError if some brokers fail.
        """
        entry: dict[str, Any] = new_entry(resource, actions, sources, is_allowed=is_allowed)
        await self._all(lambda address: self._api.put_entry(address, name, entry))

    async def delete_entry(self, name: str, resource: str) -> None:
        """Delete a resource's entry from a user's Custom policy at every broker; raise CometError if some fail."""
        await self._all(lambda address: self._api.delete_entry(address, name, resource))

    async def _all(self, work: Callable[[str], Awaitable[None]]) -> None:
        said = await each_member(self._live, work)
        failed = {name: each for name, each in said.items() if isinstance(each, CometError)}
        if not failed:
            return
        if len(said) == 1:
            raise next(iter(failed.values()))
        done = ", ".join(name for name in said if name not in failed) or "no broker"
        reasons = "; ".join(f"{name}: {each}" for name, each in failed.items())
        raise CometError(f"the change was made at {done}, but failed at {reasons}; repeat it")

    # --- Methods named like types stand last: in annotations behind them, these names would mean the methods.

    async def set(self, name: str, values: Mapping[str, str]) -> None:
        """Change a user's password, userType or userStatus at every registered broker; raise CometError if some fail."""
        await self._all(lambda address: self._api.update(address, name, dict(values)))

    async def list(self) -> AccountsReport:
        """Return the users and policies of the registered brokers that answer, and the errors of the others.

        Raises SettingsError if a broker's policy is malformed, and other CometErrors if no nameserver can be queried.
        """
        users = await each_member(self._live, self._api.users)
        answered = {
            name: each for name, each in users.items() if not isinstance(each, CometError)
        }
        policies = await each_member(self._live, self._api.policies) if answered else {}
        refusals = {name: each for name, each in users.items() if isinstance(each, CometError)}
        return AccountsReport(
            user_lines(answered),
            entry_lines({n: e for n, e in policies.items() if not isinstance(e, CometError)}),
            {**{n: e for n, e in policies.items() if isinstance(e, CometError)}, **refusals},
        )
