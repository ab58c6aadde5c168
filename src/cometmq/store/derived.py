"""Interface of everything built from the log: queues of all kinds, and the index.

All of them are fed the same way, whether records come from a put, a recovery or another broker. They also follow the
log when it is truncated, cleaned or synced, by code that only knows this interface (docs/design/0036).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from cometmq.store.batch import Batch

# A part of longer work, for a thread that may block; the caller runs steps one after the other.
Step = Callable[[], None]
FeedPut = Callable[[Batch], None]


class Sync(Protocol):
    """Changes to be synced to the device for a checkpoint."""

    def run(self) -> None:
        """Sync the changes to the device; also retries those that were postponed; any thread.

        Raises:
            OSError: The sync failed; the previous checkpoint remains valid.
        """
        ...

    def done(self) -> None:
        """Note that the checkpoint has been written; called on the thread that owns the store."""
        ...


class Derived(Protocol):
    """One structure that is built from the log."""

    def load(self, *, is_clean: bool, log_start: int) -> int | None:
        """Read the existing files and drop content that cannot be trusted.

        Args:
            is_clean: Whether the last shutdown was clean.
            log_start: Physical offset of the oldest log file.

        Returns:
            Physical offset from which records must be fed, maybe again; None if it has all that others have.
        """
        ...

    def feed(self, batch: Batch) -> None:
        """Add the entries of a batch of records; batches come in log order."""
        ...

    @property
    def feed_put(self) -> FeedPut | None:
        """Faster form of `feed` for batches of puts; None if this structure ignores puts."""
        ...

    def hide_from(self, offset: int) -> Iterator[Step]:
        """Hide everything at and after the physical offset at which the log is about to end.

        Changes nothing on disk. Steps are as for `delete_before`, but the first OSError ends it. `truncate` follows.
        """
        ...

    def truncate(self, offset: int) -> Iterator[Step]:
        """Remove the hidden part, as the log now ends at this physical offset; also runs once at the end of a recovery."""
        ...

    def delete_before(self, offset: int) -> Iterator[Step]:
        """Delete whole files whose entries are all before the log's new start, a physical offset.

        The code between two steps runs on the thread that owns the store. If a step raises OSError, the remaining
        steps are run nevertheless, and the whole deletion is requested again later.
        """
        ...

    def files_before(self, offset: int) -> list[str]:
        """Return the paths of the files that `delete_before` would delete; may block.

        Raises:
            OSError: The disk failed.
        """
        ...

    def sync(self) -> Sync | None:
        """Return the changes since the last call, for a checkpoint; None if all are on the device."""
        ...


def truncate_now(derived: Sequence[Derived], offset: int) -> None:
    """Truncate all derived structures immediately.

    Raises:
        OSError: The disk failed.
    """
    for each in derived:
        for step in each.hide_from(offset):
            step()
        for step in each.truncate(offset):
            step()
