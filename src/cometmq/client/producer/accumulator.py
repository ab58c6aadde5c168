"""Automatic batching: combines concurrent sends of small messages to a topic into one request.

A message waits for others at most `batch_delay_ms` (with 0: until the next iteration of the event loop), and a batch is
sent as soon as it has about `batch_bytes`. Each caller gets the result of its own message. Drawbacks, as in RocketMQ: all
messages of a batch are stored in one queue, and a broker overwrites their ids with the batch's id. Follows
ProduceAccumulator of RocketMQ 5.3.3.
"""

import asyncio
from collections.abc import Sequence

from cometmq.client.producer.encoded_send import SendEncoder
from cometmq.client.producer.sender import EncodedSender
from cometmq.client.results import SendResult
from cometmq.client.settings import ProducerSettings
from cometmq.model.message import Message

# SendResult(...) calls a Python-level __new__, which takes three times as long.
_result = tuple.__new__

Key = tuple[str, bool, int | None]
_ITEM_SIZE = 128  # Approximate size of a message in a batch in addition to its body, bytes.


class Accumulator:
    """The incomplete batches of one producer, each sent after `batch_delay_ms`, or when it has about `batch_bytes`."""

    def __init__(
        self, encoder: SendEncoder, sender: EncodedSender, settings: ProducerSettings
    ) -> None:
        self._encoder = encoder
        self._sender = sender
        self._loop = asyncio.get_running_loop()
        self._delay_seconds = settings.batch_delay_ms / 1000
        self._size_max = settings.batch_bytes
        self._alone_over = min(settings.batch_bytes // 2, settings.compress_over)
        self._filling: dict[Key, _Accumulation] = {}
        self._under_way: set[asyncio.Future[SendResult]] = set()

    def takes(self, message: Message) -> bool:
        """Return whether a message may be part of a batch: not if large, delayed or for a topic that begins with %."""
        return not (
            len(message.body) > self._alone_over
            or message.delay_level
            or message.deliver is not None
            or message.topic[:1] == "%"  # A retry topic or another system topic.
        )

    def send(self, message: Message, timeout_ms: int | None) -> asyncio.Future[SendResult]:
        """Add a message to the batch of its topic, `wait_store_ok` and timeout; return the future of its own result."""
        key = (message.topic, message.wait_store_ok, timeout_ms)
        batch = self._filling.get(key)
        if batch is None:
            batch = self._filling[key] = _Accumulation()
            if self._delay_seconds:
                self._loop.call_later(self._delay_seconds, self._due, key, batch)
            else:
                self._loop.call_soon(self._due, key, batch)
        result: asyncio.Future[SendResult] = self._loop.create_future()
        batch.messages.append(message)
        batch.results.append(result)
        batch.size += len(message.body) + _ITEM_SIZE
        if batch.size >= self._size_max:
            self._due(key, batch)
        return result

    def _due(self, key: Key, batch: "_Accumulation") -> None:
        if self._filling.get(key) is not batch:
            return  # It was sent when it was full.
        del self._filling[key]
        _, _, timeout_ms = key
        messages = batch.messages
        pack = self._encoder
        try:
            encoded = (
                pack.pack(messages[0]) if len(messages) == 1 else pack.pack_batch(messages)
            )
        except Exception as error:  # noqa: BLE001  The callers get any error.
            batch.fail(error)
            return
        send = self._sender.start(encoded, None, timeout_ms)
        self._under_way.add(send)
        send.add_done_callback(self._under_way.discard)
        send.add_done_callback(batch.settle)

    async def close(self) -> None:
        """Send the incomplete batches and wait until all batches under way have a result or an error."""
        for key, batch in list(self._filling.items()):
            self._due(key, batch)
        await asyncio.gather(*self._under_way, return_exceptions=True)


class _Accumulation:
    """A batch that is being filled: messages and the futures of their results."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.results: list[asyncio.Future[SendResult]] = []
        self.size = 0

    def settle(self, send: asyncio.Future[SendResult]) -> None:
        error = send.exception()
        if error is not None:
            self.fail(error)
            return
        for result, own in zip(
            self.results, split_result(send.result(), len(self.messages)), strict=True
        ):
            if not result.done():
                result.set_result(own)

    def fail(self, error: BaseException) -> None:
        for result in self.results:
            if not result.done():
                result.set_exception(error)


def split_result(result: SendResult, count: int) -> Sequence[SendResult]:
    """Return the results of the `count` messages of a batch, each with its own message id and queue offset."""
    if count == 1:
        return [result]
    message_ids = result.message_id.split(",")
    offset_ids = result.offset_message_id.split(",")
    if len(offset_ids) != count:  # The broker stores the batch as one record.
        offset_ids = [result.offset_message_id] * count
    status, _, _, queue, first_offset, *rest = result
    return [
        _result(SendResult, (status, message_id, offset_id, queue, first_offset + place, *rest))
        for place, (message_id, offset_id) in enumerate(
            zip(message_ids, offset_ids, strict=True)
        )
    ]
