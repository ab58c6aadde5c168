"""SendMessage: stores messages through the broker's service of sends.

The messages of calls that arrive in one iteration of the loop are stored together, and those of a call are answered
together. Source: SendMessageActivity and ProducerProcessor of RocketMQ 5.3.x. Differs: the answer has an entry for each
message of a call, and each message goes to the queue of its own message group.
"""

import asyncio
from typing import NamedTuple

from cometmq.broker.send.admission import AdmittedSend
from cometmq.codec.headers.send import SendRequestV2
from cometmq.codec.host import encode_host
from cometmq.model.clock import Clock
from cometmq.model.codes import RequestCode
from cometmq.model.flags import is_writable
from cometmq.model.java_hash import java_hash
from cometmq.model.rights import Action, Right
from cometmq.model.topic import TopicConfig
from cometmq.proxy.grpc.server_call import GrpcCall
from cometmq.proxy.services.access import topic_accesses
from cometmq.proxy.services.methods import CallContext
from cometmq.proxy.services.role_services import RoleServices
from cometmq.proxy.services.routes import ANY_QUEUE, check_type, topic_of
from cometmq.proxy.services.telemetry import ClientTelemetry
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.checks import topic_name
from cometmq.proxy.v2.sent_messages import SendLimits, SentMessage, read_message
from cometmq.proxy.v2.statuses import (
    ProxyRefusal,
    status_of,
    status_of_durability,
    status_of_entries,
)
from cometmq.proxy.v2.transaction_ids import TransactionPlace, encode_transaction_id
from cometmq.store.appender import PutResult
from cometmq.store.positions import Durability

# Some 10 ms of work.
MESSAGES_MAX = 128
_CODE = RequestCode.SEND_MESSAGE_V2
# Of Guava's consistent hash.
_HASH_FACTOR = 2862933555777941757
_HASH_MASK = (1 << 64) - 1
_HASH_RANGE = float(1 << 31)


class _SentEntry(NamedTuple):
    """A message that is being stored: its number in its call, and the data that its entry in the answer needs."""

    answer: "_SendAnswer"
    number: int
    admitted: AdmittedSend
    is_half: bool


class _SendAnswer:
    """The answer to a call, sent when all of its messages have a result."""

    __slots__ = ("_call", "_entries", "_left")

    def __init__(self, call: GrpcCall, count: int) -> None:
        self._call = call
        self._left = count
        self._entries = [pb.SendResultEntry()] * count

    def set(self, index: int, entry: pb.SendResultEntry) -> None:
        self._entries[index] = entry
        self._left -= 1
        if not self._left:
            whole = status_of_entries([each.status for each in self._entries])
            response = pb.SendMessageResponse(status=whole, entries=self._entries)
            self._call.answer(response.SerializeToString())
            self._call.finish()


class _CallOrigin(NamedTuple):
    """The address of the client that sends a message, in the form that the broker's checks need."""

    host: bytes
    address: str


