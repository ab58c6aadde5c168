"""Replies to requests that are messages: they go straight to the client that asked.

    asker --(10/310: a message with CORRELATION_ID, REPLY_TO_CLIENT, TTL)--> broker --> responder
    asker <--(326)-- broker <--(324/325: the reply)-- responder

The asker's id stands in the reply's REPLY_TO_CLIENT; it is connected here as a producer, since it
greets all brokers before it asks. Unless storeReplyMessageEnable=false the reply is stored, too
(`<cluster>_REPLY_TOPIC`, for those who look into it later). Follows ReplyMessageProcessor of
RocketMQ 5.3.3.

Next: cometmq.broker.members
"""

import logging
from collections.abc import Awaitable

from cometmq.broker.inner_puts import InnerMessage
from cometmq.broker.parts import Feature, Parts
from cometmq.codec.fields import decode_fields, encode_fields
from cometmq.codec.headers.reply import PushReply
from cometmq.codec.headers.send import SendRequest, SendRequestV2
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.properties import decode_properties, encode_properties
from cometmq.codec.remoting import Command
from cometmq.model import properties as keys_of
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import ConnectionLost, RequestError, RequestTimeout, StoreError
from cometmq.model.flags import is_writable
from cometmq.model.topic import TopicConfig
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer

_log = logging.getLogger(__name__)
_NOT_STORED_ID = "0"  # What Java answers in place of a message id.

AnySend = SendRequest | SendRequestV2


class Replies(Feature):
    """Handles SEND_REPLY_MESSAGE 324 and SEND_REPLY_MESSAGE_V2 325."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.answers = {
            RequestCode.SEND_REPLY_MESSAGE: self.reply,
            RequestCode.SEND_REPLY_MESSAGE_V2: self.reply,
        }

    def reply(self, command: Command, peer: Peer) -> Awaitable[Answer]:
        """Pass a reply on; the answer comes when its reader has it."""
        is_long_form = command.code == RequestCode.SEND_REPLY_MESSAGE
        header: type[AnySend] = SendRequest if is_long_form else SendRequestV2
        request: AnySend = decode_fields(header, command.fields)
        topic = self._topic_of(request)
        if len(command.body) > self._parts.settings.body_size_max:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"a reply of {len(command.body)} bytes exceeds "
                f"{self._parts.settings.body_size_max} (maxMessageSize)",
            )
        return self._reply(command.body, request, topic, peer)

    def _topic_of(self, request: AnySend) -> TopicConfig:
        topic = self._parts.topics.get(request.topic)
        if topic is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{request.topic}] not exist, apply first please!",
            )
        if not is_writable(topic.perm):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the topic[{request.topic}] sending message is forbidden",
            )
        if request.queue_id >= topic.write_queues:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"request queueId[{request.queue_id}] is illegal, topic[{topic.name}] has "
                f"{topic.write_queues} write queues",
            )
        return topic

    async def _reply(
        self, body: bytes, request: AnySend, topic: TopicConfig, peer: Peer
    ) -> Answer:
        settings = self._parts.settings
        properties = decode_properties((request.properties or "").encode())
        fault = await self._push(body, request, properties, peer)
        fields = {
            "MSG_REGION": settings.region_id,
            "TRACE_ON": "true" if settings.is_trace_on else "false",
        }
        if fault is not None:
            _log.warning("a reply of %s was not delivered: %s", peer.address, fault)
            return Answer(ResponseCode.SYSTEM_ERROR, fault, fields)
        queue_id = max(request.queue_id, 0)
        fields |= {"msgId": _NOT_STORED_ID, "queueId": str(queue_id), "queueOffset": "0"}
        if settings.is_reply_stored:
            fields |= self._store(body, request, properties, topic, queue_id, peer)
        return Answer(fields=fields)

    async def _push(
        self, body: bytes, request: AnySend, properties: dict[str, str], peer: Peer
    ) -> str | None:
        """Give the reply to its reader; what went wrong, or None."""
        client_id = properties.get(keys_of.REPLY_TO_CLIENT)
        if client_id is None:
            return f"reply message properties[{keys_of.REPLY_TO_CLIENT}] is null"
        reader = self._parts.members.producer(client_id)
        if reader is None:
            return f"push reply message fail, channel of <{client_id}> not found."
        now_ms = self._parts.clock.now_ms()
        properties[keys_of.PUSH_REPLY_TIME] = str(now_ms)
        header = PushReply(
            producer_group=request.producer_group,
            topic=request.topic,
            default_topic=request.default_topic,
            default_topic_queue_nums=request.default_topic_queue_nums,
            queue_id=request.queue_id,
            sys_flag=request.sys_flag,
            born_timestamp=request.born_timestamp,
            flag=request.flag,
            properties=encode_properties(properties).decode(),
            reconsume_times=request.reconsume_times,
            unit_mode=request.unit_mode,
            born_host=peer.address,
            store_host=self._parts.address,
            store_timestamp=now_ms,
        )
        try:
            answer = await reader.peer.call(
                RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, encode_fields(header), body
            )
        except (ConnectionLost, RequestTimeout) as error:
            return f"push reply message to {client_id} fail: {error}"
        if answer.code:
            return f"push reply message to {client_id} fail: {answer.remark or answer.code}"
        return None

    def _store(
        self,
        body: bytes,
        request: AnySend,
        properties: dict[str, str],
        topic: TopicConfig,
        queue_id: int,
        peer: Peer,
    ) -> dict[str, str]:
        message = InnerMessage(
            topic,
            queue_id,
            body,
            properties,
            request.born_timestamp,
            peer.host,
            request.flag,
            request.sys_flag,
            request.reconsume_times or 0,
        )
        try:
            ((queue_offset, physical_offset, _),) = self._parts.inner.put(message)
        except StoreError as error:
            # Its reader has it; that it is not kept besides is no failure of the reply.
            _log.warning("a reply was not stored: %s", error)
            return {}
        message_id = encode_message_id(self._parts.store.store_host, physical_offset)
        return {"msgId": message_id, "queueOffset": str(queue_offset)}
