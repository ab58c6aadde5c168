"""Checks sends, mostly in RocketMQ's order; the result is either the records to store or a refusal.

Order, codes and most remarks follow AbstractSendMessageProcessor.msgCheck and SendMessageProcessor of RocketMQ 5.3.3.
The fast path skips this for simple sends (broker.send.fast_path).
"""

import asyncio
from typing import NamedTuple, Protocol

from cometmq.broker.inner.reroute import RoutedSend
from cometmq.broker.parts import Parts
from cometmq.broker.send.packing import Origin, Packing
from cometmq.broker.tables.lanes import WAITING_TOPICS
from cometmq.broker.tables.replication_state import SLAVE_REMARK
from cometmq.codec.headers.send import SendRequest, SendRequestV2
from cometmq.codec.message_id import UniqueIds
from cometmq.codec.properties import decode_properties
from cometmq.codec.recall_handle import RecallHandle, encode_recall_handle
from cometmq.codec.record import HOST_BITS
from cometmq.model import properties as keys_of
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError, invalid_parameter
from cometmq.model.flags import INNER_BATCH, NEED_UNWRAP, PERM_READ_WRITE, is_writable
from cometmq.model.names import (
    RETRY_PREFIX,
    WHEEL_TIMER_TOPIC,
    check_sendable,
    check_topic,
    dead_letter_topic,
)
from cometmq.model.topic import TopicConfig
from cometmq.store.appender import Put
from cometmq.store.consume_queue import ConsumeQueue

AnySend = SendRequest | SendRequestV2

# RocketMQ writes this into a dead letter's DELAY; otherwise the dead letter would be delayed (handleRetryAndDLQ).
_NO_DELAY = "-1"
# Bits of sysFlag that describe how a record is encoded; a sender must not set them. With the bits of IPv6 hosts the record
# would be unreadable and block its queue for every consumer; with those of an inner batch it would be read as a batch.
FLAGS_OF_BROKERS = HOST_BITS | INNER_BATCH | NEED_UNWRAP
# Fields with 32 bits in a record: attribute of the request, and its name for clients.
_RANGED = (
    ("flag", "flag"), ("sys_flag", "sysFlag"), ("reconsume_times", "reconsumeTimes"), ("queue_id", "queueId"),
)  # fmt: skip


class Sender(Protocol):
    """The client that a send comes from.

    Attributes:
        host: The client's host as records store it, 8 or 20 bytes.
        address: The client's address, "ip:port".
    """

    @property
    def host(self) -> bytes: ...  # noqa: D102
    @property
    def address(self) -> str: ...  # noqa: D102


class AdmittedSend(NamedTuple):
    """A send that has passed all checks.

    Attributes:
        puts: The records to store: one, or those of a batch.
        answer_start: JSON header of a connection's answer up to the first physical offset.
        transaction_id: The message's unique key (UNIQ_KEY); may be empty for a batch.
        is_batch: Whether the records must be contiguous in the log.
        is_flush_awaited: Whether the answer waits for confirmation: a synchronous flush, replicas (property WAIT).
        saving: Done when the topic, which was just created or changed, is on disk; None if it is already.
        queue_id: The queue that the producer chose, or that was chosen for it; 0 for a dead letter.
        recall_handle: The handle by which a timed message can be recalled, or None.
    """

    puts: list[Put]
    answer_start: str
    transaction_id: str
    is_batch: bool = False
    is_flush_awaited: bool = True
    saving: asyncio.Future[None] | None = None
    queue_id: int = 0
    recall_handle: str | None = None


