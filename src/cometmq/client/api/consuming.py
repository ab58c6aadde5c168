"""Requests of a consumer: pull, pop, wait for messages to pop, acknowledge, change the invisible time, send back."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cometmq.client.api.asking import BrokerRequests, read_fields, unless
from cometmq.codec.bodies.batch_ack import BatchAck, encode_batch_ack
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.pop import (
    AckRequest,
    ChangedTimeResponse,
    ChangeInvisibleTimeRequest,
    NotificationRequest,
    PopRequest,
    PopResponse,
)
from cometmq.codec.headers.pull import PullRequest
from cometmq.codec.headers.send import SendBackRequest
from cometmq.codec.record import Record, decode_records
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode

_MARGIN_MS = 10_000  # Timeout of an answer beyond the wait at the broker.
_SEND_BACK_TIMEOUT_MS = (
    5000  # As in consumerSendMessageBack of DefaultMQPushConsumerImpl, RocketMQ 5.3.3.
)
# Refusals of a pop that mean that there are no messages now.
NO_MESSAGES = (
    ResponseCode.POLLING_TIMEOUT, ResponseCode.POLLING_FULL, ResponseCode.PULL_NOT_FOUND,
)  # fmt: skip
# An offset that no queue has; -1 is the first one of an empty queue at RocketMQ's broker.
_NOWHERE = -2
_NO_SUCH_MESSAGE = (
    ResponseCode.TOPIC_NOT_EXIST, ResponseCode.MESSAGE_ILLEGAL, ResponseCode.NO_MESSAGE,
)  # fmt: skip


class PoppedRecords(NamedTuple):
    """The answer to a pop: the records, and the header fields from which their receipt handles are made."""

    fields: PopResponse
    records: Sequence[Record]


class ConsumeApi(BrokerRequests):
    """Sends requests of a consumer to one broker; raises BrokerRefused, NetError and CodecError."""

    async def pop(self, address: str, header: PopRequest) -> PoppedRecords | None:
        """Pop the next messages for a group and return their records.

        Returns None if the broker has none after up to the header's `poll_time` (ms), or holds too many pops to wait.
        """
        answer = await unless(NO_MESSAGES, self.ask_pop(address, header))
        if answer is None:
            return None
        fields = read_fields(PopResponse, answer, f"the answer to a pop of {header.topic}")
        return PoppedRecords(fields, decode_records(answer.body, most=header.max_msg_nums))

    async def ask_pop(self, address: str, header: PopRequest) -> Command:
        """Pop the next messages for a group and return the whole answer; BrokerRefused with a code of NO_MESSAGES if there are none."""
        timeout_ms = _waiting(header.poll_time)
        return await self._ask(address, RequestCode.POP_MESSAGE, header, timeout_ms=timeout_ms)

    async def keeps_handles(self, address: str) -> bool:
        """Return whether a broker knows `keeps_handle` of ChangeInvisibleTimeRequest; those of RocketMQ do not."""
        asked = ChangeInvisibleTimeRequest(
            "nobody", "none", 0, "", _NOWHERE, 0, keeps_handle=True
        )
        answer = await unless(_NO_SUCH_MESSAGE, self.change_invisibility(address, asked))
        return answer is not None and bool(answer.keeps_handle)

    async def notified(self, address: str, header: NotificationRequest) -> bool:
        """Return whether a broker reports that there may be messages to pop, after up to the header's `poll_time` (ms)."""
        answer = await self._ask(
            address, RequestCode.NOTIFICATION, header, timeout_ms=_waiting(header.poll_time)
        )
        return answer.fields.get("hasMsg") == "true"

    async def ack(self, address: str, header: AckRequest) -> None:
        """Acknowledge a popped message."""
        await self._ask(address, RequestCode.ACK_MESSAGE, header)

    async def ack_many(self, address: str, broker_name: str, acks: Iterable[BatchAck]) -> None:
        """Acknowledge popped messages, grouped by check point."""
        body = encode_batch_ack(broker_name, acks)
        await self._ask(address, RequestCode.BATCH_ACK_MESSAGE, body=body)

    async def change_invisibility(
        self, address: str, header: ChangeInvisibleTimeRequest
    ) -> ChangedTimeResponse:
        """Hide a popped message for another period, and return the parts of its new receipt handle."""
        code = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
        answer = await self._ask(address, code, header)
        return read_fields(ChangedTimeResponse, answer, f"the answer to {code.name}")

    async def send_back(self, address: str, header: SendBackRequest) -> None:
        """Have a broker redeliver a message later, or make it a dead letter."""
        await self._ask(
            address,
            RequestCode.CONSUMER_SEND_MSG_BACK,
            header,
            timeout_ms=_SEND_BACK_TIMEOUT_MS,
        )


def pull_command(header: PullRequest) -> Command:
    """Make the request PULL_MESSAGE 11 from its header; the caller sends it and decodes the answer."""
    return Command(RequestCode.PULL_MESSAGE, fields=encode_fields(header))


def _waiting(wait_ms: int) -> int | None:
    return wait_ms + _MARGIN_MS if wait_ms else None
