"""Dead letters, as `AsyncAdmin.dead_letters`: their numbers, and replays to their original topics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from cometmq.client.admin.absent import missing_brokers, silent_broker
from cometmq.client.admin.ledger_topic import LedgerTopic
from cometmq.client.admin.letters import (
    DeadLetterCount,
    DeadLetterFilter,
    DeadLetterStats,
    dead_letter_origin,
    place_text,
)
from cometmq.client.admin.noun import AsyncNoun
from cometmq.client.admin.replay import Replay, ReplayResult, id_of
from cometmq.client.admin.states import TopicState
from cometmq.client.admin.topics import AsyncTopicAdmin
from cometmq.client.api.asking import all_of, side_by_side
from cometmq.client.consumer.pull.queue_reader import AsyncQueueReader
from cometmq.client.consumer.pull.received import GROWTH_AT_ONCE, UnpackedRoom, unpack
from cometmq.codec.record import decode_records
from cometmq.model.errors import CodecError, CometError, NetError, TopicNotFound
from cometmq.model.message import StoredMessage
from cometmq.model.names import (
    DLQ_PREFIX,
    REPLAY_LEDGER_PREFIX,
    TOOLS_GROUP,
    dead_letter_topic,
    retry_topic,
)
from cometmq.model.namespace import NO_NAMESPACE
from cometmq.model.queue import MessageQueue
from cometmq.model.text import in_quotes

ALL_LETTERS = DeadLetterFilter()
BODY_SIZE_MAX = 64 << 20  # After decompression, bytes.
_LEDGER_LETTERS_MAX = 10_000


class AsyncDeadLetterAdmin(AsyncNoun):
    """The methods that list, read, replay and delete dead letters of consumer groups."""

    _noun = "dead_letters"

    async def replayed(self, group: str, letters: Sequence[StoredMessage]) -> list[bool]:
        """Return for each dead letter of a group whether the replay ledger records that any program has sent it.

        `replay`, the command `dlq replay`, the dashboard and the Spark job share this ledger.
        """
        ids = [id_of(each) for each in letters]
        ledger = LedgerTopic(self._live, self._full(group), only=ids)
        async with AsyncQueueReader(group=TOOLS_GROUP, instance=self._live) as reader:
            await ledger.open(reader, is_made=False)
        return [each in ledger.state.done for each in ids]

    async def replay(
        self,
        group: str,
        letters: Sequence[StoredMessage],
        *,
        again: bool = False,
        only_group: bool = False,
    ) -> list[str]:
        """Send dead letters to their original topics unless they were replayed; return for each "" or a reason.

        Despite a reason, a copy may exist: of an earlier replay, or if a send ended without an answer.

        Args:
            group: The consumer group.
            letters: Dead letters, as read from the group's dead-letter topic.
            again: Also send those that were replayed before.
            only_group: Send them to the group's retry topic instead, so that no other group gets them.

        Raises:
            RequestError: The name of the group is too long for the topic of the ledger.
            CometError: The ledger cannot be read or written.
        """
        full = self._full(group)
        to_topic = retry_topic(full) if only_group else None
        run = Replay(self._live, full, _ignore, to_topic=to_topic)
        return await run.these(letters, again=again)

    async def replay_all(
        self,
        group: str,
        wanted: DeadLetterFilter = ALL_LETTERS,
        *,
        to_topic: str | None = None,
        rate: float | None = None,
        is_dry: bool = False,
        on_wait: Callable[[str], None] | None = None,
    ) -> ReplayResult:
        """Send the selected dead letters of a group that were not replayed before, also by other runs; return the counts.

        Args:
            group: The consumer group.
            wanted: Selection of dead letters.
            to_topic: Target topic; None: the original topic of each dead letter.
            rate: Maximum number of messages per second; None: no limit.
            is_dry: Whether only to count.
            on_wait: Called with a text when it first waits for another run; None: nothing.

        Raises:
            TopicNotFound: There is no dead-letter topic of the group.
            ExpressionError: A dead letter shows that the filter is invalid.
            RequestError: The name of the group is too long for the topic of its replay ledger.
            CometError: The cluster cannot be queried, or the ledger not written; another run can continue.
        """
        full, to_topic = self._full(group), to_topic and self._full(to_topic)
        await self._check(full)  # Without dead letters no ledger is created.
        run = Replay(
            self._live, full, on_wait or _ignore, to_topic=to_topic, rate=rate, is_dry=is_dry
        )
        return await run.all(self.read(group, wanted, on_unreadable=run.fail))

    async def read(
        self,
        group: str,
        wanted: DeadLetterFilter = ALL_LETTERS,
        *,
        last: int | None = None,
        bytes_max: int | None = None,
        on_unreadable: Callable[[str], object] | None = None,
    ) -> AsyncIterator[StoredMessage]:
        """Yield the selected dead letters that a group has when reading starts, queue by queue, by rising offset.

        Args:
            group: The consumer group.
            wanted: Selection of dead letters.
            last: Maximum number of the latest dead letters of each queue to search; None: all.
            bytes_max: Reading ends before the next dead letter when those searched have bodies of that many bytes, after
                decompression; None: all are read.
            on_unreadable: Called with a sentence about each dead letter whose body or properties cannot be decoded; it
                is left out; and about an end by `bytes_max`; None: nothing.

        Raises:
            TopicNotFound: There is no dead-letter topic of the group.
            ExpressionError: A letter shows that the filter is invalid.
        """
        group = self._full(group)
        await self._check(group)
        topic, say, limit = dead_letter_topic(group), on_unreadable or _ignore, BODY_SIZE_MAX
        taken = 0
        async with AsyncQueueReader(group=TOOLS_GROUP, instance=self._live) as reader:
            for queue, first, end in await _ranges(reader, topic, wanted.since_ms):
                start = first if last is None else max(first, end - last)
                async for pull in reader.read(queue, start, end):
                    room = UnpackedRoom(GROWTH_AT_ONCE)
                    for record in decode_records(pull.body):
                        if bytes_max is not None and taken >= bytes_max:
                            say(f"reading ended after {bytes_max:,} bytes of bodies")
                            return
                        try:
                            letter = room.unpack(
                                record, queue, body_size_max=limit, namespace=NO_NAMESPACE
                            )
                            if letter is None:
                                letter = await asyncio.to_thread(
                                    unpack, record, queue, body_size_max=limit
                                )
                        except CodecError as error:
                            taken += len(record.body)
                            if wanted.takes_time(record.store_timestamp):
                                place = place_text(queue, record.queue_offset)
                                say(f"dead letter {place} cannot be decoded: {error}")
                            continue
                        taken += len(letter.body)
                        if wanted.takes(letter):
                            yield letter

    async def stats(
        self,
        group: str,
        wanted: DeadLetterFilter = ALL_LETTERS,
        *,
        last: int | None = None,
        bytes_max: int | None = None,
        on_unreadable: Callable[[str], object] | None = None,
    ) -> list[DeadLetterStats]:
        """Count the selected dead letters of a group by original topic and number of redeliveries, largest count first.

        The arguments and errors are those of `read`.
        """
        found: dict[tuple[str | None, int], DeadLetterStats] = {}
        letters = self.read(
            group, wanted, last=last, bytes_max=bytes_max, on_unreadable=on_unreadable
        )
        async for letter in letters:
            origin, tries = dead_letter_origin(letter), letter.reconsume_times
            died = letter.stored_ms
            known = found.get((origin, tries)) or DeadLetterStats(origin, tries, 0, died, died)
            found[origin, tries] = known._replace(
                letters=known.letters + 1,
                first_ms=min(known.first_ms, died),
                last_ms=max(known.last_ms, died),
            )
        return sorted(
            found.values(), key=lambda each: (-each.letters, each.origin or "", each.tries)
        )

    async def _check(self, group: str) -> None:
        """Raise TopicNotFound if there is no route of the dead-letter topic of a group."""
        topic = dead_letter_topic(group)
        try:
            await self._live.nameserver_api.route(topic)
        except TopicNotFound:
            raise TopicNotFound(
                f"group {in_quotes(group)} has no dead letters: no broker has the topic {in_quotes(topic)}; "
                "cometmq dlq list shows the groups that have dead letters"
            ) from None

    async def delete(self, group: str) -> None:
        """Delete all dead letters of a group, and the records of their replays.

        Raises TopicNotFound if the group has neither a dead-letter topic nor a ledger of replays.
        """
        full = self._full(group)
        topics = AsyncTopicAdmin(self._admin)
        known = await self._live.nameserver_api.topics()
        own = [
            each
            for each in (dead_letter_topic(full), REPLAY_LEDGER_PREFIX + full)
            if each in known
        ]
        if not own:
            await self._check(full)
        for topic in own:
            await topics.delete(topic)

    async def waiting(self) -> list[DeadLetterCount]:
        """Return the number of dead letters that no program has sent again, for each group that has any, sorted by name.

        Of a group with more than 10,000 dead letters replayed ones count, too: the ledger of its replays is not read.
        Groups whose dead letters cannot be read are returned, too, with the reason in `uncounted`.
        """
        topics = set(await self._live.nameserver_api.topics())
        states = await self._states()
        filled = [
            queue
            for state in states.values()
            for queue, each in state.queues.items()
            if each.message_count
        ]
        times = await self._offsets.first_stored_times(filled)
        firsts = {queue: each for queue, each in times.items() if isinstance(each, int)}
        found = []
        for group, state in states.items():
            count = _count(group, state)
            first_ms = min((firsts[each] for each in state.queues if each in firsts), default=0)
            if REPLAY_LEDGER_PREFIX + group in topics and count.letters <= _LEDGER_LETTERS_MAX:
                replayed = await self._replayed_of(group, state, firsts)
                count = count._replace(letters=count.letters - replayed)
                if replayed:
                    first_ms = 0  # The first letter may be a replayed one.
            if count.letters > 0 or count.uncounted:
                found.append(count._replace(first_ms=max(first_ms, 0)))
        return self._own_counts(found)

    async def _replayed_of(
        self, group: str, state: TopicState, firsts: Mapping[MessageQueue, int]
    ) -> int:
        """Return how many dead letters in the queues of `state` the group's ledger records as sent; 0 if it is unreadable."""
        ledger = LedgerTopic(self._live, group)
        try:
            async with AsyncQueueReader(group=TOOLS_GROUP, instance=self._live) as reader:
                await ledger.open(reader, is_made=False)
        except CometError:
            return 0
        count = 0
        for letter in ledger.state.done:
            queue = MessageQueue(dead_letter_topic(group), letter.broker_name, letter.queue_id)
            held = state.queues.get(queue)
            # Before the topic was created anew, an earlier dead letter may have been at this offset.
            is_there = held is not None and held.min_offset <= letter.offset < held.max_offset
            count += int(is_there and letter.stored_ms >= firsts.get(queue, 0))
        return count

    async def _states(self) -> dict[str, TopicState]:
        """Return the state of each group's dead-letter topic, by group; of one that cannot be read, without queues."""
        missing = await missing_brokers(self._live)
        away = {topic for broker in missing for topic in broker.queues or ()}
        known = await self._live.nameserver_api.topics()
        topics = [each for each in sorted({*known, *away}) if each.startswith(DLQ_PREFIX)]
        show = AsyncTopicAdmin(self._admin, NO_NAMESPACE).show
        answers = await side_by_side(lambda topic: show(topic, missing), topics)
        states: dict[str, TopicState] = {}
        for topic, answer in zip(topics, answers, strict=True):
            group = topic.removeprefix(DLQ_PREFIX)
            if isinstance(answer, NetError):
                brokers = (await self._live.nameserver_api.route(topic)).brokers
                silent = tuple(silent_broker(each.broker_name, answer) for each in brokers)
                states[group] = TopicState({}, absent=silent)
            elif isinstance(answer, TopicState):
                states[group] = answer
            elif not isinstance(answer, TopicNotFound):  # That one was deleted meanwhile.
                states[group] = TopicState({}, uncounted=(f"{topic} cannot be read: {answer}",))
        return states

    def _own_counts(self, counts: Sequence[DeadLetterCount]) -> list[DeadLetterCount]:
        own = {self._full(name): name for name in self._own(each.group for each in counts)}
        return [each._replace(group=own[each.group]) for each in counts if each.group in own]

    # Last: in annotations behind it, `list` would mean the method.

    async def list(self) -> list[DeadLetterCount]:
        """Return a count for each group that has or may have dead letters, by name; requires an administrator's rights.

        Brokers that do not answer or have left are named by the counts that lack them. Groups whose dead letters cannot be
        read are returned, too, with the reason in `uncounted`.
        """
        found = [_count(group, state) for group, state in (await self._states()).items()]
        return self._own_counts([each for each in found if each.letters or each.unknown])


async def _ranges(
    reader: AsyncQueueReader, topic: str, since_ms: int
) -> list[tuple[MessageQueue, int, int]]:
    """Return each queue of a topic with the offsets of its first message since a time (0: of all) and after its last."""
    found = (await reader.queues([topic]))[topic]
    if isinstance(found, TopicNotFound):
        raise found
    begins = (
        reader.offsets_by_time(dict.fromkeys(found.readable, since_ms))
        if since_ms
        else reader.min_offsets(found.readable)
    )
    firsts = all_of((await begins).values())
    ends = all_of((await reader.max_offsets(found.readable)).values())
    return list(zip(found.readable, firsts, ends, strict=True))


def _count(group: str, state: TopicState) -> DeadLetterCount:
    return DeadLetterCount(
        group, state.messages.known, state.last_ms, state.absent, uncounted=state.uncounted
    )


def _ignore(_text: str) -> None:
    """Do nothing with a text that no caller wants."""