class Admission:
    """The checks of sends against settings, topics and groups.

    Attributes:
        property_suffix: The properties that the broker adds to each message, encoded.
        body_size_max: Largest allowed body in bytes (maxMessageSize).
        reroutes: Called in this order for each send checked here; each may change its destination (delayed ...) or refuse it.
    """

    def __init__(self, parts: Parts, unique_ids: UniqueIds) -> None:
        """`unique_ids` creates ids for messages without one."""
        self.reroutes = parts.reroutes
        self._packing = Packing(parts.settings, unique_ids)
        self.property_suffix = self._packing.property_suffix
        self.body_size_max = parts.settings.body_size_max
        self._settings = parts.settings
        # Each role of the broker makes its own admission.
        self._is_slave = parts.settings.is_slave
        self._topics = parts.topics
        self._groups = parts.groups
        self._locks = parts.locks
        self._counters = parts.counters
        self._lanes = parts.lanes
        self._chance = parts.chance

    def admit(
        self, request: AnySend, body: bytes, sender: Sender, *, is_batch: bool = False
    ) -> AdmittedSend:
        """Check a send and return the records to store; a missing topic is created if that is allowed.

        `body` has the encoded messages of a batch if `is_batch` (the request code) or the header says so.

        Raises:
            RequestError: The send is refused; the code says why.
            CodecError, RecordIllegal: Properties cannot be decoded, or the queue is one that this broker only reads.
        """
        _check_ranges(request)
        self._check_open()
        topic, queue_id, properties = self._target(request, sender)
        is_batch = bool(request.batch) or is_batch
        sys_flag = request.sys_flag & ~FLAGS_OF_BROKERS
        sent = RoutedSend(
            topic, queue_id, properties, sys_flag, request.topic, is_batch=is_batch
        )
        for reroute in self.reroutes:
            sent = reroute(sent)
        # Until the topic is on disk, its sends must not use the fast path: each waits for the topic to be saved.
        saving = self._topics.saving_of(topic.name)
        is_here = sent.topic is topic
        lane = self._lanes.open(sent.topic, sent.queue_id, is_kept=is_here and saving is None)
        _check_queue(lane.queue)
        if sent.topic.name in WAITING_TOPICS and saving is None and not is_batch:
            self._lanes.open_waiting(topic, queue_id, lane, sent.timing_of)
        origin = Origin(
            sent, lane, request.flag, request.born_timestamp, sender.host,
            request.reconsume_times or 0,
        )  # fmt: skip
        if is_batch:
            puts = self._packing.batch(body, origin)
        else:
            puts = [self._packing.single(body, origin)]
        handle = None if is_here else self._recall_handle(sent)
        return AdmittedSend(
            puts,
            # The answer to a rerouted send names the queue that the producer chose.
            lane.answer_start if is_here else self._lanes.answer_start(queue_id, handle),
            sent.properties.get(keys_of.UNIQ_KEY, ""),
            is_batch,
            sent.properties.get(keys_of.WAIT, "true") != "false",
            saving,
            queue_id,
            handle,
        )

    def _recall_handle(self, sent: RoutedSend) -> str | None:
        out_ms = sent.properties.get(keys_of.TIMER_OUT_MS)
        key = sent.properties.get(keys_of.UNIQ_KEY)
        if sent.topic.name != WHEEL_TIMER_TOPIC or out_ms is None or key is None:
            return None
        # Follows RocketMQ: 1 ms more, so that the recall falls into the same slot.
        due_ms, name = str(int(out_ms) + 1), self._settings.broker_name
        return encode_recall_handle(RecallHandle(sent.born_topic, name, due_ms, key))

    def _target(
        self, request: AnySend, sender: Sender
    ) -> tuple[TopicConfig, int, dict[str, str]]:
        """Return the topic, created if missing and allowed, queue id and properties of a send.

        A dead letter is counted, and goes to the dead-letter topic of its group.
        """
        topic = self._topic_of(request, sender)
        properties = _read_properties(request.properties)
        queue_id = self._queue_of(request, topic, sender)
        if topic.name.startswith(RETRY_PREFIX) and self._is_dead(request, topic.name):
            self._count_dead(properties, topic.name)
            topic, queue_id = self._dead_letters(topic.name), 0
            properties[keys_of.DELAY] = _NO_DELAY
        return topic, queue_id, properties

    # --- the checks, in RocketMQ's order

    def _check_open(self) -> None:
        # A slave's requests are refused before they get here, but not the messages of its own process.
        if self._is_slave:
            raise RequestError(ResponseCode.SERVICE_NOT_AVAILABLE, SLAVE_REMARK)
        start_ms = self._settings.accept_sends_from_ms
        if self._topics.clock.now_ms() < start_ms:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"broker unable to service, until {start_ms} (startAcceptSendRequestTimeStamp)",
            )

    def _topic_of(self, request: AnySend, sender: Sender) -> TopicConfig:
        name = request.topic
        topic = self._topics.get(name)
        if not is_writable(self._settings.perm) and topic is not None and topic.ordered:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._settings.broker_name}] sending message is forbidden",
            )
        check_topic(name, code=ResponseCode.MESSAGE_ILLEGAL)
        check_sendable(name)
        if topic is None:
            topic = self._make_topic(request, sender)
        if not is_writable(topic.perm):
            # Differs: RocketMQ leaves this check to its producers, which see the permission in the route.
            raise RequestError(
                ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden"
            )
        return topic

    def _make_topic(self, request: AnySend, sender: Sender) -> TopicConfig:
        if request.topic.startswith(RETRY_PREFIX):
            group = self._groups.get(request.topic.removeprefix(RETRY_PREFIX))
            if group is not None:
                return self._topics.ensure(request.topic, queues=1, perm=PERM_READ_WRITE)
        made = self._topics.make_from(
            request.default_topic, request.topic, queues=request.default_topic_queue_nums
        )
        if made is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{request.topic}] not exist, apply first please! "
                f"(producer {sender.address}; or set autoCreateTopicEnable=true)",
            )
        return made

    def _queue_of(self, request: AnySend, topic: TopicConfig, sender: Sender) -> int:
        queue_id = request.queue_id
        # Differs: RocketMQ picks a queue for any negative id, not only for -1.
        if queue_id == -1 and topic.write_queues > 0:
            return self._chance.randrange(topic.shared_queues)
        if not 0 <= queue_id < topic.queue_count:
            raise invalid_parameter(
                f"request queueId[{queue_id}] is illegal, topic[{topic.name}] has "
                f"{topic.write_queues} write and {topic.read_queues} read queues. "
                f"Producer: {sender.address}"
            )
        return queue_id

    def _is_dead(self, request: AnySend, topic: str) -> bool:
        """Return whether a message that a consumer sends to a retry topic becomes a dead letter; raise RequestError if there is no group.

        A message does if its retries are used up, or its group has no retry queues or holds a queue lock (consumes in order).
        """
        name = topic.removeprefix(RETRY_PREFIX)
        group = self._groups.get(name)
        if group is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group not exist, {name}",
            )
        if self._locks.is_group_ordered(name):
            # An orderly consumer has retried by itself; another retry would be out of order.
            return True
        if group.retry_queues <= 0:
            return True
        tries_max = (
            group.retry_max_times
            if request.max_reconsume_times is None
            else request.max_reconsume_times
        )
        return (request.reconsume_times or 0) > tries_max

    def _count_dead(self, properties: dict[str, str], retry: str) -> None:
        origin = properties.get(keys_of.RETRY_TOPIC, retry)
        if self._topics.get(origin) is None:
            origin = retry  # A client can write any name into this property.
        self._counters.dead.of(origin, retry.removeprefix(RETRY_PREFIX)).add(1, 0, 0)

    def _dead_letters(self, topic: str) -> TopicConfig:
        name = dead_letter_topic(topic.removeprefix(RETRY_PREFIX))
        return self._topics.ensure(name, queues=1, perm=PERM_READ_WRITE)


def _check_queue(queue: ConsumeQueue) -> None:
    """Raise RequestError for a queue whose entries cannot be written; the topic's other queues may be writable."""
    if queue.fault is not None:
        raise RequestError(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            f"queue {queue.queue_id} of topic[{queue.topic}] cannot be written ({queue.fault}); "
            "send to another queue, or remove the cause on the disk of the broker",
        )


def _read_properties(text: str | None) -> dict[str, str]:
    properties = decode_properties((text or "").encode())
    properties.pop(keys_of.POP_CK, None)
    return properties


def _check_ranges(request: AnySend) -> None:
    """Raise RequestError for numbers that do not fit the 32-bit fields of a record."""
    for attribute, name in _RANGED:
        value = getattr(request, attribute)
        if value is not None and not -(1 << 31) <= value < 1 << 31:
            raise invalid_parameter(f"{name} {value} does not fit into 32 bits")
