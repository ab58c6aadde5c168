"""Whether the store takes messages, and what a sender is told when it does not.

Some reasons pass (a full disk), some are for good: the store is closed, was opened for reading,
or a write or flush has failed, after which nothing durable is ever tried again
(docs/design/0004).
"""

import logging

from cometmq.model.errors import StoreBusy, StoreError, StoreFull, StorePoisoned
from cometmq.store.running_flags import Flag, RunningFlags

logger = logging.getLogger(__name__)


class Acceptance:
    """The store's word on whether it takes a message.

    Attributes:
        flags: the reasons that stand (RocketMQ's running flags).
        is_over: whether no message is taken for good.
    """

    def __init__(self) -> None:
        self.flags = RunningFlags()
        self.is_over = False
        self._refused_as: type[StoreError] = StoreFull

    def refusal(self) -> StoreError:
        """The error for a message that comes while `flags.refusal` stands."""
        if self.flags.refusal == self.flags.pause:
            return StoreBusy(self.flags.pause)
        return self._refused_as(self.flags.refusal)

    def pause(self, reason: str) -> None:
        """Take no message for a moment: those that come have waited too long."""
        self.flags.set_pause(reason)

    def resume(self) -> None:
        """The moment is over."""
        self.flags.set_pause(None)

    def end(self, kind: type[StoreError], reason: str) -> None:
        """Take no message for good."""
        self.is_over = True
        self._refused_as = kind
        self.flags.raise_flag(Flag.NOT_WRITABLE, reason)

    def poison(self, reason: str) -> StorePoisoned:
        """Something durable has failed; gives the error for who is told now."""
        logger.error("%s; the store takes no message until a restart has scanned it", reason)
        self.end(StorePoisoned, f"{reason}; restart the broker when the disk is well")
        return StorePoisoned(self.flags.refusal)
