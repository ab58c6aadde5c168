"""Watches for listeners that run for too long: their messages are given back, so that somebody else gets them.

A listener that hangs keeps its message, and with it the offset of the whole queue. After consumeTimeout
(15 min) the message goes to the retry topic at level 3; what the listener says later counts no more.
Follows ProcessQueue.cleanExpiredMsg of RocketMQ 5.3.3, which looks every 15 min; here it is 15 times as
often.
"""

import logging
from collections.abc import Awaitable, Callable

from cometmq.client.consumer.push.concurrent import ListenerJob
from cometmq.model.clock import Clock
from cometmq.model.message import StoredMessage

_log = logging.getLogger(__name__)

_LOOKS = 15

# Takes a message; whether somebody has it now.
GiveBack = Callable[[StoredMessage], Awaitable[bool]]


class ConsumeTimeout:
    """The jobs that listeners work on.

    Attributes:
        look_every_ms: how often `look` is to be called.
    """

    def __init__(self, timeout_ms: int, clock: Clock, give_back: GiveBack) -> None:
        self.look_every_ms = max(timeout_ms // _LOOKS, 1)
        self._timeout_ms = timeout_ms
        self._now = clock.monotonic
        self._give_back = give_back
        self._running: dict[int, tuple[float, ListenerJob]] = {}

    def begin(self, job: ListenerJob) -> None:
        """Note that a listener begins with a job; any thread."""
        self._running[id(job)] = self._now(), job

    def end(self, job: ListenerJob) -> bool:
        """Note that a listener is done with a job; False: it has been given back meanwhile."""
        return self._running.pop(id(job), None) is not None

    def is_any(self) -> bool:
        """Whether any listener is at work."""
        return bool(self._running)

    async def look(self) -> None:
        """Give back jobs on which listeners have worked for too long."""
        before = self._now() - self._timeout_ms / 1000
        late = [job for began, job in list(self._running.values()) if began < before]
        for job in late:
            if job.loop.is_dropped:  # Another member has its queue by now.
                self.end(job)
                continue
            offsets = []
            for message in job.messages:
                _log.warning(
                    "a listener works on %r for more than %d ms; giving it back",
                    message, self._timeout_ms,
                )  # fmt: skip
                if await self._give_back(message):
                    offsets.append(message.queue_offset)
            if len(offsets) == len(job.messages) and self.end(job):
                job.loop.finish(job.process_queue, offsets)
