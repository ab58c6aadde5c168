"""Storing of messages in an embedded broker without a client or a connection, by the code that stores a producer's."""

import asyncio
from collections.abc import Iterator, Sequence

from cometmq.broker.send.admission import AdmittedSend
from cometmq.broker.send.requests.answers import DURABILITY_CODES
from cometmq.broker.send.sends import Sends
from cometmq.broker.server import Broker
from cometmq.client.results import SEND_STATUSES, SendResult
from cometmq.codec.headers.send import SendRequestV2
from cometmq.codec.host import encode_host
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.properties import encode_properties
from cometmq.model.codes import RequestCode
from cometmq.model.errors import BrokerRefused
from cometmq.model.message import Message
from cometmq.model.queue import MessageQueue
from cometmq.net.answer import answer_to_error
from cometmq.net.loop import loop_clock
from cometmq.net.turn import COUNT_MAX, SIZE_MAX
from cometmq.store.appender import PutResult
from cometmq.store.positions import Durability

_GROUP = "embedded"  # The producer group, which no client has.
_ANY_QUEUE = -1
_CODE = int(RequestCode.SEND_MESSAGE_V2)  # The request that errors and the log name.

# A send, and the future of its result.
_Put = tuple[Message, AdmittedSend, "asyncio.Future[SendResult]"]


class LocalSends:
    """Sender of messages from this process to its embedded broker; receives their results as a `SendCaller`.

    Attributes:
        address: The broker's address, "ip:port".
        host: The same as bytes, in a record's format; it also stands for this process as the sender.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.address = broker.address
        self.host = encode_host(broker.address)

    async def put(self, messages: Sequence[Message]) -> list[SendResult]:
        """Store messages, at most 256 or about 1 MiB at a time; return their results in order once each has one.

        Raises BrokerRefused if a message is refused; earlier ones, and others put with it, may be stored.
        """
        results: list[SendResult] = []
        for part in _turns(messages):
            results += await asyncio.gather(*self._put(part))
        return results

    def _put(self, messages: list[Message]) -> "list[asyncio.Future[SendResult]]":
        loop, sends = asyncio.get_running_loop(), self._broker.role.sends
        try:
            admitted = [self._admit(message, sends) for message in messages]
        except Exception as error:  # noqa: BLE001  As net.dispatcher.run_handler.
            raise self._refused(error) from None
        ended = [loop.create_future() for _ in messages]
        for message, one, end in zip(messages, admitted, ended, strict=True):
            sends.put(one, (message, one, end), self)
        sends.store()
        sends.written()
        return ended

    def _admit(self, message: Message, sends: Sends) -> AdmittedSend:
        properties = encode_properties(message.stored_properties()).decode()
        request = SendRequestV2(
            _GROUP, message.topic, _ANY_QUEUE, 0, loop_clock().now_ms(), message.flag,
            properties=properties,
        )  # fmt: skip
        return sends.admission.admit(request, bytes(message.body), self)

    def _refused(self, error: BaseException) -> BrokerRefused:
        code, remark, _, _ = answer_to_error(error, _CODE)
        return BrokerRefused(code, remark or "", self.address)

    # --- the results

    def stored(
        self,
        sends: list[_Put],
        results: list[PutResult],
        durability: Durability,
        *,
        has_waited: bool,
    ) -> None:
        """Complete the futures of stored sends with their SendResults, for the calls of `put` that wait."""
        settings, status = self._broker.settings, SEND_STATUSES[DURABILITY_CODES[durability]]
        for (message, admitted, end), (queue_offset, physical_offset, _) in zip(
            sends, results, strict=True
        ):
            queue = MessageQueue(message.topic, settings.broker_name, admitted.queue_id)
            result = SendResult(
                status, admitted.transaction_id, encode_message_id(self.host, physical_offset),
                queue, queue_offset, admitted.transaction_id,
                settings.region_id, settings.is_trace_on, admitted.recall_handle,
            )  # fmt: skip
            if not end.done():
                end.set_result(result)

    def refused(self, sends: list[_Put], error: BaseException) -> None:
        """Fail the futures of refused sends with BrokerRefused, for the calls of `put` that wait."""
        for _, _, end in sends:
            if not end.done():
                end.set_exception(self._refused(error))


def _turns(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Yield the messages in lists, each ending at 256 messages, at 1 MiB of bodies or at the end; keeps the loop responsive."""
    part: list[Message] = []
    size = 0
    for message in messages:
        part.append(message)
        size += len(message.body)
        if len(part) == COUNT_MAX or size >= SIZE_MAX:
            yield part
            part, size = [], 0
    if part:
        yield part
