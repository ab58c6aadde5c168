"""Reasons why the store accepts no messages for now or until a restart, and the error that a sender then gets.

Some reasons are temporary (a full disk). Others last until a restart, such as that the store is closed, read-only or
damaged, or that a flush to the device has failed (docs/design/0004).
"""

import logging

from cometmq.model.errors import StoreBusy, StoreError, StoreFull, StorePoisoned
from cometmq.store.running_flags import RunningFlag, RunningFlags

logger = logging.getLogger(__name__)


class Acceptance:
    """Reasons why the store accepts no messages, if any; a single put can be refused for other reasons.

    Attributes:
        flags: Current reasons for refusing messages (RocketMQ's running flags).
        is_over: Whether `end` was called, so that no messages are accepted until a restart.
        is_held: Whether the log is being truncated, so that no other work may change files.
    """

    def __init__(self) -> None:
        self.flags = RunningFlags()
        self.is_over = False
        self.is_held = False
        self._refused_as: type[StoreError] = StoreFull

    def refusal(self) -> StoreError:
        """Return the error for a message while `flags.refusal` is set; StoreBusy if only for a pause or truncation."""
        if self.flags.refusal == self.flags.passing:
            return StoreBusy(self.flags.passing)
        return self._refused_as(self.flags.refusal)

    def pause(self, reason: str) -> None:
        """Refuse messages until `resume`, because the event loop was blocked for too long."""
        self.flags.set_pause(reason)

    def resume(self) -> None:
        """End the refusal that `pause` began; other reasons may remain."""
        self.flags.set_pause(None)

    def hold(self, reason: str) -> None:
        """Refuse messages and other changes of files until `release`, while the store truncates its log."""
        assert not self.is_held
        self.is_held = True
        self.flags.set_hold(reason)

    def release(self) -> None:
        """End the refusal of messages and changes of files that `hold` began; other reasons may remain."""
        self.is_held = False
        self.flags.set_hold(None)

    def check_free(self) -> None:
        """Raise StoreBusy if the log is being truncated, because nothing else may change files then."""
        if self.is_held:
            raise StoreBusy(self.flags.hold)

    def end(self, kind: type[StoreError], reason: str) -> None:
        """Refuse all messages until a restart, with errors of this kind and reason; a later call replaces both."""
        self.is_over = True
        self._refused_as = kind
        self.flags.raise_flag(RunningFlag.NOT_WRITABLE, reason)

    def poison(self, reason: str) -> StorePoisoned:
        """Refuse all messages until a restart, after the failure `reason`; return the error for current callers."""
        logger.error("%s; the store accepts no messages until a restart has checked it", reason)
        self.end(StorePoisoned, f"{reason}; restart the broker when the disk works again")
        return StorePoisoned(self.flags.refusal)
