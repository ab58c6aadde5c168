"""The blocking `UserAdmin`: made by tools/sync_facade.py from cometmq.client.admin.users; do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cometmq.client.admin.users import (
    AccountsReport,
    AsyncUserAdmin,
)
from cometmq.client.sync.client import BlockingNoun


class UserAdmin(BlockingNoun[AsyncUserAdmin]):
    """The methods that list, create, change and delete users of all brokers, and their policies (Auth 2.0).

    All but `put`, which changes one master, make a change at every registered member and return the names of these,
    "name:id". If some fail, they raise CometError with the reasons. In a group that elects its leader, the leader makes it.
    """

    def create(self, name: str, password: str, *, is_super: bool) -> list[str]:
        """Create a user, with `is_super` one with all rights, at every registered broker; raise CometError if some fail."""
        return self._portal.call(self._client.create, name, password, is_super=is_super)

    def put(
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
        return self._portal.call(self._client.put, broker_name, values, policies, is_dry=is_dry)

    def delete(self, name: str) -> list[str]:
        """Delete a user and its policies at every registered broker; raise CometError if some fail, or none knows the user."""
        return self._portal.call(self._client.delete, name)

    def put_entry(
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
        return self._portal.call(
            self._client.put_entry, name, resource, actions, sources, is_allowed=is_allowed
        )

    def delete_entry(self, name: str, resource: str) -> list[str]:
        """Delete a resource's entry from a user's Custom policy at every broker; raise CometError if some fail."""
        return self._portal.call(self._client.delete_entry, name, resource)

    def set(self, name: str, values: Mapping[str, str]) -> list[str]:
        """Change a user's password, userType or userStatus at every registered broker; raise CometError if some fail."""
        return self._portal.call(self._client.set, name, values)

    def list(
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
        return self._portal.call(
            self._client.list,
            with_users=with_users,
            with_policies=with_policies,
            policies_of=policies_of,
        )
