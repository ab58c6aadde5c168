"""Messages that a consumer gives back: once more later, or into the dead letters.

CONSUMER_SEND_MSG_BACK 36 names a record; the broker reads it and puts it into the group's retry topic,
where it waits at delay level 3 + tries, or, after the last try, into the group's dead letters. Follows
AbstractSendMessageProcessor.consumerSendMsgBack of RocketMQ 5.3.3.

Next: cometmq.broker.delay.levels
"""

import asyncio
from collections.abc import Awaitable

from cometmq.broker.delay.levels import Levels
from cometmq.broker.inner_puts import InnerMessage
from cometmq.broker.parts import Feature, Parts
from cometmq.broker.redelivery import once_more
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.send_back import SendBackRequest
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.record import Record, decode_record
from cometmq.codec.remoting import Command
from cometmq.model import properties as keys_of
from cometmq.model.codes import VERSION_OWN_RETRIES, RequestCode, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.flags import PERM_READ_WRITE, TOPIC_UNIT_SUB, is_writable
from cometmq.model.group import GroupConfig
from cometmq.model.names import check_length, dead_letter_topic, retry_topic
from cometmq.model.topic import TopicConfig
from cometmq.net.answer import Answer
from cometmq.net.loop import loop_chance
from cometmq.net.peer import Peer

_FIRST_LEVEL = 3  # Where retries begin among the delay levels: the first waits 10 s.
_DEAD_LETTER_QUEUES = 1  # DLQ_NUMS_PER_GROUP


class Retries(Feature):
    """Answers CONSUMER_SEND_MSG_BACK."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._levels = Levels(parts.store.settings.delay_levels_ms, parts.topics)
        self._chance = loop_chance()  # Picks queues.
        self.answers = {RequestCode.CONSUMER_SEND_MSG_BACK: self._send_back}

    def _send_back(self, command: Command, _peer: Peer) -> Awaitable[Answer] | Answer:
        request = decode_fields(SendBackRequest, command.fields)
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
        if group.retry_queues <= 0:
            return Answer()  # Follows RocketMQ: the group wants no retries, and no word of it.
        tries_max = group.retry_max_times
        if command.version >= VERSION_OWN_RETRIES and request.max_reconsume_times is not None:
            tries_max = request.max_reconsume_times
        return self._give_back(request, group, tries_max)

    async def _give_back(
        self, request: SendBackRequest, group: GroupConfig, tries_max: int
    ) -> Answer:
        sys_flag = TOPIC_UNIT_SUB if request.unit_mode else 0
        retry = self._topic(retry_topic(group.name), group.retry_queues, sys_flag)
        record = await self._read(request.offset)
        if record.reconsume_times >= tries_max or request.delay_level < 0:
            dead = self._topic(dead_letter_topic(group.name), _DEAD_LETTER_QUEUES)
            name, message = dead.name, self._dead_letter(record, dead)
        else:
            queue_id = self._chance.randrange(group.retry_queues)
            name, message = retry.name, self._retry(record, retry, queue_id, request)
        results = self._parts.inner.put(message)
        saving = self._parts.topics.saving_of(name)
        if saving is not None:
            await asyncio.shield(saving)
        await self._parts.inner.flushed(results)
        return Answer()

    def _topic(self, name: str, queues: int, sys_flag: int = 0) -> TopicConfig:
        # Follows RocketMQ: what its store refuses as MESSAGE_ILLEGAL is answered with this code.
        check_length(name, code=ResponseCode.SYSTEM_ERROR)
        topic = self._parts.topics.ensure(
            name, queues=queues, perm=PERM_READ_WRITE, sys_flag=sys_flag
        )
        if not is_writable(topic.perm):
            raise RequestError(
                ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden"
            )
        return topic

    async def _read(self, physical_offset: int) -> Record:
        content = None
        store = self._parts.store
        # What is not visible yet nobody can have consumed.
        if store.min_offset <= physical_offset < store.dispatched_offset:
            loop = asyncio.get_running_loop()
            content = await loop.run_in_executor(
                self._parts.pool, store.read_record, physical_offset
            )
        if content is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {physical_offset}"
            )
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


def _marked(record: Record) -> dict[str, str]:
    """The properties of a record, and where the message was at first."""
    properties = record.properties()
    properties.setdefault(keys_of.RETRY_TOPIC, record.topic)
    properties[keys_of.WAIT] = "false"
    if not properties.get(keys_of.ORIGIN_MESSAGE_ID):
        properties[keys_of.ORIGIN_MESSAGE_ID] = encode_message_id(
            record.store_host, record.physical_offset
        )
    return properties
