"""The blocking `UserAdmin`: made by tools/sync_facade.py from cometmq.client.admin.users; do not edit."""

from collections.abc import Mapping, Sequence

from cometmq.client.admin.users import AccountsReport, AsyncUserAdmin
from cometmq.client.sync.client import BlockingNoun


class UserAdmin(BlockingNoun[AsyncUserAdmin]):
    """The users of all brokers and their policies (Auth 2.0)."""

    def create(self, name: str, password: str, *, is_super: bool) -> None:
        """Create a user at every registered broker; if some fail, raise CometError with the reasons."""
        self._portal.call(self._client.create, name, password, is_super=is_super)

    def delete(self, name: str) -> None:
        """Delete a user and its policies at every registered broker; if some fail, raise CometError with the reasons."""
        self._portal.call(self._client.delete, name)

    def put_entry(
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
        self._portal.call(
            self._client.put_entry, name, resource, actions, sources, is_allowed=is_allowed
        )

    def delete_entry(self, name: str, resource: str) -> None:
        """Delete a resource's entry from a user's Custom policy at every broker; raise CometError if some fail."""
        self._portal.call(self._client.delete_entry, name, resource)

    def set(self, name: str, values: Mapping[str, str]) -> None:
        """Change a user's password, userType or userStatus at every registered broker; raise CometError if some fail."""
        self._portal.call(self._client.set, name, values)

    def list(self) -> AccountsReport:
        """Return the users and policies of the registered brokers that answer, and the errors of the others.

        Raises SettingsError if a broker's policy is malformed, and other CometErrors if no nameserver can be queried.
        """
        result: AccountsReport = self._portal.call(self._client.list)
        return result
