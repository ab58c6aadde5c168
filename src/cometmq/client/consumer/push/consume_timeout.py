"""Timeout of concurrent listener calls: pulled messages of a call that takes too long are sent back for redelivery.

A listener that hangs keeps its messages and blocks the committed offset of the queue. Unless broadcasting, they are sent
back after consumeTimeout, mostly with delay level 3; if that succeeds for all, the listener's result is ignored. Follows
ProcessQueue.cleanExpiredMsg of RocketMQ 5.3.3, but checks 15 times per timeout (Java: once).
"""

import logging
from collections.abc import Awaitable, Callable

from cometmq.client.consumer.push.concurrent import ListenerJob
from cometmq.model.clock import Clock
from cometmq.model.message import StoredMessage, message_name

_log = logging.getLogger(__name__)

_LOOKS = 15

# Sends a message back for redelivery; returns whether a broker accepted it.
GiveBack = Callable[[StoredMessage], Awaitable[bool]]


class ConsumeTimeout:
    """The running listener calls of a consumer; call `look` every `look_every_ms` ms to send back late messages."""

    def __init__(self, timeout_ms: int, clock: Clock, give_back: GiveBack) -> None:
        self.look_every_ms = max(timeout_ms // _LOOKS, 1)
        self._timeout_ms = timeout_ms
        self._now = clock.monotonic
        self._give_back = give_back
        # By the id of a job: the start of its call, the job, and its messages that were not sent back.
        self._running: dict[int, tuple[float, ListenerJob, list[StoredMessage]]] = {}

    def begin(self, job: ListenerJob) -> None:
        """Record the start of a listener call; from any thread."""
        self._running[id(job)] = self._now(), job, list(job.messages)

    def end(self, job: ListenerJob) -> list[StoredMessage]:
        """Stop watching a listener call; return the messages that its result concerns: those that were not sent back."""
        watched = self._running.pop(id(job), None)
        return [] if watched is None else watched[2]

    def is_any(self) -> bool:
        """Return whether a listener call is watched: it has begun, has not ended, and `look` has not given it up."""
        return bool(self._running)

    async def look(self) -> None:
        """Send back the messages of calls that exceed the timeout; forget calls whose queue this member gave up."""
        before = self._now() - self._timeout_ms / 1000
        for began, job, left in list(self._running.values()):
            if began >= before:
                continue
            if job.loop.is_dropped:  # The queue now belongs to another member.
                self.end(job)
                continue
            for message in list(left):
                if id(job) not in self._running:
                    break  # The call has ended meanwhile.
                _log.warning(
                    "A listener has worked on %s for more than %d ms; the message is sent back for a retry",
                    message_name(message), self._timeout_ms,
                )  # fmt: skip
                if await self._give_back(message) and id(job) in self._running:
                    left.remove(message)
                    job.loop.finish(job.process_queue, [message.queue_offset])
            if not left:
                self.end(job)
