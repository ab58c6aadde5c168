"""Request-reply: a message to a topic is answered by its consumer, and the reply returns to the requester.

    reply = await producer.request(Message("prices", b"AAPL"), timeout_ms=2000)

and in the listener of the other side:

    await producer.reply(message, b"187.20")

The requester does not consume a queue for the reply: a broker pushes the reply over the requester's connection
(PUSH_REPLY_MESSAGE_TO_CLIENT). Follows RequestResponseFuture and MessageUtil of RocketMQ 5.3.3.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping

from cometmq.client.connection.instance import ClientInstance
from cometmq.client.results import SendResult
from cometmq.codec.compression import decompress, plain_flag
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.send import PushReply
from cometmq.codec.properties import decode_properties
from cometmq.codec.remoting import Command
from cometmq.model import properties as keys_of
from cometmq.model.errors import ClientClosed, CodecError, MessageError, RequestTimeout
from cometmq.model.message import Message, StoredMessage, message_name
from cometmq.model.names import REPLY_TOPIC_SUFFIX
from cometmq.model.queue import MessageQueue
from cometmq.model.text import printable
from cometmq.net.answer import Answer
from cometmq.net.channel import Channel

_log = logging.getLogger(__name__)

REPLY_TYPE = "reply"  # MSG_TYPE of replies (MixAll.REPLY_MESSAGE_FLAG).
# Maximum size of a decompressed reply, bytes: the replying client is not trusted.
_BODY_SIZE_MAX = 64 * 1024 * 1024


class OpenRequests:
    """The requests of one producer that still wait for a reply."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._replies: dict[str, asyncio.Future[StoredMessage]] = {}

    def begin(self, timeout_ms: int) -> "OpenRequest":
        """Create a request that waits for a reply; send its message with the result's `properties`; `timeout_ms` is the TTL."""
        number = uuid.UUID(int=self._instance.chance.getrandbits(128), version=4)
        return OpenRequest(self._replies, str(number), self._instance.client_id, timeout_ms)

    def close(self) -> None:
        """Fail all waiting requests with ClientClosed."""
        while self._replies:
            number, reply = self._replies.popitem()
            if not reply.done():
                reply.set_exception(
                    ClientClosed(
                        f"the producer was closed before the reply to request {number} arrived"
                    )
                )

    def take(self, command: Command, channel: Channel) -> bool:
        """Pass a pushed reply (PUSH_REPLY_MESSAGE_TO_CLIENT 326) to its request; return False if none waits for it.

        Raises CodecError if the reply is malformed.
        """
        header = decode_fields(PushReply, command.fields)
        properties = decode_properties((header.properties or "").encode())
        number = properties.get(keys_of.CORRELATION_ID, "")
        reply = self._replies.get(number)
        if reply is None:
            _log.info("The reply %.100s arrived after its request had ended", printable(number))
            return False
        del self._replies[number]
        now_ms = self._instance.clock.now_ms()
        try:
            # Only now, so that a reply that no request waits for is not decompressed.
            message = read_reply(header, properties, command.body, arrived_ms=now_ms)
        except CodecError as error:
            if not reply.done():
                reply.set_exception(CodecError(f"the reply to the request {number}: {error}"))
            raise
        if not reply.done():
            reply.set_result(message)
        channel.answer(command, Answer())
        return True


class OpenRequest:
    """A request that waits for its reply.

    Attributes:
        properties: System properties that the message must have, so that the reply can be routed back.
    """

    def __init__(
        self,
        replies: dict[str, asyncio.Future[StoredMessage]],
        number: str,
        client_id: str,
        timeout_ms: int,
    ) -> None:
        self.properties = {
            keys_of.CORRELATION_ID: number,
            keys_of.REPLY_TO_CLIENT: client_id,
            keys_of.TTL: str(timeout_ms),
        }
        self._number = number
        self._replies = replies
        self._reply: asyncio.Future[StoredMessage] = asyncio.get_running_loop().create_future()
        replies[number] = self._reply

    async def wait(
        self, send: Callable[[], asyncio.Future[SendResult]], timeout_ms: float
    ) -> StoredMessage:
        """Call `send`, which sends the message of the request, wait for the reply and return it.

        Raises:
            RequestTimeout: No reply arrived within `timeout_ms`.
            ClientClosed: The producer was closed meanwhile.
            CodecError: The reply is malformed.
            CometError: The error of the send, if it fails before the reply arrives.
        """
        try:
            sent = send()
            # The reply may arrive before the broker's answer, which is then ignored.
            sent.add_done_callback(lambda done: done.cancelled() or done.exception())
            async with asyncio.timeout(timeout_ms / 1000):
                await asyncio.wait((sent, self._reply), return_when=asyncio.FIRST_COMPLETED)
                if not self._reply.done():
                    await sent
                return await self._reply
        except TimeoutError:
            raise RequestTimeout(
                f"no reply to request {self._number} within {timeout_ms:.0f} ms; does a "
                "consumer of its topic reply to it?"
            ) from None
        finally:
            self._replies.pop(self._number, None)


def make_reply(
    request: StoredMessage, body: bytes, properties: Mapping[str, str]
) -> tuple[Message, dict[str, str]]:
    """Return the reply to a request and its system properties; MessageError if it wants none or the reply is invalid."""
    asked = request.properties
    cluster = asked.get(keys_of.CLUSTER)
    if not cluster or keys_of.REPLY_TO_CLIENT not in asked:
        raise MessageError(
            f"{message_name(request)} asks for no reply: it has no property {keys_of.REPLY_TO_CLIENT} or "
            f"{keys_of.CLUSTER}; was it sent with request()?"
        )
    names = (keys_of.CORRELATION_ID, keys_of.REPLY_TO_CLIENT, keys_of.TTL)
    back = {name: asked[name] for name in names if name in asked}
    message = Message(f"{cluster}_{REPLY_TOPIC_SUFFIX}", body, properties=properties)
    return message, {keys_of.MSG_TYPE: REPLY_TYPE, **back}


def read_reply(
    header: PushReply, properties: dict[str, str], body: bytes, *, arrived_ms: int
) -> StoredMessage:
    """Return the reply in PUSH_REPLY_MESSAGE_TO_CLIENT, decompressed; CodecError if this fails or exceeds 64 MiB."""
    properties = {**properties, keys_of.REPLY_ARRIVE_TIME: str(arrived_ms)}
    if header.sys_flag:
        body = decompress(body, header.sys_flag, limit=_BODY_SIZE_MAX)
    return StoredMessage(
        queue=MessageQueue(header.topic, "", header.queue_id),
        queue_offset=0,
        message_id=properties.get(keys_of.UNIQ_KEY, ""),
        offset_message_id="",
        body=body,
        properties=properties,
        born_ms=header.born_timestamp,
        born_host=header.born_host,
        stored_ms=header.store_timestamp,
        store_host=header.store_host,
        flag=header.flag,
        sys_flag=plain_flag(header.sys_flag),
        reconsume_times=header.reconsume_times or 0,
    )
