"""Messages, as `AsyncAdmin.messages`: search by key or id, why a group has not consumed one, and recall of delayed ones."""

from dataclasses import replace

from cometmq.client.admin.delayed import DelayedFinder, DelayedMessages
from cometmq.client.admin.explain import Explainer, Explanation
from cometmq.client.admin.message_traces import MessageTraces
from cometmq.client.admin.noun import AsyncNoun
from cometmq.client.admin.queries import MessageQueries
from cometmq.client.admin.states import States, group_not_found
from cometmq.client.api.messages import MessageApi
from cometmq.client.consumer.pull.pull_consumer import AsyncPullConsumer
from cometmq.client.settings import ConsumerSettings
from cometmq.codec.bodies.running import DirectOutcome
from cometmq.codec.recall_handle import decode_recall_handle
from cometmq.codec.trace import Trace
from cometmq.model.errors import BrokerNotFound
from cometmq.model.message import StoredMessage
from cometmq.model.names import TOOLS_GROUP, TRACE_TOPIC
from cometmq.model.namespace import NO_NAMESPACE
from cometmq.model.text import in_quotes


class AsyncMessageAdmin(AsyncNoun):
    """The stored messages of a cluster."""

    _noun = "messages"

    @property
    def _queries(self) -> MessageQueries:
        return MessageQueries(self._live)

    async def by_key(
        self,
        topic: str,
        key: str,
        *,
        count_max: int = 64,
        begin_ms: int = 0,
        end_ms: int | None = None,
    ) -> list[StoredMessage]:
        """Return messages with a key, the oldest first; if there are too many, the newest ones.

        Args:
            topic: Topic of the messages.
            key: A key that the producer set.
            count_max: Maximum number of messages; a broker returns at most 64 (`maxMsgsNumBatch`).
            begin_ms: Only messages stored at or after this time, ms since 1970.
            end_ms: Only messages stored at or before this time, ms since 1970; None: no limit.

        Raises:
            TopicNotFound: The nameserver has no route of the topic.
        """
        found = await self._queries.by_key(
            self._full(topic), key, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms
        )

        return [*map(self._short_message, found)]

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

    async def trace(self, message_id: str, *, topic: str = TRACE_TOPIC) -> list[Trace]:
        """Return a message's trace records: sends, ends of transactions and recalls, then each listener call with its end.

        Args:
            message_id: Id that the producer assigned.
            topic: Topic of the traces; at most 64 of the newest messages there that have the id as a key are read.

        Raises:
            TopicNotFound: The nameserver has no route of the topic of traces; brokers create it with the first trace.
            CodecError: A record or an answer is malformed.
        """
        return await MessageTraces(self._live).of(message_id, self._full(topic))

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

    async def delayed(self, *, levels: str | None = None) -> DelayedMessages:
        """Return the messages that wait for a delay level or for a time and are not due yet, sorted by due time.

        Args:
            levels: Delay levels of all brokers, as in messageDelayLevel; None: each broker is queried for its own.

        Raises:
            TopicNotFound: No registered broker has the delay topic.
            SettingsError: The levels are malformed.
        """
        live = self._live
        settings = ConsumerSettings(request_timeout_ms=live.settings.request_timeout_ms)
        async with AsyncPullConsumer(
            group=TOOLS_GROUP, settings=settings, instance=live
        ) as consumer:
            finder = DelayedFinder(consumer, live, now_ms=live.clock.now_ms(), levels=levels)
            return await finder.all()

    async def consume(self, message: StoredMessage, group: str) -> DirectOutcome | None:
        """Let a member of a group consume a stored message now, and return what its listener answered; None without a member.

        Raises:
            GroupNotFound: No broker knows the group.
            BrokerNotFound: The broker of the message is not registered.
            BrokerRefused: The broker refuses, for example because it does not have the message any more.
        """
        group = self._full(group)
        state = await States(self._live).group(group)
        if not state.is_known:
            raise group_not_found(group, state.absent)
        if not state.members:
            return None
        address = await self._live.nameserver_api.member(message.queue.broker_name)
        return await self._brokers.consume_directly(
            address, group, state.members[0].client_id, message.offset_message_id
        )

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
