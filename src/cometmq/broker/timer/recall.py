"""Recalls a timed message by storing a second message for the same slot of the wheel.

The second one has the property TIMER_DEL_UNIQKEY; if the wheel finds both in the slot, it delivers neither. Follows
RecallMessageProcessor of RocketMQ 5.3.3; off unless recallMessageEnable.
"""

from typing import NamedTuple

from cometmq.broker.inner.puts import InnerMessage
from cometmq.broker.inner.reroute import RoutedSend
from cometmq.broker.parts import Parts
from cometmq.broker.timer.times import TimedSends, delete_key
from cometmq.codec.headers.send import RecallRequest
from cometmq.codec.recall_handle import RecallHandle, decode_recall_handle
from cometmq.model import properties as keys_of
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import CodecError, RequestError
from cometmq.model.flags import is_writable
from cometmq.model.numbers import whole_number
from cometmq.model.topic import TopicConfig
from cometmq.steps.steps import Steps

_TAG = "_RECALL_TAG_"
_BODY = b"0"


class RecallResult(NamedTuple):
    """The unique key of a recalled message, and the region of this broker as in the answers to sends."""

    unique_key: str
    region: str


class Recall:
    """The service for recalls, which cancel a timed message by its handle."""

    def __init__(self, parts: Parts, times: TimedSends) -> None:
        """`times` reroutes the message that recalls another one to the timer's topic."""
        self._parts = parts
        self._times = times

    def recall(self, request: RecallRequest, born_host: bytes) -> Steps[RecallResult]:
        """Recall a message; done when the recall is flushed as a send would be. `born_host` is the client's host in bytes.

        Whether the message still waits is not checked.

        Raises:
            RequestError: The message cannot be recalled; the code says why.
            StoreError, CodecError: The second message was not stored, or (StoreError) its flush is late or failed.
        """
        self._check_allowed()
        topic = self._parts.topics.get(request.topic)
        if topic is None:
            raise RequestError(
                ResponseCode.TOPIC_NOT_EXIST,
                f"recall failed, the topic[{request.topic}] not exist",
            )
        handle = self._handle(request)
        message = self._message(topic, handle, request, born_host)
        yield from self._parts.inner.durable(self._parts.inner.put(message))
        return RecallResult(handle.unique_key, self._parts.settings.region_id)

    def _check_allowed(self) -> None:
        settings = self._parts.settings
        if not settings.is_recall_on:
            raise RequestError(
                ResponseCode.NO_PERMISSION,
                "recall failed, operation is forbidden (recallMessageEnable)",
            )
        is_early = self._parts.clock.now_ms() < settings.accept_sends_from_ms
        if is_early or not is_writable(settings.perm):
            raise RequestError(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "recall failed, broker service not available",
            )

    def _handle(self, request: RecallRequest) -> RecallHandle:
        """Decode a handle; RequestError unless it is of this topic and broker and due within timerMaxDelaySec."""
        settings = self._parts.settings
        try:
            handle = decode_recall_handle(request.recall_handle)
        except CodecError as error:
            raise RequestError(ResponseCode.ILLEGAL_OPERATION, str(error)) from None
        if handle.topic != request.topic:
            raise RequestError(ResponseCode.ILLEGAL_OPERATION, "recall failed, topic not match")
        if handle.broker_name != settings.broker_name:
            raise RequestError(
                ResponseCode.ILLEGAL_OPERATION, "recall failed, broker service not available"
            )
        left_ms = (whole_number(handle.time_ms) or 0) - self._parts.clock.now_ms()
        if not 0 < left_ms < settings.timer_max_delay_seconds * 1000:
            raise RequestError(
                ResponseCode.ILLEGAL_OPERATION, "recall failed, timestamp invalid"
            )
        return handle

    def _message(
        self, topic: TopicConfig, handle: RecallHandle, request: RecallRequest, born_host: bytes
    ) -> InnerMessage:
        now_ms = self._parts.clock.now_ms()
        properties = {
            keys_of.TAGS: _TAG,
            keys_of.TIMER_DEL_UNIQKEY: delete_key(handle.topic, handle.unique_key),
            keys_of.UNIQ_KEY: handle.unique_key,
            keys_of.TIMER_DELIVER_MS: handle.time_ms,
            keys_of.BORN_TIMESTAMP: str(now_ms),
        }
        if request.producer_group:
            properties[keys_of.PRODUCER_GROUP] = request.producer_group
        sent = self._times.reroute(RoutedSend(topic, 0, properties, 0, topic.name))
        return InnerMessage(
            topic=sent.topic,
            queue_id=sent.queue_id,
            body=_BODY,
            properties=sent.properties,
            born_ms=now_ms,
            born_host=born_host,
        )
