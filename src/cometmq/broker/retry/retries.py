"""Retries of messages that a consumer sends back; after the last one the message becomes a dead letter.

The consumer names a record; the broker reads it and stores it for the group's retry topic, at the delay level that the
consumer chooses (0: 3 + number of retries so far). After the last retry, at a negative level, or if the group has no
retry queues, it is stored in the dead-letter topic. Messages whose requests were read together share a write. Follows
AbstractSendMessageProcessor.consumerSendMsgBack of 5.3.3.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cometmq.broker.delay.levels import DelayLevelTable
from cometmq.broker.inner.puts import InnerMessage, in_parts
from cometmq.broker.inner.redelivery import (
    is_of_deleted_topic,
    named_record,
    once_more,
    topic_of,
)
from cometmq.broker.parts import Parts
from cometmq.broker.tables.saving import saved
from cometmq.codec.headers.send import SendBackRequest
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.record import Record
from cometmq.model import properties as keys_of
from cometmq.model.codes import VERSION_OWN_RETRIES, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.flags import PERM_READ_WRITE, TOPIC_UNIT_SUB, is_writable
from cometmq.model.group import GroupConfig
from cometmq.model.names import check_length, dead_letter_topic, retry_topic
from cometmq.model.topic import TopicConfig
from cometmq.steps.prepared import stored_alone
from cometmq.steps.steps import Steps
from cometmq.store.appender import PutResult

_FIRST_LEVEL = 3  # Delay level of the first retry: 10 s.
_DEAD_LETTER_QUEUES = 1  # DLQ_NUMS_PER_GROUP


@dataclass(slots=True, eq=False)
class ReturnedMessage:
    """A message that a consumer sent back, with the message to store for it.

    Attributes:
        group: Name of the group that sent it back.
        message: The message to store; None if the topic was deleted, so that nothing is stored.
        is_dead: Whether it becomes a dead letter.
        error: Why it was not stored, or its new topic could not be saved.
    """

    group: str
    message: InnerMessage | None = None
    is_dead: bool = False
    error: Exception | None = None

    @property
    def is_stored(self) -> bool:
        """Whether a message is to be stored (`Prepared`)."""
        return self.message is not None


class Retries:
    """Stores messages that consumers send back, for a retry or as dead letters."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._levels = DelayLevelTable(parts.store.settings.delay_levels_ms, parts.topics)

    def give_back(
        self, request: SendBackRequest, *, version: int, may: Callable[[str], bool]
    ) -> Steps[None]:
        """Store one message again; see `prepare`.

        Raises:
            RequestError: The message is refused, or its new topic could not be saved; its code has the reason.
            StoreError, CodecError, OSError: It could not be read or stored, or its flush is late or failed.
        """
        yield from stored_alone(self.prepare(request, version=version, may=may), self.store)

    def prepare(
        self,
        request: SendBackRequest,
        *,
        version: int,
        may: Callable[[str], bool],
    ) -> Steps[ReturnedMessage]:
        """Read a message; return the retry or dead letter to `store` at once, without `message` if its topic is deleted.

        Args:
            request: The record (by its offset in the log), the group and the wanted retry.
            version: The client's version, as in `Client.version`; only newer clients may choose the number of retries.
            may: Returns whether the client may consume a topic; applied to the record's topic, or its destination if it waits.

        Raises:
            RequestError: The message is refused; its code has the reason.
            CodecError, OSError: It could not be read.
        """
        group = self._group_of(request)
        tries_max = group.retry_max_times
        if version >= VERSION_OWN_RETRIES and request.max_reconsume_times is not None:
            tries_max = request.max_reconsume_times
        if group.retry_queues <= 0:
            # Differs: RocketMQ answers success and drops the message.
            tries_max = 0
        named = yield from named_record(self._parts.store, request.offset)
        if named is None or not may(topic_of(named[1])):
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {request.offset}"
            )
        _, record = named
        properties = record.properties()
        returned = ReturnedMessage(group.name)
        if is_of_deleted_topic(record, properties, self._parts.topics):
            return returned
        returned.is_dead = record.reconsume_times >= tries_max or request.delay_level < 0
        _mark(properties, record)
        # No step waits from here to the put, so the drawn queue exists.
        sys_flag = TOPIC_UNIT_SUB if request.unit_mode else 0
        topic = self._topic(retry_topic(group.name), group.retry_queues, sys_flag)
        if returned.is_dead:
            returned.message = self._dead_letter(record, properties, group.name)
        else:
            level = request.delay_level or _FIRST_LEVEL + record.reconsume_times
            returned.message = self._retry(record, properties, topic, level)
        return returned

    def _group_of(self, request: SendBackRequest) -> GroupConfig:
        settings = self._parts.settings
        group = self._parts.groups.get(request.group)
        if group is None:
            raise RequestError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group not exist, {request.group}",
            )
        if not is_writable(settings.perm):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the broker[{settings.broker_name}] sending message is forbidden",
            )
        return group

    def store(self, returned: Sequence[ReturnedMessage]) -> Steps[None]:
        """Store prepared messages with one write, set the `error` of those that fail; wait for the flush.

        Raises:
            StoreError: The flush is late or failed.
        """
        made = [each for each in returned if each.message is not None]
        stored: list[PutResult] = []
        for part, outcome in in_parts(self._put, made) if made else ():
            for each in part:
                if isinstance(outcome, list):
                    self._count(each)
                else:
                    each.error = outcome
            stored = outcome if isinstance(outcome, list) else stored
        for each in made:
            saving = self._parts.topics.saving_of(_kept_in(each))
            if saving is not None and each.error is None:
                try:
                    yield from saved(saving)
                except RequestError as error:
                    each.error = error
        yield from self._parts.inner.durable(stored)

    def _put(self, returned: Sequence[ReturnedMessage]) -> list[PutResult]:
        messages = [each.message for each in returned if each.message is not None]
        return self._parts.inner.put(*messages)

    def _count(self, returned: ReturnedMessage) -> None:
        assert returned.message is not None, "it was stored"
        origin = returned.message.properties[keys_of.RETRY_TOPIC]
        self._parts.counters.sent_back.of(origin, returned.group).add(1, 0, 0)
        if returned.is_dead:
            self._parts.counters.dead.of(origin, returned.group).add(1, 0, 0)

    def _topic(self, name: str, queues: int, sys_flag: int = 0) -> TopicConfig:
        if self._parts.topics.get(name) is None:
            # Follows RocketMQ: its store would refuse the name with MESSAGE_ILLEGAL, but the answer has this code.
            check_length(name, code=ResponseCode.SYSTEM_ERROR)
        topic = self._parts.topics.ensure(
            name, queues=queues, perm=PERM_READ_WRITE, sys_flag=sys_flag
        )
        if not is_writable(topic.perm):
            raise RequestError(
                ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden"
            )
        return topic

    def _retry(
        self, record: Record, properties: dict[str, str], topic: TopicConfig, level: int
    ) -> InnerMessage:
        queue_id = self._parts.chance.randrange(topic.shared_queues)
        place = self._levels.place(level, topic.name, queue_id, properties)
        times = record.reconsume_times + 1
        return once_more(record, *place, reconsume_times=times, is_due_coded=True)

    def _dead_letter(
        self, record: Record, properties: dict[str, str], group: str
    ) -> InnerMessage:
        topic = self._topic(dead_letter_topic(group), _DEAD_LETTER_QUEUES)
        properties[keys_of.DELAY] = "0"
        return once_more(
            record, topic, 0, properties, reconsume_times=record.reconsume_times + 1
        )


def _kept_in(returned: ReturnedMessage) -> str:
    """Return the topic that must be on disk with a message: that of its group's retries or dead letters."""
    return (dead_letter_topic if returned.is_dead else retry_topic)(returned.group)


def _mark(properties: dict[str, str], record: Record) -> None:
    """Add WAIT=false to the properties of a record, and the original topic and message id unless it has them."""
    properties.setdefault(keys_of.RETRY_TOPIC, record.topic)
    properties[keys_of.WAIT] = "false"
    if not properties.get(keys_of.ORIGIN_MESSAGE_ID):
        properties[keys_of.ORIGIN_MESSAGE_ID] = encode_message_id(
            record.store_host, record.physical_offset
        )
