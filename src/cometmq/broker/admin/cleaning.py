"""Deletes old files of the store, and hides messages beyond the limits of their topics.

Follows AdminBrokerProcessor of RocketMQ 5.3.3, with the differences listed in docs/design/0007.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from cometmq.broker.parts import Feature, Parts
from cometmq.broker.tables.byte_quota import ByteQuotas
from cometmq.broker.tables.topic_limits import TopicLimits, first_kept, limited_topics
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.names import LMQ_PREFIX, SCHEDULE_TOPIC
from cometmq.steps.on_loop import Machines
from cometmq.steps.runner import NEVER
from cometmq.steps.steps import Steps, elsewhere
from cometmq.store.consume_queue import ConsumeQueue

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.1  # Longest delay before a round that is due or requested.


class Cleaning(Feature):
    """The feature that deletes expired files and applies `retention.*` limits, in the background and at requests."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._machines = Machines(parts.world, "cleaning")
        self._limits_at = 0.0
        self._quotas = ByteQuotas(parts.store)

    async def start(self) -> None:
        """Apply the `retention.*` limits of topics unless the clock is not trusted; then clean in the background."""
        await self._machines.run(self._apply_limits())
        self._rounds = self._machines.keep(
            "rounds",
            self._clean,
            first_seconds=_LOOK_SECONDS,
            rest_seconds=_LOOK_SECONDS,
            period_seconds=_LOOK_SECONDS,
        )
        self._parts.topics.on_change.append(lambda _topic: self._rounds.wake())
        self._parts.store.cleaner.wake_with(self._rounds.wake)

    async def close(self) -> None:
        """Stop deleting files, after the current step."""
        await self._machines.close()

    def _clean(self) -> Steps[float]:
        """Run a due cleaning step, and apply due limits of topics; return the seconds to the next call (or `NEVER`)."""
        clock, store = self._parts.clock, self._parts.store
        step = store.clean_due()
        if step is not None:
            yield from elsewhere(step)
        if clock.monotonic() >= self._limits_at:
            interval_ms = self._parts.settings.clean_interval_ms
            self._limits_at = clock.monotonic() + interval_ms / 1000
            yield from self._apply_limits()
        if step is not None:
            return store.cleaner.pause_ms / 1000
        if clock.is_steady and store.cleaner.is_at_rest and not self._is_limiting():
            return NEVER
        due = min(store.cleaner.next_round_at, self._limits_at)
        return max(due - clock.monotonic(), _LOOK_SECONDS)

    def _is_limiting(self) -> bool:
        return bool(limited_topics(self._parts.topics.table().topics))

    def _apply_limits(self) -> Steps[None]:
        """Raise the min offsets of queues whose topics have limits; do nothing while the wall clock is not trusted."""
        parts = self._parts
        if not parts.store.cleaner.clock_watch.trusts():
            return
        limited = limited_topics(parts.topics.table().topics)
        measured: set[ConsumeQueue] = set()
        for topic, limits in limited:
            queues = parts.store.queues_of(topic)
            measured.update(queues if limits.size is not None else ())
            firsts = yield from elsewhere(partial(self._firsts, queues, limits))
            for queue, first in zip(queues, firsts, strict=True):
                queue.hide_before(first)
        self._quotas.forget_others(measured)

    def _firsts(self, queues: list[ConsumeQueue], limits: TopicLimits) -> list[int]:
        store, now_ms = self._parts.store, self._parts.clock.now_ms()
        return [
            first_kept(store, queue, limits, now_ms=now_ms, quotas=self._quotas)
            for queue in queues
        ]

    # --- requests

    def delete_expired(self) -> None:
        """Let the background job delete expired files in its next 20 rounds at any hour, if the clock is trusted."""
        self._parts.store.cleaner.ask()
        self._rounds.wake()

    def clean_topics(self) -> None:
        """Delete queues of users' topics that do not exist (no light queues), then empty directories of deleted topics.

        Raises:
            RequestError, StoreBusy: Some files could not be deleted, or the log is being truncated; later topics remain.
        """
        parts = self._parts
        for topic in parts.store.topics():
            is_known = parts.topics.get(topic) is not None or parts.topics.is_system(topic)
            if not is_known and not topic.startswith(LMQ_PREFIX):
                _log.info("the queues of topic %s, which does not exist, are deleted", topic)
                with _told(f"topic {topic}"):
                    parts.store.delete_topic(topic)
        with _told("deleted topics"):
            parts.store.sweep()

    def clean_queues(self) -> None:
        """Delete empty queues beyond their topic's number of queues, but not those of SCHEDULE_TOPIC_XXXX.

        Stops with RequestError if files of one remain, with StoreBusy if the log is being truncated. Differs: RocketMQ
        deletes any queue whose messages are gone; that restarts at offset 0, and consumers with larger offsets miss some.
        """
        store = self._parts.store
        for topic in store.topics():
            config = self._parts.topics.get(topic)
            if config is None or topic == SCHEDULE_TOPIC:
                continue
            for queue in store.queues_of(topic):
                is_empty = queue.min_offset == queue.max_offset == queue.next_offset
                if is_empty and queue.queue_id >= config.queue_count:
                    _log.info(
                        "%s is deleted: it is empty, and its topic has fewer queues", queue
                    )
                    with _told(str(queue)):
                        store.delete_queue(queue)


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"some files of {what} could not be deleted: {error.strerror}",
        ) from error
