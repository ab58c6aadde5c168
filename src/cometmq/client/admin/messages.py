"""Messages, as `AsyncAdmin.messages`: search, why a group has not consumed one, sending again, and recall of delayed ones."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

from cometmq.client.admin.copies import is_refusal
from cometmq.client.admin.delayed import DelayedFinder, DelayedMessages, DelayKind
from cometmq.client.admin.explain import Explainer, Explanation
from cometmq.client.admin.groups import AsyncGroupAdmin
from cometmq.client.admin.letters import REPLAY_OF, place_text
from cometmq.client.admin.noun import AsyncNoun
from cometmq.client.admin.queries import MessageQueries, is_offset_message_id, read_range
from cometmq.client.api.messages import ALL_TIME, MessageApi
from cometmq.client.identity import make_unique_ids
from cometmq.client.producer.encoded_send import SendEncoder
from cometmq.client.producer.sender import EncodedSender
from cometmq.client.results import SendResult
from cometmq.client.settings import ProducerSettings
from cometmq.codec.bodies.running import DirectOutcome
from cometmq.codec.recall_handle import decode_recall_handle
from cometmq.codec.trace import Trace, TraceKind, decode_traces
from cometmq.model.errors import (
    BrokerNotFound,
    BrokerRefused,
    CodecError,
    TopicNotFound,
)
from cometmq.model.message import Message, StoredMessage
from cometmq.model.names import INNER_PRODUCER_GROUP, TRACE_TOPIC, is_system_topic
from cometmq.model.namespace import NO_NAMESPACE
from cometmq.model.queue import MessageQueue
from cometmq.model.text import in_quotes

_RESENT_SIZE_MAX = (
    16 << 20
)  # A broker may have taken larger bodies than a producer sends by default.
_TRACES_MAX = 64  # Maximum number of trace messages that a broker returns (`maxMsgsNumBatch`).
# Order of record kinds; older clients write no time for the end of a listener call.
_KIND_ORDER = {TraceKind.PUB: 0, TraceKind.SUB_BEFORE: 1, TraceKind.SUB_AFTER: 2}


class AsyncMessageAdmin(AsyncNoun):
    """The methods that find, show, trace and resend stored messages of a cluster."""

    _noun = "messages"

    @property
    def _queries(self) -> MessageQueries:
        return MessageQueries(self._live)

    async def by_key(
        self,
        topic: str,
        key: str,
        *,
        max_count: int = 64,
        begin_ms: int = 0,
        end_ms: int | None = None,
    ) -> list[StoredMessage]:
        """Return messages with a key, the oldest first; if there are too many, the newest ones.

        Args:
            topic: Topic of the messages.
            key: A key that the producer set.
            max_count: Maximum number of messages; a broker returns at most 64 (`maxMsgsNumBatch`).
            begin_ms: Only messages stored at or after this time, ms since 1970.
            end_ms: Only messages stored at or before this time, ms since 1970; None: no limit.

        Raises:
            TopicNotFound: The nameserver has no route of the topic.
        """
        topic, end_ms = self._full(topic), ALL_TIME if end_ms is None else end_ms
        # Java brokers compare times of the index, which are up to 999 ms earlier than the message's store time.
        asked = await self._queries.ask_all(
            topic, key, max_count=max_count, begin_ms=max(begin_ms - 999, 0), end_ms=end_ms
        )
        found = [
            self._short_message(message)
            for message in asked
            if message.topic == topic
            and key in message.keys
            and begin_ms <= message.stored_ms <= end_ms
        ]
        return found[-max_count:] if max_count > 0 else []

    async def by_id(self, topic: str, message_id: str) -> StoredMessage | None:
        """Return the message with an id that its producer assigned, the newest one if there are several, or None.

        Raises TopicNotFound if the nameserver has no route of the topic.
        """
        topic = self._full(topic)
        found = await self._queries.by_unique_id(topic, message_id)
        return found and self._short_message(found)

    async def view(self, offset_message_id: str) -> StoredMessage:
        """Return the message at the place that an offset message id contains: a broker and a physical offset.

        Raises BrokerRefused if there is none, BrokerNotFound for an unregistered address, CodecError for a malformed id.
        """
        return self._short_message(await self._queries.view(offset_message_id))

    async def find(self, message_id: str, *, topic: str | None = None) -> StoredMessage | None:
        """Return the message with an id, as its producer assigned it or with its place (offset message id); None without one.

        Args:
            message_id: The id; both kinds look alike.
            topic: Topic of the message; None: any topic, but only an offset message id can be found.

        Raises:
            TopicNotFound: The nameserver has no route of the topic.
            BrokerRefused, NetError: A server does not permit the search, or does not answer.
        """
        found = None if topic is None else await self.by_id(topic, message_id)
        if found is None and is_offset_message_id(message_id):
            try:
                found = await self.view(message_id)
            except BrokerNotFound:
                return None  # Most ids of producers name no broker.
            except BrokerRefused as refused:
                if is_refusal(refused):
                    raise
                return None
        return None if found is None or topic not in (None, found.topic) else found

    async def at_offset(
        self, topic: str, offset: int, *, queue_id: int | None = None
    ) -> list[StoredMessage]:
        """Return the messages at an offset of a topic, one from each queue that has it; raise TopicNotFound without a route.

        `queue_id`: Only from queues with this id; None: from all.
        """
        async with self._consumer() as consumer:
            queues = await consumer.queues(self._full(topic))
            wanted = [each for each in queues if queue_id in (None, each.queue_id)]
            read = (read_range(consumer, queue, offset, offset + 1) for queue in wanted)
            found = chain.from_iterable(await asyncio.gather(*read))
        return [*map(self._short_message, found)]

    async def since(
        self, topic: str, time_ms: int, *, max_count: int, queue_id: int | None = None
    ) -> list[StoredMessage]:
        """Return the first messages of a topic that were stored at or after a time, the oldest first.

        Args:
            topic: Topic of the messages.
            time_ms: The time, ms since 1970.
            max_count: Maximum number of messages.
            queue_id: Only from queues with this id; None: from all.

        Raises:
            TopicNotFound: The nameserver has no route of the topic.
        """
        async with self._consumer() as consumer:

            async def read(queue: MessageQueue) -> list[StoredMessage]:
                begin = await consumer.offset_by_time(queue, time_ms)
                return await read_range(consumer, queue, begin, begin + max_count)

            queues = await consumer.queues(self._full(topic))
            wanted = [each for each in queues if queue_id in (None, each.queue_id)]
            found = chain.from_iterable(await asyncio.gather(*map(read, wanted)))
        first = sorted(found, key=lambda message: message.stored_ms)[:max_count]
        return [*map(self._short_message, first)]

    async def deleted(self, messages: Sequence[StoredMessage]) -> set[str]:
        """Return the offset message ids of the messages whose offset in the queue now has another message or none.

        An index may still have the keys of a deleted topic, so a search by key or id may find messages of it and of a new
        topic with its name. Messages of a topic without a route are included, except those of system topics. Messages
        before their queue's first offset, and those before the end of an unreadable queue, are normally not. Raises
        CometError if a broker cannot be queried.
        """
        async with self._consumer() as consumer:

            async def is_deleted(message: StoredMessage) -> bool:
                offset, queue = message.queue_offset, self._namespace.wrap_queue(message.queue)
                try:
                    queues = await consumer.queues(queue.topic)
                except TopicNotFound:
                    return not is_system_topic(queue.topic)
                if queue not in queues:  # The queue may have become unreadable.
                    return offset >= await consumer.max_offset(queue)
                pull = await consumer.fetch(queue, offset, max_count=1)
                if not pull.messages:
                    return offset >= pull.max_offset
                places = {each.commitlog_offset for each in pull.messages}
                return message.commitlog_offset not in places

            found = await asyncio.gather(*map(is_deleted, messages))
        pairs = zip(messages, found, strict=True)
        return {message.offset_message_id for message, is_it in pairs if is_it}

    async def trace(
        self,
        message_id: str,
        *,
        topic: str = TRACE_TOPIC,
        on_unreadable: Callable[[str], object] | None = None,
    ) -> list[Trace]:
        """Return a message's trace records: sends, ends of transactions and recalls, then each listener call with its end.

        Args:
            message_id: Id that the producer assigned.
            topic: Topic of the traces; at most 64 of the newest messages there that have the id as a key are read.
            on_unreadable: Called with the reason for each trace message that is malformed; None: raise CodecError.

        Raises:
            TopicNotFound: The nameserver has no route of the topic of traces; brokers create it with the first trace.
            CodecError: A record or an answer is malformed.
        """
        found: dict[Trace, None] = {}
        for message in await self.by_key(topic, message_id, max_count=_TRACES_MAX):
            try:
                records = decode_traces(bytes(message.body))
            except CodecError as error:
                if on_unreadable is None:
                    raise
                on_unreadable(str(error))
                continue
            found |= dict.fromkeys(each for each in records if each.message_id == message_id)
        began = {
            record.request_id: record.time_ms
            for record in found
            if record.kind is TraceKind.SUB_BEFORE
        }

        def place(record: Trace) -> tuple[int, int, str, int]:
            kind = _KIND_ORDER.get(record.kind, 0)
            time_ms = began.get(record.request_id, record.time_ms)
            return min(kind, 1), time_ms, record.request_id, kind

        return sorted(found, key=place)

    async def explain(
        self, message_id: str, group: str, *, topic: str | None = None
    ) -> Explanation:
        """Check why a group has not consumed a message, and return the findings, with names as brokers know them.

        Args:
            message_id: Id that the producer assigned, or the offset message id.
            group: The consumer group.
            topic: Topic of the message; None: search the topics of its connected members, then up to 500 others.

        Raises:
            MessageError: No topic is given or known from a member, and the id has not the form of an offset message id.
            TopicNotFound: The topic of the message has no route any more.
            BrokerNotFound: The broker of the message has no master now.
            NetError, BrokerRefused, CodecError: The cluster cannot be queried.
        """
        return await Explainer(self._live).explain(
            message_id, self._full(group), topic and self._full(topic)
        )

    async def delayed(
        self,
        kind: DelayKind | None = None,
        *,
        levels: str | None = None,
        look_bytes: int | None = None,
    ) -> DelayedMessages:
        """Return the messages that wait for a delay level or for a time and are not due yet, sorted by due time.

        The result names the brokers that do not answer.

        Args:
            kind: Whether to find those that wait for a level or for a time; None: both.
            levels: Delay levels of all brokers, as in messageDelayLevel; None: each broker is queried for its own.
            look_bytes: Approximate total size of the messages to read, bytes; None: no limit.

        Raises:
            TopicNotFound: No registered broker has the delay topic.
            SettingsError: The levels are malformed.
        """
        async with self._consumer() as consumer:
            finder = DelayedFinder(consumer, self._live, levels=levels, look_bytes=look_bytes)
            return await finder.find(kind)

    async def consume(self, message: StoredMessage, group: str) -> DirectOutcome | None:
        """Let a member of a group consume a stored message now, and return what its listener answered; None without a member.

        Raises:
            GroupNotFound: No broker knows the group.
            BrokerNotFound: The broker of the message is not registered.
            BrokerRefused: The broker refuses, for example because it does not have the message any more.
        """
        members = (await AsyncGroupAdmin(self._admin).show(group)).members
        if not members:
            return None
        address = await self._live.nameserver_api.member(message.queue.broker_name)
        return await self._brokers.consume_directly(
            address, self._full(group), members[0].client_id, message.offset_message_id
        )

    async def resend(self, message: StoredMessage) -> SendResult:
        """Send a copy of a stored message to its topic, where every group gets it; its property REPLAY_OF has the place.

        Raises the errors of a send, such as TopicNotFound, MessageError and SendFailed.
        """
        live = self._live
        queue = self._namespace.wrap_queue(message.queue)
        place = place_text(queue, message.queue_offset)
        copy = Message(
            queue.topic,
            bytes(message.body),
            tag=message.tag,
            keys=message.keys,
            properties={**message.user_properties, REPLAY_OF: place},
            flag=message.flag,
        )
        settings = ProducerSettings(body_size_max=_RESENT_SIZE_MAX)
        ids = make_unique_ids(live.ip, live.clock, live.chance)
        # A producer would register at brokers, and its end would unregister others with this client id.
        encoded = SendEncoder(INNER_PRODUCER_GROUP, settings, live.clock, ids).pack(copy)
        sender = EncodedSender(live, settings)
        try:
            return await sender.start(encoded, None, None)
        finally:
            sender.close()

    async def recall(self, handle: str) -> str:
        """Cancel a message that waits for its delivery time, and return the message id in the handle.

        Args:
            handle: `SendResult.recall_handle`. Whether the message still exists is not checked.

        Raises:
            CodecError: The handle is malformed.
            TopicNotFound: The nameserver has no route of the message's topic.
            BrokerNotFound: The topic's route does not have the message's broker.
            BrokerRefused: The broker refuses, for example as recallMessageEnable is false or the message is due.
        """
        told = decode_recall_handle(handle)
        broker = (await self._live.nameserver_api.route(told.topic)).broker(told.broker_name)
        if broker is None:
            raise BrokerNotFound(
                f"topic {in_quotes(told.topic)} has no broker {in_quotes(told.broker_name)}; is the recall handle "
                "of this cluster?"
            )
        return await MessageApi(self._live).recall(
            broker.master_or_any() or "", told.topic, handle
        )

    def _short_message(self, message: StoredMessage) -> StoredMessage:
        if self._namespace is NO_NAMESPACE:
            return message
        return replace(message, queue=self._namespace.unwrap_queue(message.queue))
