"""Sends the messages of gRPC calls to brokers with the client's sender, which chooses the queue and tries again."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from cometmq.client.connection.instance import ClientInstance
from cometmq.client.identity import make_unique_ids
from cometmq.client.producer.encoded_send import EncodedMessage, SendEncoder
from cometmq.client.producer.queue_selector import Pick
from cometmq.client.producer.sender import EncodedSender
from cometmq.client.results import SendResult, SendStatus
from cometmq.client.settings import ProducerSettings
from cometmq.codec.message_id import decode_message_id
from cometmq.model.errors import ClientClosed, CodecError, CometError
from cometmq.model.java_hash import java_hash
from cometmq.model.queue import MessageQueue
from cometmq.proxy.backend import SendEntry
from cometmq.proxy.cluster.waits import refusal_of
from cometmq.proxy.queue_choice import queue_of_group
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.sent_messages import SentMessage
from cometmq.proxy.v2.statuses import ProxyRefusal, status_of_durability
from cometmq.store.positions import Durability

_DURABILITIES = {
    SendStatus.OK: Durability.OK,
    SendStatus.FLUSH_DISK_TIMEOUT: Durability.DISK_LATE,
    SendStatus.FLUSH_SLAVE_TIMEOUT: Durability.REPLICA_LATE,
    SendStatus.SLAVE_NOT_AVAILABLE: Durability.NO_REPLICA,
}
# An answer is sent so long before the deadline of its call, at least; a send without a deadline has the second time.
_HEADROOM_SECONDS = 0.2
_SECONDS_MAX = 3.0


class ClusterSends:
    """The sends of all clients, limited together in number and bytes."""

    def __init__(self, instance: ClientInstance, group: str, body_size_max: int) -> None:
        """`group` is the producer group of the requests; brokers ask the one in a message's properties about it."""
        settings = ProducerSettings(body_size_max=body_size_max)
        ids = make_unique_ids(instance.ip, instance.clock, instance.chance)
        self._clock = instance.clock
        self._encoder = SendEncoder(group, settings, instance.clock, ids)
        self._sender = EncodedSender(instance, settings)

    def put(self, sent: SentMessage, topic: str, entry: SendEntry) -> None:
        """Send a message; `entry` gets the result. Raise ProxyRefusal (TOO_MANY_REQUESTS) if too many are in flight."""
        if min(self._sender.room) <= 0:
            raise ProxyRefusal(pb.TOO_MANY_REQUESTS, "flow limit")
        text = "".join([f"{name}\1{value}\2" for name, value in sent.properties.items()])
        encoded = self._encoder.pack_encoded(
            EncodedMessage(topic, sent.body, text, 0, sent.sys_flag, sent.born_ms)
        )
        seconds = _SECONDS_MAX
        if entry.deadline is not None:
            left = entry.deadline - self._clock.monotonic() - _HEADROOM_SECONDS
            seconds = max(min(seconds, left), 0.0)
        pick = None if sent.group is None else _pick_of_group(sent.group)
        sending = self._sender.start(encoded, pick, int(seconds * 1_000))
        sending.add_done_callback(lambda _: _enter(sending, entry))

    def close(self) -> None:
        """Let no further attempt start."""
        self._sender.close()


def _pick_of_group(group: str) -> Pick:
    def pick(queues: Sequence[MessageQueue]) -> MessageQueue:
        return queues[queue_of_group(java_hash(group), len(queues))]

    return pick


def _enter(sending: asyncio.Future[SendResult], entry: SendEntry) -> None:
    if sending.cancelled():
        entry.refused(ClientClosed("the proxy stops"))
        return
    error = sending.exception()
    if error is not None:
        entry.refused(refusal_of(error) if isinstance(error, CometError) else error)
        return
    result = sending.result()
    physical_offset = 0
    with suppress(CodecError):  # Only half messages need it.
        _, physical_offset = decode_message_id(result.offset_message_id)
    entry.stored(
        status_of_durability(_DURABILITIES[result.status]), result.queue_offset,
        physical_offset, result.queue.broker_name, result.recall_handle,
    )  # fmt: skip
