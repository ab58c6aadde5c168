"""The blocking `MessageAdmin`: made by tools/sync_facade.py from cometmq.client.admin.messages; do not edit."""

from collections.abc import Callable, Sequence

from cometmq.client.admin.delayed import DelayedMessages, DelayKind
from cometmq.client.admin.explain import Explanation
from cometmq.client.admin.messages import AsyncMessageAdmin
from cometmq.client.results import SendResult
from cometmq.client.sync.client import BlockingNoun
from cometmq.codec.bodies.running import DirectOutcome
from cometmq.codec.trace import Trace
from cometmq.model.message import StoredMessage
from cometmq.model.names import TRACE_TOPIC


class MessageAdmin(BlockingNoun[AsyncMessageAdmin]):
    """The methods that find, show, trace and resend stored messages of a cluster."""

    def by_key(
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
        return self._portal.call(
            self._client.by_key,
            topic,
            key,
            max_count=max_count,
            begin_ms=begin_ms,
            end_ms=end_ms,
        )

    def by_id(self, topic: str, message_id: str) -> StoredMessage | None:
        """Return the message with an id that its producer assigned, the newest one if there are several, or None.

        Raises TopicNotFound if the nameserver has no route of the topic.
        """
        return self._portal.call(self._client.by_id, topic, message_id)

    def view(self, offset_message_id: str) -> StoredMessage:
        """Return the message at the place that an offset message id contains: a broker and a physical offset.

        Raises BrokerRefused if there is none, BrokerNotFound for an unregistered address, CodecError for a malformed id.
        """
        return self._portal.call(self._client.view, offset_message_id)

    def find(self, message_id: str, *, topic: str | None = None) -> StoredMessage | None:
        """Return the message with an id, as its producer assigned it or with its place (offset message id); None without one.

        Args:
            message_id: The id; both kinds look alike.
            topic: Topic of the message; None: any topic, but only an offset message id can be found.

        Raises:
            TopicNotFound: The nameserver has no route of the topic.
            BrokerRefused, NetError: A server does not permit the search, or does not answer.
        """
        return self._portal.call(self._client.find, message_id, topic=topic)

    def at_offset(
        self, topic: str, offset: int, *, queue_id: int | None = None
    ) -> list[StoredMessage]:
        """Return the messages at an offset of a topic, one from each queue that has it; raise TopicNotFound without a route.

        `queue_id`: Only from queues with this id; None: from all.
        """
        return self._portal.call(self._client.at_offset, topic, offset, queue_id=queue_id)

    def since(
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
        return self._portal.call(
            self._client.since, topic, time_ms, max_count=max_count, queue_id=queue_id
        )

    def deleted(self, messages: Sequence[StoredMessage]) -> set[str]:
        """Return the offset message ids of the messages whose offset in the queue now has another message or none.

        An index may still have the keys of a deleted topic, so a search by key or id may find messages of it and of a new
        topic with its name. Messages of a topic without a route are included, except those of system topics. Messages
        before their queue's first offset, and those before the end of an unreadable queue, are normally not. Raises
        CometError if a broker cannot be queried.
        """
        return self._portal.call(self._client.deleted, messages)

    def trace(
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
        return self._portal.call(
            self._client.trace, message_id, topic=topic, on_unreadable=on_unreadable
        )

    def explain(self, message_id: str, group: str, *, topic: str | None = None) -> Explanation:
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
        return self._portal.call(self._client.explain, message_id, group, topic=topic)

    def delayed(
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
        return self._portal.call(
            self._client.delayed, kind, levels=levels, look_bytes=look_bytes
        )

    def consume(self, message: StoredMessage, group: str) -> DirectOutcome | None:
        """Let a member of a group consume a stored message now, and return what its listener answered; None without a member.

        Raises:
            GroupNotFound: No broker knows the group.
            BrokerNotFound: The broker of the message is not registered.
            BrokerRefused: The broker refuses, for example because it does not have the message any more.
        """
        return self._portal.call(self._client.consume, message, group)

    def resend(self, message: StoredMessage) -> SendResult:
        """Send a copy of a stored message to its topic, where every group gets it; its property REPLAY_OF has the place.

        Raises the errors of a send, such as TopicNotFound, MessageError and SendFailed.
        """
        return self._portal.call(self._client.resend, message)

    def recall(self, handle: str) -> str:
        """Cancel a message that waits for its delivery time, and return the message id in the handle.

        Args:
            handle: `SendResult.recall_handle`. Whether the message still exists is not checked.

        Raises:
            CodecError: The handle is malformed.
            TopicNotFound: The nameserver has no route of the message's topic.
            BrokerNotFound: The topic's route does not have the message's broker.
            BrokerRefused: The broker refuses, for example as recallMessageEnable is false or the message is due.
        """
        return self._portal.call(self._client.recall, handle)
