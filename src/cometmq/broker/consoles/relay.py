"""Questions that a console asks a broker and a consumer answers: 223, 307, 309.

The broker finds the client's connection, passes the question on with what only a broker can add,
and gives the answer back as it comes. Follows AdminBrokerProcessor.callConsumer and Broker2Client
of RocketMQ 5.3.3.

Next: cometmq.client.group_member
"""

import asyncio
from concurrent.futures import Executor

from cometmq.broker.members import Client
from cometmq.broker.parts import Feature, Parts
from cometmq.codec.bodies.queue_offsets import (
    decode_client_offsets,
    encode_all_client_offsets,
)
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.console import ClientStatusRequest, DirectRequest, RunningRequest
from cometmq.codec.message_id import decode_message_id
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CodecError, ConnectionLost, RequestError, RequestTimeout
from cometmq.model.queue import MessageQueue
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer

# Clients before V3_1_8_SNAPSHOT (ordinal in MQVersion) do not know these questions.
_VERSION_MIN = 62
# Broker2Client.callClient waits so long.
_TIMEOUT_MS = 10_000


class ClientRelay(Feature):
    """Passes questions on to consumers."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.answers = {
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self.statuses,
        }

    async def running(self, command: Command, _peer: Peer) -> Answer:
        """GET_CONSUMER_RUNNING_INFO 307."""
        request = decode_fields(RunningRequest, command.fields)
        client = self._client(request.consumer_group, request.client_id)
        return await _pass_on(client, command.code, command.fields)

    async def consume(self, command: Command, _peer: Peer) -> Answer:
        """CONSUME_MESSAGE_DIRECTLY 309: the message's record goes along as the body."""
        request = decode_fields(DirectRequest, command.fields)
        client = self._client(request.consumer_group, request.client_id or "")
        fields = dict(command.fields)
        fields["brokerName"] = self._parts.settings.broker_name
        topic = self._parts.topics.get(request.topic or "")
        if topic is not None:
            fields["topicSysFlag"] = str(topic.sys_flag)
        group = self._parts.groups.peek(request.consumer_group)
        if group is not None:
            fields["groupSysFlag"] = str(group.sys_flag)
        record = await self._record(request.msg_id or "")
        return await _pass_on(client, command.code, fields, record)

    async def _record(self, message_id: str) -> bytes:
        try:
            _, physical_offset = decode_message_id(message_id)
        except CodecError as error:
            raise RequestError(ResponseCode.INVALID_PARAMETER, str(error)) from None
        store = self._parts.store
        loop = asyncio.get_running_loop()
        record = None
        if store.min_offset <= physical_offset < store.dispatched_offset:
            record = await loop.run_in_executor(
                self._parts.pool, store.read_record, physical_offset
            )
        if record is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"this broker has no message {message_id}"
            )
        return record

    def _client(self, group: str, client_id: str) -> Client:
        client = self._parts.members.consumer(group, client_id)
        if client is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online"
            )
        if client.version < _VERSION_MIN:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"The Consumer <{client_id}> Version <{client.version}> too low to finish, "
                "please upgrade it to V3_1_8_SNAPSHOT",
            )
        return client

    async def statuses(self, command: Command, _peer: Peer) -> Answer:
        """INVOKE_BROKER_TO_GET_CONSUMER_STATUS 223: the offsets that each member has in mind."""
        request = decode_fields(ClientStatusRequest, command.fields)
        group = self._parts.members.consumer_group(request.group)
        if group is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"No Any Consumer online in the consumer group: [{request.group}]",
            )
        fields = {"topic": request.topic, "group": request.group}
        asked = [
            client
            for client in group.clients.values()
            if request.client_addr in (None, "", client.client_id)
        ]
        pool = self._parts.pool
        answers = await asyncio.gather(*(_status_of(client, fields, pool) for client in asked))
        tables = {
            client.client_id: offsets
            for client, offsets in zip(asked, answers, strict=True)
            if offsets is not None
        }
        return Answer(body=encode_all_client_offsets(tables))


async def _status_of(
    client: Client, fields: dict[str, str], pool: Executor
) -> dict[MessageQueue, int] | None:
    """A client's offsets; None when it does not answer: the others' are still worth having."""
    try:
        answer = await _pass_on(
            client, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, dict(fields)
        )
        body = answer.body
        if answer.code or not isinstance(body, bytes):
            return None
        # Java writes queues as keys, which is no strict JSON, and a client may answer what it likes.
        return await asyncio.get_running_loop().run_in_executor(
            pool, decode_client_offsets, body
        )
    except (RequestError, CodecError):
        return None


async def _pass_on(
    client: Client, code: int, fields: dict[str, str], body: bytes = b""
) -> Answer:
    try:
        answer = await client.peer.call(code, fields, body, timeout_ms=_TIMEOUT_MS)
    except RequestTimeout as error:
        raise RequestError(
            ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer <{client.client_id}> Timeout: {error}"
        ) from None
    except ConnectionLost as error:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, f"invoke consumer <{client.client_id}>: {error}"
        ) from None
    return Answer(answer.code, answer.remark, answer.fields, answer.body)