class Sending:
    """SendMessage: puts messages into the broker's queue of sends, and gets their results as a `SendCaller`."""

    def __init__(self, telemetry: ClientTelemetry, clock: Clock, *, broker_name: str) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._broker_name = broker_name
        self._services: RoleServices | None = None  # Set while sends are queued.
        self._turn = 0

    def send(self, context: CallContext, request: pb.SendMessageRequest) -> None:
        """Store the messages of a call; the call is answered when each is confirmed or has failed.

        Raises ProxyRefusal, without storing any, if a message is invalid or the topic cannot be written.
        """
        messages = request.messages
        if not messages:
            raise ProxyRefusal(pb.MESSAGE_CORRUPTED, "no message to send")
        if len(messages) > MESSAGES_MAX:
            raise ProxyRefusal(
                pb.BAD_REQUEST,
                f"a call has {len(messages)} messages; at most {MESSAGES_MAX} are allowed",
            )
        name = topic_name(messages[0].topic)
        if any(each.topic != messages[0].topic for each in messages):
            raise ProxyRefusal(pb.MESSAGE_CORRUPTED, "topic in message is not same")
        context.check(Right.WRITER, topic_accesses(name, Action.PUB))
        parts = context.services.parts
        settings = parts.settings
        limits = SendLimits(settings.body_size_max, settings.timer_max_delay_seconds * 1_000)
        now_ms, address = self._clock.now_ms(), context.client.address
        sent = [
            read_message(each, name, limits, now_ms=now_ms, host=address) for each in messages
        ]
        topic = topic_of(parts, name)
        if not is_writable(topic.perm & settings.perm) or not topic.write_queues:
            raise ProxyRefusal(pb.FORBIDDEN, "no writable queue")
        for each in sent:
            check_type(topic, each.type)
        if sent[0].type == pb.TRANSACTION:
            self._telemetry.note_producer(context, name)
        self._put(context, topic, sent)

    def _put(self, context: CallContext, topic: TopicConfig, sent: list[SentMessage]) -> None:
        """Queue the messages of a call to be stored soon with those of other calls; some may be refused."""
        services = context.services
        sender = _CallOrigin(encode_host(context.client.address), context.client.address)
        answer = _SendAnswer(context.call, len(sent))
        for index, each in enumerate(sent):
            try:
                admitted = services.sends.admission.admit(
                    self._request(topic, each), each.body, sender
                )
            except Exception as error:  # noqa: BLE001  The other messages of the call are stored.
                answer.set(index, _refused(each.message_id, error))
                continue
            entry = _SentEntry(answer, index, admitted, each.type == pb.TRANSACTION)
            if self._services is None:
                self._services = services
                asyncio.get_running_loop().call_soon(self._store)
            services.sends.put(admitted, entry, self)

    def _store(self) -> None:
        services, self._services = self._services, None
        if services is not None:
            services.sends.store()
            services.sends.written()

    def _request(self, topic: TopicConfig, sent: SentMessage) -> SendRequestV2:
        text = "".join([f"{name}\1{value}\2" for name, value in sent.properties.items()])
        return SendRequestV2(
            topic.name, topic.name, self._queue(topic, sent.group), sent.sys_flag,
            sent.born_ms, 0, properties=text,
        )  # fmt: skip

    def _queue(self, topic: TopicConfig, group: str | None) -> int:
        if group is not None:
            return queue_of_group(java_hash(group), topic.write_queues)
        self._turn += 1
        return self._turn % topic.write_queues if topic.write_queues else ANY_QUEUE

    # --- the results

    def stored(
        self,
        sends: list[_SentEntry],
        results: list[PutResult],
        durability: Durability,
        *,
        has_waited: bool,
    ) -> None:
        """Enter the results of stored messages into the answers to their calls."""
        found = status_of_durability(durability)
        for (answer, index, admitted, is_half), result in zip(sends, results, strict=True):
            key = admitted.transaction_id
            entry = pb.SendResultEntry(status=found, message_id=key, offset=result[0])
            if is_half:
                place = TransactionPlace(key, result[0], result[1], self._broker_name)
                entry.transaction_id = encode_transaction_id(place)
            if admitted.recall_handle is not None:
                entry.recall_handle = admitted.recall_handle
            answer.set(index, entry)

    def refused(self, sends: list[_SentEntry], error: BaseException) -> None:
        """Enter an error for messages that were not stored into the answers to their calls."""
        for answer, index, admitted, _ in sends:
            answer.set(index, _refused(admitted.transaction_id, error))


def _refused(message_id: str, error: BaseException) -> pb.SendResultEntry:
    return pb.SendResultEntry(status=status_of(error, _CODE), message_id=message_id)


def queue_of_group(group_hash: int, count: int) -> int:
    """Return the queue (0 to `count` - 1) of a message group by its Java hash, as Guava's Hashing.consistentHash."""
    state = group_hash & _HASH_MASK
    candidate = 0
    while True:
        state = (state * _HASH_FACTOR + 1) & _HASH_MASK
        step = ((state >> 33) + 1) / _HASH_RANGE
        following = int((candidate + 1) / step)
        if not 0 <= following < count:
            return candidate
        candidate = following
