"""The interfaces of users and of tables of users, which ACL 1.0 and Auth 2.0 implement."""

from typing import Protocol

from cometmq.model.rights import Access, Right


class User(Protocol):
    """A user who signs requests; the name is the access key."""

    @property
    def name(self) -> str:
        """Access key of the user."""

    @property
    def is_super(self) -> bool:
        """Whether the user may do everything."""

    def may(self, access: Access, right: Right, ip: str) -> bool:
        """Return whether the user may make an access from an address, in a request that requires `right`."""

    @property
    def secret(self) -> bytes:
        """Secret that the user signs with."""

    @property
    def is_enabled(self) -> bool:
        """Whether the user may send requests at all."""


class UserTable(Protocol):
    """An immutable snapshot of all users; a change creates a new one."""

    def find(self, name: str) -> User | None:
        """Return the user with this name, or None."""

    # Addresses, which only ACL 1.0 exempts, and request codes, which only Auth 2.0 exempts.

    def is_unasked(self, ip: str) -> bool:
        """Return whether an address needs neither signature nor right."""
        return False

    def is_unsigned(self, user: User, ip: str) -> bool:
        """Return whether a user need not sign from an address."""
        return False

    def is_open(self, code: int) -> bool:
        """Return whether requests with this code need no user; the gate may still refuse them from other machines."""
        return False

    def is_right_spared(self, code: int) -> bool:
        """Return whether a user needs no right for requests with this code."""
        return False
