"""Pulls one queue while it is assigned to this member, with long polling, flow control and retries.

A broker may hold a pull that finds no message until one arrives, at most `suspend_ms`. If an answer shows that more
messages exist, the next pull is usually sent before the messages of that answer are processed, so that broker and
client work in parallel. Follows DefaultMQPushConsumerImpl.pullMessage of 5.3.3.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from cometmq.client.consumer.counts import Counts
from cometmq.client.consumer.offset_store import ConsumedProgress
from cometmq.client.consumer.pull.process_queue import ProcessQueue
from cometmq.client.consumer.pull.pulls import Puller, PullTerms, RepeatedPull
from cometmq.client.consumer.pull.received import RecordUnpacker
from cometmq.client.consumer.settings import ConsumerSettings
from cometmq.client.consumer.start_offset import StartOffset
from cometmq.client.outages import Outages
from cometmq.client.results import PullStatus, RawPull
from cometmq.codec.record import Record
from cometmq.model.clock import Clock
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import BrokerNotFound, BrokerRefused, CodecError, CometError, NetError
from cometmq.model.message import StoredMessage
from cometmq.model.namespace import namespace_of
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import Subscription

_log = logging.getLogger(__name__)

# pullTimeDelayMillsWhenBrokerFlowControl and pullTimeDelayMillsWhenException of 5.3.3, seconds.
_BUSY_PAUSE = 0.02
_FAILURE_PAUSE = 1.0
# Pauses after answers that return immediately without messages: the limit for "immediately" (seconds), the number of
# such answers without a pause, and the first pause (seconds), which doubles up to that of failures.
_HELD_SECONDS = 1.0
_PULLING = "pulling from"
_IN_VAIN_FREE = 3
_IN_VAIN_PAUSE = 0.01
_DOUBLINGS_MAX = 10
_BUSY_CODES = (ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL)

Batch = list[StoredMessage]


@dataclass(frozen=True, slots=True)
class PullContext:
    """Dependencies that all pull loops of a member share.

    Attributes:
        progress: Consumed offsets of the member.
        gate: Set while the member may pull.
        start: Finds the first offset of a queue: the stored one, 0 if its topic was deleted meanwhile, or one by the
            `consume_from` rule.
        deliver: Called with the loop and messages that it pulled and that match the subscription.
        discard: Called with the loop and a record that cannot be decoded.
    """

    puller: Puller
    progress: ConsumedProgress
    settings: ConsumerSettings
    gate: asyncio.Event
    counts: Counts
    clock: Clock
    outages: Outages
    start: StartOffset
    deliver: "Callable[[PullLoop, Batch], None]"
    discard: "Callable[[PullLoop, Record], None]"


class _AskedPull(NamedTuple):
    """A pull in progress: its first offset, the time of the request (monotonic seconds), and the future of the answer.

    `process_queue` is the loop's at the time of the request; after a seek the loop has another, and ignores the answer.
    """

    process_queue: ProcessQueue
    offset: int
    at: float
    answer: asyncio.Future[RawPull]


class PullLoop:
    """Pulls one queue repeatedly and delivers the messages to the consumer, until the consumer gives the queue up.

    Attributes:
        process_queue: Pulled, unconsumed messages; replaced at each seek and when the topic is deleted, so that older
            messages do not change the position.
        is_dropped: Whether the consumer gave the queue up; late results then do not change the position.
        pulled_ms: Time of the last pull request, ms since 1970; 0: none.
        consumed_ms: Time at which a message was last finished, ms since 1970; 0: none.
    """

    def __init__(
        self, queue: MessageQueue, subscription: Subscription, reading: PullContext
    ) -> None:
        self.queue = queue
        self.process_queue = ProcessQueue()
        self.is_dropped = False
        self.counts = reading.counts.of(queue.topic)
        self.pulled_ms = 0
        self.consumed_ms = 0
        self._subscription = subscription
        self._reading = reading
        # Looked up once, because it is updated with every message.
        self._place = reading.progress.place(queue)
        settings = self._settings = reading.settings
        terms = PullTerms(
            subscription,
            settings.pull_count,
            settings.pull_bytes or None,
            settings.suspend_ms,
        )
        self._pull = RepeatedPull(reading.puller, queue, terms, reading.clock, self._came)
        self._is_told = settings.auto_commit and not settings.broadcasting
        self._unpacker = RecordUnpacker(
            queue,
            settings.body_size_max,
            settings.pull_count,
            namespace_of(settings.namespace),
            self._note_unreadable,
        )
        self._unreadable: list[Record] = []  # Of the answer that is being unpacked.
        self._next_offset: int | None = None
        self._in_vain = 0  # Number of consecutive immediate answers without progress.
        self._moved = asyncio.Event()
        self._has_room = asyncio.Event()
        # The awaited pull, and the next one if it was sent before the messages of the first were processed.
        self._asked: _AskedPull | None = None
        self._ahead: _AskedPull | None = None

    async def run(self) -> None:
        """Pull the queue until the task is cancelled; failed pulls are repeated after a pause."""
        try:
            while True:
                await self._pull_patiently()
        finally:
            self._drop_ahead()
            self._reading.outages.forget(_PULLING, self.queue)

    async def _pull_patiently(self) -> None:
        try:
            while True:
                await self._pull_next()
        except _SeekError:
            return
        except BrokerRefused as refused:
            if refused.code not in _BUSY_CODES:
                self._failed(refused)
            if refused.code == ResponseCode.TOPIC_NOT_EXIST:
                self._lose_position()
            is_short = refused.code == ResponseCode.FLOW_CONTROL
            seconds = _BUSY_PAUSE if is_short else _FAILURE_PAUSE
            await self._reading.puller.pause(self.queue, seconds, refused)
        except Exception as error:  # noqa: BLE001  Even a bug must not end the loop.
            # Otherwise a queue that is no longer read would stay unnoticed for long.
            self._failed(error)
            await self._reading.puller.pause(self.queue, _FAILURE_PAUSE, error)

    def _failed(self, error: Exception) -> None:
        # An unreachable broker is one outage for all its queues; a refusal may concern a single topic.
        is_own = not isinstance(error, NetError | BrokerNotFound)
        place = str(self.queue) if is_own else self.queue.broker_name
        self._reading.outages.failed(_PULLING, place, error, self.queue)

    def _lose_position(self) -> None:
        """Forget position and pulled messages, because the topic was deleted: a new queue may get the same name."""
        self.process_queue = ProcessQueue()
        self._next_offset = None
        self._reading.start.lose(self.queue)
        self._has_room.set()
        self._drop_ahead()

    async def _pull_next(self) -> None:
        if self._next_offset is None:
            start = await self._reading.start.find(self.queue)
            if self._next_offset is None:  # False after a seek in the meantime.
                # Stored immediately: a member that closes before its first answer must not lose the position.
                self._next_offset = self._place.offset = start
        if not self._is_roomy():
            await self._wait_room()
        asked = self._asked_ahead(self._next_offset)
        if asked is None:
            await self._reading.gate.wait()
            asked = await self._ask(self._next_offset)
        self._asked = asked
        await self._pull_once(asked)

    async def _wait_room(self) -> None:
        while not self._is_roomy():
            self._has_room.clear()
            await self._has_room.wait()

    def _is_roomy(self) -> bool:
        settings, cached = self._settings, self.process_queue
        return (
            cached.count <= settings.queue_count_max
            and cached.size <= settings.queue_bytes_max
            and cached.span <= settings.queue_span_max
        )

    def _is_roomy_behind(self, offset: int, pull: RawPull) -> bool:
        """Return whether there is room for another pull once the messages of an answer, if all match, are cached."""
        settings, cached = self._settings, self.process_queue
        smallest = cached.smallest
        first = offset if smallest is None else smallest
        count = min(pull.next_offset - offset, settings.pull_count)
        return (
            cached.count + count <= settings.queue_count_max
            and cached.size + len(pull.body) <= settings.queue_bytes_max
            and pull.next_offset - 1 - first <= settings.queue_span_max
        )

    @property
    def _told_offset(self) -> int | None:
        return self._place.offset if self._is_told else None

    async def _ask(self, offset: int) -> _AskedPull:
        # Read before waiting for a connection, because a seek may happen meanwhile.
        process_queue, self.pulled_ms = self.process_queue, self._reading.clock.now_ms()
        answer = await self._pull.start(offset, self._told_offset)
        return _AskedPull(process_queue, offset, self._reading.clock.monotonic(), answer)

    def _came(self, pull: RawPull) -> None:
        """On an answer, usually send the next pull already if the queue has more messages and there is room."""
        asked, offset = self._asked, pull.next_offset
        if asked is None or self._ahead is not None:
            return  # This is the answer to the pull sent ahead: at most one answer waits here.
        # At the end of the queue the messages are processed first, so that they do not wait for a long poll.
        is_more = bool(pull.body) and asked.offset < offset < pull.max_offset
        if (
            is_more
            and self._reading.gate.is_set()
            and self._is_roomy_behind(asked.offset, pull)
        ):
            clock = self._reading.clock
            answer = self._pull.start_now(offset, self._told_offset)
            if answer is not None:
                self._ahead = _AskedPull(self.process_queue, offset, clock.monotonic(), answer)
                self.pulled_ms = clock.now_ms()

    def _asked_ahead(self, offset: int) -> _AskedPull | None:
        """Return the pull that was sent ahead if it starts at this offset, or else drop it and return None."""
        ahead = self._ahead
        if ahead is not None and ahead.offset == offset:
            self._ahead = None
            return ahead
        self._drop_ahead()
        return None

    def _drop_ahead(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and not ahead.answer.cancel():
            ahead.answer.exception()  # Retrieved, because asyncio would otherwise report it.

    async def _pull_once(self, asked: _AskedPull) -> None:
        process_queue, offset = asked.process_queue, asked.offset
        pull = await asked.answer
        self._reading.outages.worked(_PULLING, self.queue)
        if pull.body:
            self.counts.pulls += 1
            self.counts.pull_ms += (self._reading.clock.monotonic() - asked.at) * 1000
        if process_queue is not self.process_queue:
            return  # A seek happened after the request, or between the answer and now.
        if pull.status is PullStatus.OFFSET_ILLEGAL:
            await self._move(pull, asked)
            return
        if pull.next_offset < offset:
            raise CodecError(
                f"the broker answered a pull from offset {offset} with the earlier next offset {pull.next_offset}"
            )
        messages, unreadable, behind = await self._unpack(pull)
        if process_queue is not self.process_queue:
            return  # A seek happened during unpacking.
        offsets = _offsets(messages, unreadable)
        _check_offsets(offsets, offset, behind)
        self.counts.pulled += len(messages) + len(unreadable)
        # Not before the records are decoded: a malformed answer must be requested again.
        self._next_offset = behind
        self._take(messages, unreadable, offsets)
        if not self.process_queue.count:
            # No matching message is unconsumed: skipped messages need not be read again.
            self._place.offset = behind
        if behind == offset:
            await self._pause_in_vain(asked)
        else:
            self._in_vain = 0

    async def _move(self, pull: RawPull, asked: _AskedPull) -> None:
        """Continue at another offset, unless a seek came, because the offset was reset or is not in the queue."""
        following, offset = await self._following(pull, asked.offset), asked.offset
        if asked.process_queue is not self.process_queue:
            return  # A seek happened while the broker was queried.
        if pull.min_offset <= offset <= pull.max_offset:
            _log.info("the offset of %s was reset to %s", self.queue, following)
        else:
            _log.warning(
                "%s has no offset %s (its offsets are %s to %s); the consumer continues at %s",
                self.queue, offset, pull.min_offset, pull.max_offset, following,
            )  # fmt: skip
        self.seek(following)
        await self._pause_in_vain(asked)

    async def _following(self, pull: RawPull, offset: int) -> int:
        """Return the offset to continue at after an answer that an offset was reset or is not in the queue.

        If the queue ends before the offset, it may have been created anew: then the start of the group (`StartOffset`)
        applies, unless it is beyond the end. In all other cases it is the broker's next offset.
        """
        if not pull.max_offset < offset:
            return pull.next_offset
        start = await self._reading.start.find(self.queue)
        return start if start <= pull.max_offset else pull.next_offset

    async def _unpack(self, pull: RawPull) -> tuple[Batch, list[Record], int]:
        unreadable = self._unreadable = []
        messages, rest = await self._unpacker.read(pull.body)
        return messages, unreadable, pull.next_offset if rest is None else rest

    def _note_unreadable(self, record: Record, error: CodecError) -> None:
        _log.error("A message of %s cannot be decoded: %s", self.queue, error)
        self._unreadable.append(record)

    async def _pause_in_vain(self, asked: _AskedPull) -> None:
        """Pause at the fourth and later answers in a row that came within 1 s and made no progress or moved the offset.

        Each pause is longer, up to 1 s. A seek ends it.
        """
        has_waited = self._reading.clock.monotonic() - asked.at >= _HELD_SECONDS
        self._in_vain = 0 if has_waited else self._in_vain + 1
        # The first few take no pause: a pull may be woken for a message with another tag.
        if self._in_vain > _IN_VAIN_FREE:
            pause = _IN_VAIN_PAUSE * 2 ** min(self._in_vain - _IN_VAIN_FREE, _DOUBLINGS_MAX)
            self._moved.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(pause, _FAILURE_PAUSE)):
                    await self._moved.wait()

    def _take(self, messages: Batch, unreadable: list[Record], offsets: list[int]) -> None:
        if self._subscription.tags:
            # The broker compares only hashes; two tags may have the same hash.
            matches = self._subscription.matches_tag
            messages = [message for message in messages if matches(message.tag)]
            offsets = _offsets(messages, unreadable)
        sizes = [len(message.body) for message in messages]
        if unreadable:
            sizes += [0] * len(unreadable)
        self.process_queue.add(offsets, sizes)
        for record in unreadable:
            self._reading.discard(self, record)
        if messages:
            self._reading.deliver(self, messages)

    def finish(self, process_queue: ProcessQueue, offsets: list[int]) -> None:
        """Mark messages as consumed in the cache they came to; the position moves only if no seek has replaced that cache."""
        process_queue.finish(offsets)
        if self.is_dropped or process_queue is not self.process_queue:
            return
        self.consumed_ms = self._reading.clock.now_ms()
        if process_queue.next_offset is not None:
            self._place.offset = process_queue.next_offset
        if not process_queue.count and self._next_offset is not None:
            self._place.offset = self._next_offset
        self._has_room.set()

    def seek(self, offset: int) -> None:
        """Continue at another offset, which also becomes the position to commit; forget pulled, unconsumed messages."""
        self.process_queue = ProcessQueue()
        self._next_offset = self._place.offset = offset
        self._has_room.set()
        self._moved.set()
        self._drop_ahead()
        if self._asked is not None and not self._asked.answer.done():
            self._asked.answer.set_exception(_SeekError())


def _offsets(messages: Batch, unreadable: list[Record]) -> list[int]:
    offsets = [message.queue_offset for message in messages]
    if unreadable:
        offsets += [record.queue_offset for record in unreadable]
    return offsets


def _check_offsets(offsets: list[int], first: int, after: int) -> None:
    if offsets and not first <= min(offsets) <= max(offsets) < after:
        wrong = next(each for each in offsets if not first <= each < after)
        raise CodecError(
            f"the broker answered a pull from offset {first} with a message at offset {wrong} and the next offset "
            f"{after}"
        )


class _SeekError(CometError):
    """Ends a waiting pull because of a seek."""
