"""What is built from the log: queues of all kinds, the index.

All of it is fed the same way, whoever wrote the records: a put, a recovery, raw bytes of another
broker; and it follows the log where that is truncated (docs/design/0036).

Next: cometmq.store.derived_queues
"""

from typing import Protocol

from cometmq.store.batch import Batch


class Derived(Protocol):
    """One thing that is built from the log."""

    def load(self, *, is_clean: bool, log_start: int) -> int | None:
        """Read what is there and drop what cannot be trusted.

        Args:
            is_clean: the last stop was clean.
            log_start: physical offset of the oldest log file.

        Returns:
            Physical offset of a record from which on it lacks some; None: it lacks none that others do
            not lack. One that it has already may be fed again.
        """
        ...

    def feed(self, batch: Batch) -> None:
        """Add what follows from records; they come in the order of the log."""
        ...

    def truncate(self, offset: int) -> None:
        """The log ends at this physical offset: what lies behind goes. Called once behind the last feed of a start.

        Raises:
            OSError: the disk failed.
        """
        ...
