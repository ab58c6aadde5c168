"""Search for the dead letters of groups."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import NamedTuple

from cometmq.client.admin.absent import AbsentBroker, silent_broker
from cometmq.client.admin.states import States, TopicState
from cometmq.client.api.asking import all_of, side_by_side
from cometmq.client.api.offsets import OffsetApi
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.pull.queue_reader import AsyncQueueReader
from cometmq.client.consumer.pull.received import unpack
from cometmq.codec.properties import encode_properties
from cometmq.codec.record import decode_records
from cometmq.codec.sql92 import sql92_filter
from cometmq.model import properties as keys_of
from cometmq.model.errors import CodecError, CometError, NetError, TopicNotFound
from cometmq.model.message import StoredMessage
from cometmq.model.names import (
    DLQ_PREFIX,
    REPLAY_LEDGER_PREFIX,
    TOOLS_GROUP,
    dead_letter_topic,
)
from cometmq.model.queue import MessageQueue
from cometmq.model.text import in_quotes

BODY_SIZE_MAX = 64 << 20  # After decompression, bytes.
_LEDGER_LETTERS_MAX = 10_000


class DeadLetterCount(NamedTuple):
    """The number of dead letters of a group.

    Attributes:
        letters: Known number of stored dead letters.
        last_ms: Store time of the latest one, ms since 1970; 0 if unknown.
        absent: Brokers that may have more of them but do not answer or have left.
        first_ms: Store time of the first one, ms since 1970; 0 if unknown or not queried.
    """

    group: str
    letters: int
    last_ms: int
    absent: tuple[AbsentBroker, ...] = ()
    first_ms: int = 0

    @property
    def unknown(self) -> tuple[str, ...]:
        """Reasons why there may be more: the brokers in `absent`."""
        return tuple(map(str, self.absent))


class DeadLetterFilter(NamedTuple):
    """A selection of dead letters by SQL92 expression, key and time.

    Attributes:
        sql: SQL92 expression over their properties; empty: all.
        key: Key of the message; empty: all.
        since_ms: Only those that became dead letters at or after this time, ms since 1970.
        until_ms: Only those that became dead letters before this time, ms since 1970; None: no limit.
    """

    sql: str = ""
    key: str = ""
    since_ms: int = 0
    until_ms: int | None = None

    def takes(self, letter: StoredMessage) -> bool:
        """Return whether a dead letter is selected; may raise ExpressionError if `sql` is invalid."""
        if self.key and self.key not in letter.keys:
            return False
        if not self.takes_time(letter.stored_ms):
            return False
        return not self.sql or sql92_filter(self.sql).matches(
            encode_properties(letter.properties)
        )

    def takes_time(self, stored_ms: int) -> bool:
        """Return whether a dead letter stored at a time, ms since 1970, is selected as far as its time decides."""
        return self.since_ms <= stored_ms and (
            self.until_ms is None or stored_ms < self.until_ms
        )


class DeadLetters:
    """Finds dead letters for one client."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._states = States(instance)

    async def counts(self) -> list[DeadLetterCount]:
        """Return the number of dead letters for each group that has any, or may have some, sorted by name."""
        states = await self._states_by_group()
        found = [_count(group, state) for group, state in states.items()]
        return [each for each in found if each.letters or each.absent]

    async def waiting(self) -> list[DeadLetterCount]:
        """Return the number of dead letters that no program has sent again, for each group that has any, sorted by name.

        Of a group with more than 10,000 dead letters replayed ones count, too: the ledger of its replays is not read.
        """
        topics = set(await self._instance.nameserver_api.topics())
        states = await self._states_by_group()
        filled = [
            queue
            for state in states.values()
            for queue, each in state.queues.items()
            if each.max_offset > each.min_offset
        ]
        times = await OffsetApi(self._instance).first_stored_times(filled)
        firsts = {queue: each for queue, each in times.items() if isinstance(each, int)}
        found = []
        for group, state in states.items():
            count = _count(group, state)
            first_ms = min((firsts[each] for each in state.queues if each in firsts), default=0)
            if REPLAY_LEDGER_PREFIX + group in topics and count.letters <= _LEDGER_LETTERS_MAX:
                replayed = await self._replayed(group, state, firsts)
                count = count._replace(letters=count.letters - replayed)
                first_ms = (
                    0 if replayed else first_ms
                )  # The first letter may be a replayed one.
            if count.letters > 0:
                found.append(count._replace(first_ms=max(first_ms, 0)))
        return found

    async def _replayed(
        self, group: str, state: TopicState, firsts: Mapping[MessageQueue, int]
    ) -> int:
        """Return how many dead letters in the queues of `state` the group's ledger records as sent; 0 if it is unreadable."""
        from cometmq.client.admin.ledger_topic import LedgerTopic

        ledger = LedgerTopic(self._instance, group)
        try:
            async with AsyncQueueReader(group=TOOLS_GROUP, instance=self._instance) as reader:
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

    async def _states_by_group(self) -> dict[str, TopicState]:
        """Return the state of each group's dead-letter topic, sorted by group; it is empty if none of its brokers answers."""
        missing = await self._states.missing()
        away = {topic for broker in missing for topic in broker.queues or ()}
        known = await self._instance.nameserver_api.topics()
        topics = [each for each in sorted({*known, *away}) if each.startswith(DLQ_PREFIX)]
        answers = await side_by_side(lambda topic: self._states.topic(topic, missing), topics)
        states: dict[str, TopicState] = {}
        for topic, answer in zip(topics, answers, strict=True):
            group = topic.removeprefix(DLQ_PREFIX)
            if isinstance(answer, NetError):
                brokers = (await self._instance.nameserver_api.route(topic)).brokers
                silent = tuple(silent_broker(each.broker_name, answer) for each in brokers)
                states[group] = TopicState({}, absent=silent)
            elif isinstance(answer, TopicState):
                states[group] = answer
            elif not isinstance(answer, TopicNotFound):  # That one was deleted meanwhile.
                raise answer
        return states

    async def read(
        self,
        group: str,
        wanted: DeadLetterFilter,
        *,
        on_unreadable: Callable[[str], object],
        last: int | None = None,
    ) -> AsyncIterator[StoredMessage]:
        """Yield the selected dead letters that a group has when reading starts, queue by queue, by rising offset.

        Args:
            group: Group of the dead letters.
            wanted: Selection of dead letters.
            on_unreadable: Called with a sentence about each dead letter whose body or properties cannot be decoded; it
                is left out.
            last: Maximum number of the latest dead letters of each queue to search; None: all.

        Raises:
            TopicNotFound: There is no dead-letter topic of the group.
            ExpressionError: A letter shows that the filter is invalid.
        """
        await self.check(group)
        topic = dead_letter_topic(group)
        async with AsyncQueueReader(group=TOOLS_GROUP, instance=self._instance) as reader:
            found = (await reader.queues([topic]))[topic]
            if isinstance(found, TopicNotFound):
                raise found
            begins = (
                reader.offsets_by_time(dict.fromkeys(found.readable, wanted.since_ms))
                if wanted.since_ms
                else reader.min_offsets(found.readable)
            )
            firsts = all_of((await begins).values())
            ends = all_of((await reader.max_offsets(found.readable)).values())
            for queue, first, end in zip(found.readable, firsts, ends, strict=True):
                start = first if last is None else max(first, end - last)
                async for pull in reader.read(queue, start, end):
                    for record in decode_records(pull.body):
                        try:
                            letter = unpack(record, queue, body_size_max=BODY_SIZE_MAX)
                        except CodecError as error:
                            if wanted.takes_time(record.store_timestamp):
                                place = _place(queue, record.queue_offset)
                                on_unreadable(f"dead letter {place} cannot be decoded: {error}")
                            continue
                        if wanted.takes(letter):
                            yield letter

    async def check(self, group: str) -> None:
        """Raise TopicNotFound if there is no route of the dead-letter topic of a group."""
        topic = dead_letter_topic(group)
        try:
            await self._instance.nameserver_api.route(topic)
        except TopicNotFound:
            raise TopicNotFound(
                f"group {in_quotes(group)} has no dead letters: no broker has the topic {in_quotes(topic)}; "
                "cometmq dlq list shows the groups that have dead letters"
            ) from None


def _count(group: str, state: TopicState) -> DeadLetterCount:
    last_ms = max((each.updated_ms for each in state.queues.values()), default=0)
    return DeadLetterCount(group, state.messages.known, last_ms, state.absent)


def place_of(letter: StoredMessage, group: str) -> str:
    """Return the place of a dead letter, "topic:broker:queue:offset", as in the property REPLAY_OF of its copies."""
    return _place(queue_of(letter, group), letter.queue_offset)


def _place(queue: MessageQueue, offset: int) -> str:
    return f"{queue.topic}:{queue.broker_name}:{queue.queue_id}:{offset}"


def dead_letter_origin(letter: StoredMessage) -> str | None:
    """Return the original topic of a dead letter, the default target of a replay; None if it is not recorded."""
    properties = letter.properties
    return properties.get(keys_of.DLQ_ORIGIN_TOPIC) or properties.get(keys_of.RETRY_TOPIC)


def queue_of(letter: StoredMessage, group: str) -> MessageQueue:
    """Return the queue of a dead letter in the dead-letter topic of its group."""
    return MessageQueue(
        dead_letter_topic(group), letter.queue.broker_name, letter.queue.queue_id
    )
