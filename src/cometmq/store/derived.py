"""The interface of all that is built from the log: queues of all kinds, the index.

All of it is fed the same way, whoever wrote the records: a put, a recovery, raw bytes of another
broker; and it follows the log where that is truncated, where its oldest files go, and to the device
(docs/design/0036). Who truncates, cleans or makes checkpoints knows none of the kinds.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from cometmq.store.batch import Batch

# A part of longer work, for a thread that may wait; who takes the steps takes one after the other.
Step = Callable[[], None]
FeedPut = Callable[[Batch], None]


class Sync(Protocol):
    """The changes that a checkpoint brings to the device."""

    def run(self) -> None:
        """Bring the changes to the device; again where that was put off; any thread.

        Raises:
            OSError: it failed; what the checkpoint said before is still true.
        """
        ...

    def done(self) -> None:
        """The checkpoint has been made. On the thread that owns the store."""
        ...


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

    @property
    def feed_put(self) -> FeedPut | None:
        """A function that does the same for a batch that was put; None: nothing follows from a put."""
        ...

    def hide_from(self, offset: int) -> Iterator[Step]:
        """The log is about to end at this physical offset: nobody finds what lies behind from now on.

        Nothing on disk changes. Steps are as those of `delete_before`, but that one which raises OSError
        ends it. `truncate` follows.
        """
        ...

    def truncate(self, offset: int) -> Iterator[Step]:
        """The log ends at this physical offset: what was hidden goes. Done once behind the last feed of a start."""
        ...

    def delete_before(self, offset: int) -> Iterator[Step]:
        """The log begins at this physical offset: what points before it goes, as far as whole files do.

        What stands between two steps runs on the thread that owns the store. A step may raise OSError:
        the rest is done all the same, and all of it is asked for again later.
        """
        ...

    def files_before(self, offset: int) -> list[str]:
        """Paths of the files that `delete_before` would remove. May wait.

        Raises:
            OSError: the disk failed.
        """
        ...

    def sync(self) -> Sync | None:
        """The changes since the last call, for a checkpoint; None: all of them are on the device."""
        ...


def truncate_now(derived: Sequence[Derived], offset: int) -> None:
    """Have all of them end where the log does, here and now.

    Raises:
        OSError: the disk failed.
    """
    for each in derived:
        for step in each.hide_from(offset):
            step()
        for step in each.truncate(offset):
            step()
