"""Keeps old files going, and hides what topics keep no longer: CLEAN_* and DELETE_EXPIRED_* requests.

Each round's steps run in the pool, by default a tenth of a second apart, so that no pull waits behind them.
Follows AdminBrokerProcessor of RocketMQ 5.3.3, with the differences that docs/design/0007 names.

Next: cometmq.store.cleaner
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from cometmq.broker.byte_quota import ByteQuotas
from cometmq.broker.parts import Feature, Parts
from cometmq.broker.topic_limits import Limits, first_kept, limited_topics
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.names import LMQ_PREFIX, SCHEDULE_TOPIC
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.tasks import Tasks
from cometmq.store.consume_queue import ConsumeQueue

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.1  # How soon a round begins that is due or asked for.


class Cleaning(Feature):
    """Drives the store's cleaner, and answers 306, 316 and 329."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._tasks = Tasks("cleaning")
        self._limits_at = 0.0
        self._quotas = ByteQuotas(parts.store)
        self.of_administrators = {
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self.clean_queues,
            RequestCode.CLEAN_UNUSED_TOPIC: self.clean_topics,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self.delete_expired,
        }

    async def start(self) -> None:
        """Hide what is hidden before anybody can read it; then go on in the background."""
        await self._apply_limits()
        self._tasks.spawn(self._run(), "rounds")

    async def close(self) -> None:
        """End; a step that is under way is waited for with the pool."""
        await self._tasks.close()

    async def _run(self) -> None:
        clock, interval_ms = self._parts.clock, self._parts.settings.clean_interval_ms
        cleaner = self._parts.store.cleaner
        pause_seconds = _LOOK_SECONDS
        while True:
            await asyncio.sleep(pause_seconds)
            try:
                has_more = await self._step()
                pause_seconds = cleaner.pause_ms / 1000 if has_more else _LOOK_SECONDS
                if clock.monotonic() >= self._limits_at:
                    self._limits_at = clock.monotonic() + interval_ms / 1000
                    await self._apply_limits()
            except Exception:  # noqa: BLE001
                # A fault here must not end cleaning for good: the disk would fill in silence.
                _log.exception("a step of cleaning failed")
                pause_seconds = _LOOK_SECONDS

    async def _step(self) -> bool:
        """The next step, if there is one; whether there was."""
        step = self._parts.store.clean_due()
        if step is not None:
            await asyncio.get_running_loop().run_in_executor(self._parts.pool, step)
        return step is not None

    async def _apply_limits(self) -> None:
        """Raise the min offsets of queues whose topics have limits."""
        parts = self._parts
        if not parts.store.cleaner.clock_watch.trusts():
            return
        limited = limited_topics(parts.topics.table().topics)
        loop = asyncio.get_running_loop()
        measured: set[ConsumeQueue] = set()
        for topic, limits in limited:
            queues = parts.store.queues_of(topic)
            measured.update(queues if limits.size is not None else ())
            firsts = await loop.run_in_executor(parts.pool, self._firsts, queues, limits)
            for queue, first in zip(queues, firsts, strict=True):
                queue.hide_before(first)
        self._quotas.forget_others(measured)

    def _firsts(self, queues: list[ConsumeQueue], limits: Limits) -> list[int]:
        store, now_ms = self._parts.store, self._parts.clock.now_ms()
        return [
            first_kept(store, queue, limits, now_ms=now_ms, quotas=self._quotas)
            for queue in queues
        ]

    # --- requests

    def delete_expired(self, _command: Command, peer: Peer) -> Answer:
        """DELETE_EXPIRED_COMMITLOG 329: expired files go now, whatever the hour is."""
        _log.info("expired files go, asked by %s", peer.address)
        self._parts.store.cleaner.ask()
        return Answer()

    def clean_topics(self, _command: Command, peer: Peer) -> Answer:
        """CLEAN_UNUSED_TOPIC 316: remove the queues of topics that are deleted."""
        parts = self._parts
        for topic in parts.store.topics():
            is_known = parts.topics.get(topic) is not None or parts.topics.is_system(topic)
            if not is_known and not topic.startswith(LMQ_PREFIX):
                _log.info("removing queues of %s, asked by %s", topic, peer.address)
                with _told(topic):
                    parts.store.delete_topic(topic)
        with _told("deleted topics"):
            parts.store.sweep()
        return Answer()

    def clean_queues(self, _command: Command, peer: Peer) -> Answer:
        """CLEAN_EXPIRED_CONSUMEQUEUE 306: remove empty queues beyond their topic's number.

        Differs: RocketMQ removes any queue whose messages are gone; it begins at 0 again then,
        and consumers that stood further miss what comes.
        """
        store = self._parts.store
        for topic in store.topics():
            config = self._parts.topics.get(topic)
            if config is None or topic == SCHEDULE_TOPIC:
                continue
            for queue in store.queues_of(topic):
                is_empty = queue.min_offset == queue.max_offset == queue.next_offset
                if is_empty and queue.queue_id >= config.queue_count:
                    _log.info("removing %r, asked by %s", queue, peer.address)
                    with _told(repr(queue)):
                        store.delete_queue(queue)
        return Answer()


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Let who asked know that files remain."""
    try:
        yield
    except OSError as error:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, f"files of {what} remain: {error.strerror}"
        ) from error
