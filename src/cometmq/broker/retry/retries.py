"""Retries of messages that a consumer sends back; after the last one the message becomes a dead letter.

The consumer names a record; the broker reads it and stores it for the group's retry topic, at the delay level that the
consumer chooses (0: 3 + number of retries so far). After the last retry, at a negative level, or if the group has no
retry queues, it goes to the dead-letter topic. Messages that are sent back in one loop iteration share a write. Follows
AbstractSendMessageProcessor.consumerSendMsgBack of 5.3.3.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cometmq.broker.delay.levels import DelayLevelTable
from cometmq.broker.inner.puts import InnerMessage, in_parts
from cometmq.broker.inner.redelivery import (
    dispatched_record,
    is_of_deleted_topic,
    once_more,
    topic_of,
)
from cometmq.broker.parts import Parts
from cometmq.broker.tables.saving import saved
from cometmq.codec.headers.send import SendBackRequest
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.record import Record, decode_record
from cometmq.model import properties as keys_of
from cometmq.model.codes import VERSION_OWN_RETRIES, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.flags import PERM_READ_WRITE, TOPIC_UNIT_SUB, is_writable
from cometmq.model.group import GroupConfig
from cometmq.model.names import check_length, dead_letter_topic, retry_topic
from cometmq.model.topic import TopicConfig
from cometmq.steps.steps import Steps, turn_end
from cometmq.store.appender import PutResult

_FIRST_LEVEL = 3  # Delay level of the first retry: 10 s.
_DEAD_LETTER_QUEUES = 1  # DLQ_NUMS_PER_GROUP


@dataclass(slots=True, eq=False)
class _Returned:
    """A message that was sent back and is being stored again.

    Attributes:
        topic: Its retry or dead-letter topic, once known.
        results: Where it was stored; empty if it was not, for example because its topic was deleted.
        error: Why it was not stored.
    """

    request: SendBackRequest
    group: GroupConfig
    record: Record
    tries_max: int
    is_dead: bool = False
    topic: str | None = None
    results: Sequence[PutResult] = ()
    error: Exception | None = None


class Retries:
    """Stores messages that consumers send back, for a retry or as dead letters."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._levels = DelayLevelTable(parts.store.settings.delay_levels_ms, parts.topics)
        self._waiting: list[_Returned] = []

    def give_back(
        self,
        request: SendBackRequest,
        *,
        version: int,
        may: Callable[[str], bool],
    ) -> Steps[None]:
        """Store a message again, for a retry or as a dead letter; one whose topic was deleted is dropped.

        Args:
            request: The record (by its offset in the log), the group and the wanted retry.
            version: The client's version, as in `Client.version`; only newer clients may choose the number of retries.
            may: Returns whether the client may consume a topic; applied to the record's topic, or its destination if it waits.

        Raises:
            RequestError: The message is refused, or its new topic could not be saved; the code says why.
            StoreError, CodecError, OSError: It could not be read or stored, or its flush is late or failed.
        """
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
        tries_max = group.retry_max_times
        if version >= VERSION_OWN_RETRIES and request.max_reconsume_times is not None:
            tries_max = request.max_reconsume_times
        if group.retry_queues <= 0:
            # Differs: RocketMQ answers success and drops the message.
            tries_max = 0
        return self._store_again(request, group, tries_max, may)

    def _store_again(
        self,
        request: SendBackRequest,
        group: GroupConfig,
        tries_max: int,
        may: Callable[[str], bool],
    ) -> Steps[None]:
        record = yield from self._read(request.offset)
        if not may(topic_of(record)):
            raise _no_record(request.offset)
        returned = _Returned(request, group, record, tries_max)
        self._waiting.append(returned)
        yield from turn_end()
        # The first to get here stores all that were sent back in this loop iteration.
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._store_all(waiting)
        if returned.error is not None:
            raise returned.error
        if returned.topic is not None:
            yield from saved(self._parts.topics.saving_of(returned.topic))
        yield from self._parts.inner.durable(returned.results)

    def _store_all(self, waiting: Sequence[_Returned]) -> None:
        """Store messages with one write, each for its retry or as a dead letter, and note the results."""
        made: list[tuple[_Returned, InnerMessage]] = []
        for returned in waiting:
            try:
                message = self._message(returned)
            except Exception as error:  # noqa: BLE001  Each caller raises its own; none may pass for stored.
                returned.error = error.with_traceback(None)
            else:
                if message is not None:
                    made.append((returned, message))
        for part, outcome in in_parts(self._put, made) if made else ():
            for number, (returned, message) in enumerate(part):
                if isinstance(outcome, list):
                    returned.results = outcome[number : number + 1]
                    self._count(message, returned.group.name, is_dead=returned.is_dead)
                else:
                    returned.error = outcome

    def _put(self, made: Sequence[tuple[_Returned, InnerMessage]]) -> list[PutResult]:
        return self._parts.inner.put(*[message for _, message in made])

    def _message(self, returned: _Returned) -> InnerMessage | None:
        """Return the message to store, and note its topic; None for a record or retry of a deleted topic."""
        request, group, record, tries_max = (
            returned.request, returned.group, returned.record, returned.tries_max
        )  # fmt: skip
        if is_of_deleted_topic(record, record.properties(), self._parts.topics):
            return None
        # No step waits from here to the put, so the drawn queue exists.
        sys_flag = TOPIC_UNIT_SUB if request.unit_mode else 0
        topic = self._topic(retry_topic(group.name), group.retry_queues, sys_flag)
        returned.is_dead = record.reconsume_times >= tries_max or request.delay_level < 0
        if returned.is_dead:
            topic = self._topic(dead_letter_topic(group.name), _DEAD_LETTER_QUEUES)
        returned.topic = topic.name
        if returned.is_dead:
            return self._dead_letter(record, topic)
        queue_id = self._parts.chance.randrange(topic.shared_queues)
        return self._retry(record, topic, queue_id, request)

    def _count(self, message: InnerMessage, group: str, *, is_dead: bool) -> None:
        origin = message.properties[keys_of.RETRY_TOPIC]
        self._parts.counters.sent_back.of(origin, group).add(1, 0, 0)
        if is_dead:
            self._parts.counters.dead.of(origin, group).add(1, 0, 0)

    def _topic(self, name: str, queues: int, sys_flag: int = 0) -> TopicConfig:
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

    def _read(self, physical_offset: int) -> Steps[Record]:
        content = yield from dispatched_record(self._parts.store, physical_offset)
        if content is None:
            raise _no_record(physical_offset)
        return decode_record(content)

    def _retry(
        self, record: Record, topic: TopicConfig, queue_id: int, request: SendBackRequest
    ) -> InnerMessage:
        level = request.delay_level or _FIRST_LEVEL + record.reconsume_times
        place = self._levels.place(level, topic.name, queue_id, _marked(record))
        times = record.reconsume_times + 1
        return once_more(record, *place, reconsume_times=times, is_due_coded=True)

    def _dead_letter(self, record: Record, topic: TopicConfig) -> InnerMessage:
        properties = _marked(record)
        properties[keys_of.DELAY] = "0"
        return once_more(
            record, topic, 0, properties, reconsume_times=record.reconsume_times + 1
        )


def _no_record(physical_offset: int) -> RequestError:
    return RequestError(
        ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {physical_offset}"
    )


def _marked(record: Record) -> dict[str, str]:
    """Return the properties of a record with WAIT=false, and the original topic and message id unless it has them."""
    properties = record.properties()
    properties.setdefault(keys_of.RETRY_TOPIC, record.topic)
    properties[keys_of.WAIT] = "false"
    if not properties.get(keys_of.ORIGIN_MESSAGE_ID):
        properties[keys_of.ORIGIN_MESSAGE_ID] = encode_message_id(
            record.store_host, record.physical_offset
        )
    return properties
