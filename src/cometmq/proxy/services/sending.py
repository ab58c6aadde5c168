"""SendMessage: checks messages and has a broker store them; those of a call are answered together.

Source: SendMessageActivity and ProducerProcessor of RocketMQ 5.3.x. Differs: the answer has an entry for each
message of a call, and each message goes to the queue of its own message group.
"""

from cometmq.model.clock import Clock
from cometmq.model.codes import RequestCode
from cometmq.model.rights import Action, Right
from cometmq.proxy.grpc.server_call import GrpcCall
from cometmq.proxy.services.access import topic_accesses
from cometmq.proxy.services.methods import CallContext
from cometmq.proxy.services.telemetry import ClientTelemetry
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.checks import topic_name
from cometmq.proxy.v2.sent_messages import read_message
from cometmq.proxy.v2.statuses import ProxyRefusal, status_of, status_of_entries
from cometmq.proxy.v2.transaction_ids import TransactionPlace, encode_transaction_id
from cometmq.steps.steps import Steps

# Some 10 ms of work.
MESSAGES_MAX = 128
_CODE = RequestCode.SEND_MESSAGE_V2


class _SentEntry:
    """A message that is being stored, by its number in its call; implements `SendEntry`."""

    __slots__ = ("_answer", "_is_half", "_message_id", "_number")

    def __init__(
        self, answer: "_SendAnswer", number: int, message_id: str, *, is_half: bool
    ) -> None:
        self._answer = answer
        self._number = number
        self._message_id = message_id
        self._is_half = is_half

    @property
    def deadline(self) -> float | None:
        """The deadline of the call, monotonic seconds; None without one."""
        return self._answer.call.deadline

    def stored(
        self,
        status: pb.Status,
        queue_offset: int,
        physical_offset: int,
        broker_name: str,
        recall_handle: str | None,
    ) -> None:
        """Enter the place of the stored message into the answer; a half message gets a transaction id with it."""
        key = self._message_id
        entry = pb.SendResultEntry(status=status, message_id=key, offset=queue_offset)
        if self._is_half:
            place = TransactionPlace(key, queue_offset, physical_offset, broker_name)
            entry.transaction_id = encode_transaction_id(place)
        if recall_handle is not None:
            entry.recall_handle = recall_handle
        self._answer.set(self._number, entry)

    def refused(self, error: BaseException) -> None:
        """Enter the error of a message that is not stored into the answer."""
        found = status_of(error, _CODE)
        entry = pb.SendResultEntry(status=found, message_id=self._message_id)
        self._answer.set(self._number, entry)


class _SendAnswer:
    """The answer to a call, sent when all of its messages have a result."""

    __slots__ = ("_entries", "_left", "call")

    def __init__(self, call: GrpcCall, count: int) -> None:
        self.call = call
        self._left = count
        self._entries = [pb.SendResultEntry()] * count

    def set(self, index: int, entry: pb.SendResultEntry) -> None:
        self._entries[index] = entry
        self._left -= 1
        if not self._left:
            whole = status_of_entries([each.status for each in self._entries])
            response = pb.SendMessageResponse(status=whole, entries=self._entries)
            self.call.answer(response.SerializeToString())
            self.call.finish()


class Sending:
    """SendMessage."""

    def __init__(self, telemetry: ClientTelemetry, clock: Clock) -> None:
        self._telemetry = telemetry
        self._clock = clock

    def send(self, context: CallContext, request: pb.SendMessageRequest) -> Steps[None]:
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
        backend, client = context.backend, context.client
        limits, now_ms = backend.limits, self._clock.now_ms()
        sent = [
            read_message(each, name, limits, now_ms=now_ms, host=client.address)
            for each in messages
        ]
        topic = yield from backend.topic(name)
        if not topic.is_writable:
            raise ProxyRefusal(pb.FORBIDDEN, "no writable queue")
        for each in sent:
            topic.check_type(each.type)
        if sent[0].type == pb.TRANSACTION:
            self._telemetry.note_producer(context, name)
        answer = _SendAnswer(context.call, len(sent))
        for number, each in enumerate(sent):
            is_half = each.type == pb.TRANSACTION
            entry = _SentEntry(answer, number, each.message_id, is_half=is_half)
            try:
                backend.send(each, topic, client, entry)
            except Exception as error:  # noqa: BLE001  The other messages of the call are stored.
                entry.refused(error)
