"""Commands to clients over their streams of telemetry: checks of transactions, and requests of consoles to consumers.

Source: GrpcClientChannel and ProxyRelayService of RocketMQ 5.3.x. Differs: unless a console wants stack traces,
the running state of a client is what the broker knows of it, and the client is not asked.
"""

import uuid
from collections.abc import Mapping
from typing import NamedTuple

from cometmq.codec.bodies.running import (
    DirectOutcome,
    DirectResult,
    RunningState,
    encode_direct,
    encode_running,
)
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.transaction import CheckTransaction
from cometmq.codec.record import decode_record
from cometmq.model.codes import RequestCode, request_name, version_name
from cometmq.model.errors import CometError, RequestTimeout
from cometmq.model.properties import UNIQ_KEY
from cometmq.proxy.services.clients import GrpcClient
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.delivered_messages import Delivery, delivered_messages
from cometmq.proxy.v2.statuses import OK
from cometmq.proxy.v2.transaction_ids import TransactionPlace, encode_transaction_id
from cometmq.steps.steps import Done, Steps, called_back

ANSWER_SECONDS = 5.0
_RESULTS = {
    pb.OK: DirectResult.SUCCESS,
    pb.FAILED_TO_CONSUME_MESSAGE: DirectResult.LATER,
    pb.MESSAGE_CORRUPTED: DirectResult.NULL,
}


class ClientAnswer(NamedTuple):
    """The answer of a client to a request of a console (`PeerAnswer`)."""

    code: int = 0
    remark: str | None = None
    fields: dict[str, str] = {}  # noqa: RUF012  Never modified.
    body: bytes = b""


class _AskedClient(NamedTuple):
    """A client that was sent a command, and the callback for its answer."""

    client: GrpcClient
    done: Done


class StreamCommands:
    """Sends commands to clients over their telemetry streams, and passes answers to the requests that wait for them."""

    def __init__(self) -> None:
        self._asked: dict[str, _AskedClient] = {}

    def check(self, client: GrpcClient, fields: Mapping[str, str], content: bytes) -> None:
        """Ask a producer for the outcome of a transaction; do nothing if its stream of telemetry is closed.

        Nothing is sent either if the request cannot be decoded.

        Args:
            client: The producer.
            fields: Header of CHECK_TRANSACTION_STATE.
            content: Record of the half message, with its real topic and queue.
        """
        stream = client.stream
        if stream is None or stream.is_closed:
            return  # Another check follows, maybe at another producer.
        try:
            header, record = (
                decode_fields(CheckTransaction, dict(fields)),
                decode_record(content),
            )
            key = header.msg_id or record.properties().get(UNIQ_KEY, "")
        except CometError:
            return
        place = TransactionPlace(
            key,
            header.tran_state_table_offset,
            header.commit_log_offset,
            header.broker_name or "",
        )
        command = pb.TelemetryCommand(status=OK)
        wanted = command.recover_orphaned_transaction_command
        wanted.transaction_id = encode_transaction_id(place)
        wanted.message.CopyFrom(delivered_messages([Delivery(record)], "")[0])
        stream.answer(command.SerializeToString())

    def ask(
        self, client: GrpcClient, code: int, fields: Mapping[str, str], body: bytes
    ) -> Steps[ClientAnswer]:
        """Return the answer to GET_CONSUMER_RUNNING_INFO, or to CONSUME_MESSAGE_DIRECTLY, for a client.

        For the former, the client is only asked if stack traces are wanted.

        Raises:
            RequestTimeout: The client did not answer in 5 s or has no telemetry stream, or the request is another.
            CodecError: The record of the message to consume cannot be decoded.
        """
        command = pb.TelemetryCommand(status=OK)
        nonce = uuid.uuid4().hex
        if code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            if fields.get("jstackEnable", "").lower() != "true":
                return ClientAnswer(body=encode_running(_running(client)))
            command.print_thread_stack_trace_command.nonce = nonce
            answer = yield from self._answer_of(client, nonce, command)
            stacks = answer.thread_stack_trace.thread_stack_trace
            return ClientAnswer(body=encode_running(_running(client, stacks)))
        if code != RequestCode.CONSUME_MESSAGE_DIRECTLY:
            raise RequestTimeout(f"{request_name(code)} is not sent to gRPC clients")
        command.verify_message_command.nonce = nonce
        [message] = delivered_messages([Delivery(decode_record(body))], "")
        command.verify_message_command.message.CopyFrom(message)
        answer = yield from self._answer_of(client, nonce, command)
        result = _RESULTS.get(answer.status.code, DirectResult.EXCEPTION)
        return ClientAnswer(
            body=encode_direct(DirectOutcome(result, 0, answer.status.message or None))
        )

    def _answer_of(
        self, client: GrpcClient, nonce: str, command: pb.TelemetryCommand
    ) -> Steps[pb.TelemetryCommand]:
        stream = client.stream
        if stream is None or stream.is_closed:
            raise RequestTimeout("the client has no open stream of telemetry")

        def begin(done: Done) -> None:
            self._asked[nonce] = _AskedClient(client, done)
            stream.answer(command.SerializeToString())

        try:
            answer: pb.TelemetryCommand = yield from called_back(begin, ANSWER_SECONDS)
        except TimeoutError:
            raise RequestTimeout("call remote timeout") from None
        finally:
            self._asked.pop(nonce, None)
        return answer

    def answered(self, client: GrpcClient, command: pb.TelemetryCommand) -> None:
        """Pass a client's answer to the request that waits for it; ignore an answer for which none waits."""
        kind = command.WhichOneof("command")
        if kind == "thread_stack_trace":
            nonce = command.thread_stack_trace.nonce
        elif kind == "verify_message_result":
            nonce = command.verify_message_result.nonce
        else:
            return
        asked = self._asked.get(nonce)
        if asked is not None and asked.client is client:
            asked.done(command, None)


def _running(client: GrpcClient, stacks: str | None = None) -> RunningState:
    subscriptions = [each for some in client.subscriptions.values() for each in some]
    properties = {
        "PROP_CLIENT_VERSION": version_name(client.version),
        "PROP_CONSUME_TYPE": "CONSUME_POP",
        "PROP_CLIENT_TYPE": pb.ClientType.Name(client.type),
    }
    return RunningState(properties, tuple(subscriptions), stacks=stacks)
