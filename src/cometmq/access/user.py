"""A user of a server with a secret, and the tables of users."""

from typing import Protocol

from cometmq.model.rights import Access, Right


class User(Protocol):
    """Somebody who signs his requests; his name is the access key."""

    @property
    def name(self) -> str:
        """The access key."""
        ...

    @property
    def is_super(self) -> bool:
        """Whether the user may do everything."""
        ...

    def may(self, access: Access, right: Right, ip: str) -> bool:
        """Return whether the user may do something by a request of this right from an address."""
        ...

    @property
    def secret(self) -> bytes:
        """The secret with which the user signs."""
        ...

    @property
    def is_enabled(self) -> bool:
        """Whether the user may ask at all."""
        ...


class UserTable(Protocol):
    """All users at one time; what changes is another table."""

    def find(self, name: str) -> User | None:
        """The user of a name."""
        ...

    def is_unasked(self, ip: str) -> bool:
        """Whether an address needs neither signature nor right."""
        ...

    def is_unsigned(self, user: User, ip: str) -> bool:
        """Whether a user need not sign from an address."""
        ...

    def is_open(self, code: int) -> bool:
        """Whether requests of a code need no user."""
        ...

    def is_right_spared(self, code: int) -> bool:
        """Whether requests of a code need a user, and no right."""
        ...
