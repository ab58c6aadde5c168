"""Whether the store takes messages, and what a sender is told when it does not.

Some reasons pass (a full disk), some are for good: the store is closed, was opened for reading,
or a write or flush has failed, after which nothing durable is ever tried again
(docs/design/0004).
"""

import logging

from cometmq.model.errors import StoreBusy, StoreError, StoreFull, StorePoisoned
from cometmq.store.running_flags import RunningFlag, RunningFlags

logger = logging.getLogger(__name__)


class Acceptance:
    """The store's word on whether it takes a message.

    Attributes:
        flags: the reasons that stand (RocketMQ's running flags).
        is_over: whether no message is taken for good.
        is_held: whether the store is at work on its log, and nothing else may touch it.
    """

    def __init__(self) -> None:
        self.flags = RunningFlags()
        self.is_over = False
        self.is_held = False
        self._refused_as: type[StoreError] = StoreFull

    def refusal(self) -> StoreError:
        """The error for a message that comes while `flags.refusal` stands."""
        if self.flags.refusal == self.flags.passing:
            return StoreBusy(self.flags.passing)
        return self._refused_as(self.flags.refusal)

    def pause(self, reason: str) -> None:
        """Take no message for a moment: those that come have waited too long."""
        self.flags.set_pause(reason)

    def resume(self) -> None:
        """The moment is over."""
        self.flags.set_pause(None)

    def hold(self, reason: str) -> None:
        """Take no message, and let nothing else be done, while the store is at work on its log."""
        assert not self.is_held
        self.is_held = True
        self.flags.set_hold(reason)

    def release(self) -> None:
        """Accept messages again after work that held them off."""
        self.is_held = False
        self.flags.set_hold(None)

    def check_free(self) -> None:
        """Refuse what would change files that the store is at work on.

        Raises:
            StoreBusy: it is.
        """
        if self.is_held:
            raise StoreBusy(self.flags.hold)

    def end(self, kind: type[StoreError], reason: str) -> None:
        """Take no message for good."""
        self.is_over = True
        self._refused_as = kind
        self.flags.raise_flag(RunningFlag.NOT_WRITABLE, reason)

    def poison(self, reason: str) -> StorePoisoned:
        """Something durable has failed; gives the error for who is told now."""
        logger.error("%s; the store takes no message until a restart has scanned it", reason)
        self.end(StorePoisoned, f"{reason}; restart the broker when the disk is well")
        return StorePoisoned(self.flags.refusal)
