"""The interface of everything that is built from the log: queues, the index, and what features build (`log_follower`).

All such structures are in one list and follow the log when it is truncated, cleaned or synced, by code that only knows
this interface (docs/design/0036). Queues and index are fed as messages become visible, whether records come from a put,
a recovery or another broker, and share the checkpoint's position. A feature's builder has a position of its own.
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
        """Sync the changes to the device, also those whose sync was postponed; raise OSError if one fails. Any thread."""

    def done(self) -> None:
        """Note that the checkpoint has been written; called on the thread that owns the store."""


class Hold(NamedTuple):
    """The name of a structure, and the physical offset from which the log must be kept for it."""

    name: str
    offset: int


class Derived:
    """One structure that is built from the log. A method that a structure does not need does nothing.

    Attributes:
        is_step_out: Whether a step that `LogFollower.due` returned has not ended; False for other structures.
    """

    is_step_out = False

    def load(self, *, is_clean: bool, log_start: int) -> int | None:
        """Read the existing files and drop content that cannot be trusted; by default, do nothing.

        Args:
            is_clean: Whether the last shutdown was clean.
            log_start: Physical offset of the oldest log file.

        Returns:
            Physical offset from which records must be fed, maybe again; None if the structure requests none.
        """
        return None

    def feed(self, batch: Batch) -> None:
        """Add the entries of a batch of records; batches come in log order. By default, do nothing."""

    @property
    def feed_put(self) -> FeedPut | None:
        """Faster form of `feed` for batches of puts; None if puts are not fed to this structure."""
        return None

    def hide_from(self, offset: int) -> Iterator[Step]:
        """Yield steps that hide everything at and after the physical offset at which the log will end; by default none.

        The files of queues and index do not change yet; a feature's builder already removes what it built. Steps are
        run as for `delete_before`, but the first OSError ends the truncation. `truncate` follows.
        """
        return iter(())

    def truncate(self, offset: int) -> Iterator[Step]:
        """Yield steps that remove what records at and after the new end have left; by default none.

        Called in a truncation after `hide_from`, and in a recovery unless the log is damaged or read-only.
        """
        return iter(())

    def delete_before(self, offset: int) -> Iterator[Step]:
        """Yield steps that delete older files whose entries are all before the log's new start; by default none.

        The caller runs each yielded step, maybe on another thread, before it asks for the next one on the thread that
        owns the store. If a step raises OSError, the remaining steps are run nevertheless, and the whole deletion is
        requested again later.
        """
        return iter(())

    def files_before(self, offset: int) -> list[str]:
        """Return the paths that `delete_before` would delete (default: none); may block and raise OSError."""
        return []

    def sync(self) -> Sync | None:
        """Return the changes since the last call, for a checkpoint; None (the default) if there are none to sync."""
        return None

    def hold(self) -> Hold | None:
        """Return from where the log must be kept for this structure; None (the default) if a checkpoint records that."""
        return None


def holds_of(derived: Sequence[Derived]) -> list[Hold]:
    """Return, as `Hold` objects, from where the log must be kept for structures whose position no checkpoint records."""
    return [hold for each in derived if (hold := each.hold()) is not None]


def truncate_now(derived: Sequence[Derived], offset: int) -> None:
    """Truncate all derived structures immediately, blocking on the device; raise OSError if the disk fails."""
    for each in derived:
        for step in each.hide_from(offset):
            step()
        for step in each.truncate(offset):
            step()
