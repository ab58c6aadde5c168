"""Request-reply: delivers a reply directly to the client that sent the request.

 requester --(10/310: a message with CORRELATION_ID, REPLY_TO_CLIENT, TTL)--> broker --> responder
 requester <--(326)-- broker <--(324/325: the reply)-- responder

The reply's REPLY_TO_CLIENT has the requester's client id. The requester is normally connected here as a producer,
because it sends heartbeats to all brokers before. Unless storeReplyMessageEnable=false a delivered reply is also stored
in its topic, normally `<cluster>_REPLY_TOPIC`, for inspection. Follows ReplyMessageProcessor of RocketMQ 5.3.3.
"""

import logging
from typing import NamedTuple

from cometmq.broker.inner.puts import InnerMessage
from cometmq.broker.parts import Parts
from cometmq.broker.send.admission import FLAGS_OF_BROKERS, AnySend, Sender
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.send import PushReply
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.properties import decode_properties, encode_properties
from cometmq.model import properties as keys_of
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import (
    ConnectionLost,
    RequestError,
    RequestTimeout,
    StoreError,
    invalid_parameter,
)
from cometmq.model.flags import TRANSACTION_MASK, is_writable
from cometmq.model.names import check_sendable
from cometmq.model.topic import TopicConfig
from cometmq.steps.steps import Steps

_log = logging.getLogger(__name__)
_NOT_STORED_ID = "0"  # Java's answer instead of a message id.


class ReplyResult(NamedTuple):
    """The result of a reply.

    Attributes:
        fault: Why the delivery failed; None if the requester has accepted the reply.
        queue_id: Queue id of the reply; 0 if that is negative or the delivery failed.
        message_id: Offset message id of the stored reply; "0" if it was not stored.
        queue_offset: Queue offset of the stored reply; 0 if it was not stored.
    """

    fault: str | None
    queue_id: int = 0
    message_id: str = _NOT_STORED_ID
    queue_offset: int = 0


class Replies:
    """The delivery of replies to the clients that sent the requests."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def reply(self, request: AnySend, body: bytes, sender: Sender) -> Steps[ReplyResult]:
        """Deliver a reply and, unless that fails or storeReplyMessageEnable=false, try to store it; return the result.

        Raises:
            RequestError, CodecError: The reply is refused, or the requester's answer cannot be decoded.
        """
        topic = self._topic_of(request)
        if len(body) > self._parts.settings.body_size_max:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the reply has {len(body)} bytes; at most {self._parts.settings.body_size_max} are allowed "
                "(maxMessageSize)",
            )
        return self._reply(body, request, topic, sender)

    def _topic_of(self, request: AnySend) -> TopicConfig:
        check_sendable(request.topic)
        topic = self._parts.topics.existing(request.topic)
        if not is_writable(topic.perm):
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                f"the topic[{request.topic}] sending message is forbidden",
            )
        if request.queue_id >= topic.write_queues:
            raise invalid_parameter(
                f"request queueId[{request.queue_id}] is illegal, topic[{topic.name}] has "
                f"{topic.write_queues} write queues"
            )
        return topic

    def _reply(
        self, body: bytes, request: AnySend, topic: TopicConfig, sender: Sender
    ) -> Steps[ReplyResult]:
        properties = decode_properties((request.properties or "").encode())
        fault = yield from self._push(body, request, properties, sender)
        if fault is not None:
            _log.warning("a reply from %s was not delivered: %s", sender.address, fault)
            return ReplyResult(fault)
        queue_id = max(request.queue_id, 0)
        if not self._parts.settings.is_reply_stored:
            return ReplyResult(None, queue_id)
        message = InnerMessage(
            topic,
            queue_id,
            body,
            properties,
            request.born_timestamp,
            sender.host,
            request.flag,
            request.sys_flag & ~FLAGS_OF_BROKERS & ~TRANSACTION_MASK,
            request.reconsume_times or 0,
        )
        return self._stored(message)

    def _push(
        self, body: bytes, request: AnySend, properties: dict[str, str], sender: Sender
    ) -> Steps[str | None]:
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
            born_host=sender.address,
            store_host=self._parts.address,
            store_timestamp=now_ms,
        )
        try:
            answer = yield from reader.peer.call(
                RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, encode_fields(header), body
            )
        except (ConnectionLost, RequestTimeout) as error:
            return f"push reply message to {client_id} fail: {error}"
        if answer.code:
            return f"push reply message to {client_id} fail: {answer.remark or answer.code}"
        return None

    def _stored(self, message: InnerMessage) -> ReplyResult:
        try:
            ((queue_offset, physical_offset, _),) = self._parts.inner.put(message)
        except StoreError as error:
            # The requester has it, so failing to store it does not fail the reply.
            _log.warning("a reply was delivered but cannot be stored: %s", error)
            return ReplyResult(None, message.queue_id)
        message_id = encode_message_id(self._parts.store.store_host, physical_offset)
        return ReplyResult(None, message.queue_id, message_id, queue_offset)
