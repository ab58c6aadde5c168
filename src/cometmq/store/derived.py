"""Everything built from the log: queues of all kinds, the index, and what features build (`store.log_follower`).

One open list has them all. They follow the log when it is truncated, cleaned or synced, by code that only knows this
interface (docs/design/0036). Queues and index are fed as messages become visible, whether records come from a put, a
recovery or another broker; they share the position of the checkpoint. A feature's builder reads the log at its own
position.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

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


class Hold(NamedTuple):
    """A part of the log that must not be deleted yet.

    Attributes:
        name: Name of the structure that needs it.
        offset: Physical offset from which it is needed.
    """

    name: str
    offset: int


class Derived:
    """One structure that is built from the log. A method that a structure does not need does nothing.

    Attributes:
        is_step_out: Whether a thread is working on the structure beside the store.
    """

    is_step_out = False

    def load(self, *, is_clean: bool, log_start: int) -> int | None:
        """Read the existing files and drop content that cannot be trusted.

        Args:
            is_clean: Whether the last shutdown was clean.
            log_start: Physical offset of the oldest log file.

        Returns:
            Physical offset from which records must be fed, maybe again; None if it has all that others have.
        """
        return None

    def feed(self, batch: Batch) -> None:
        """Add the entries of a batch of records; batches come in log order."""

    @property
    def feed_put(self) -> FeedPut | None:
        """Faster form of `feed` for batches of puts; None if this structure ignores puts."""
        return None

    def hide_from(self, offset: int) -> Iterator[Step]:
        """Hide everything at and after the physical offset at which the log is about to end.

        Changes nothing on disk. Steps are as for `delete_before`, but the first OSError ends it. `truncate` follows.
        """
        return iter(())

    def truncate(self, offset: int) -> Iterator[Step]:
        """Remove the hidden part, as the log now ends at this physical offset; also runs once at the end of a recovery."""
        return iter(())

    def delete_before(self, offset: int) -> Iterator[Step]:
        """Delete whole files whose entries are all before the log's new start, a physical offset.

        The code between two steps runs on the thread that owns the store. If a step raises OSError, the remaining
        steps are run nevertheless, and the whole deletion is requested again later.
        """
        return iter(())

    def files_before(self, offset: int) -> list[str]:
        """Return the paths of the files that `delete_before` would delete; may block.

        Raises:
            OSError: The disk failed.
        """
        return []

    def sync(self) -> Sync | None:
        """Return the changes since the last call, for a checkpoint; None if all are on the device."""
        return None

    def hold(self) -> Hold | None:
        """Return the part of the log that it still reads; None: it needs nothing that a checkpoint covers."""
        return None


def holds_of(derived: Sequence[Derived]) -> list[Hold]:
    """Return the parts of the log that are still read."""
    return [hold for each in derived if (hold := each.hold()) is not None]


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
