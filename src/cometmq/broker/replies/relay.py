"""Relays requests of administrators to consumers, and returns their answers.

The broker finds the client's connection, and adds to the request what only a broker knows. Follows
AdminBrokerProcessor.callConsumer and Broker2Client of RocketMQ 5.3.3.
"""

from functools import partial

from cometmq.broker.inner.redelivery import named_record
from cometmq.broker.parts import Parts
from cometmq.broker.tables.client_peer import PeerAnswer
from cometmq.broker.tables.members import Client, membership, who_may
from cometmq.codec.bodies.queue_offsets import decode_client_offsets
from cometmq.codec.headers.console import ClientStatusRequest, DirectRequest, RunningRequest
from cometmq.codec.message_id import decode_message_id
from cometmq.codec.record import Record
from cometmq.codec.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import (
    CodecError,
    ConnectionLost,
    RequestError,
    RequestTimeout,
    invalid_parameter,
)
from cometmq.model.names import dead_letter_topic
from cometmq.model.queue import MessageQueue
from cometmq.model.rights import Action, topic_access
from cometmq.steps.runner import together
from cometmq.steps.steps import Steps, elsewhere

# Clients before V3_1_8_SNAPSHOT (ordinal in MQVersion) do not know these requests.
_VERSION_MIN = 62
_SIGNER_FIELDS = frozenset({ACCESS_KEY, SIGNATURE, SECURITY_TOKEN})
# The timeout of Broker2Client.callClient.
_TIMEOUT_MS = 10_000


class ClientRelay:
    """Passes requests of administrators on to connected consumers, and their answers back."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def running(self, request: RunningRequest, fields: dict[str, str]) -> Steps[PeerAnswer]:
        """Return a consumer's answer with its running info; `fields` is the header, sent on without the signature.

        Raises:
            RequestError, CodecError: The consumer is not connected, lacks the rights of a member, is too old,
                disconnects, does not answer in 10 s, or sends an answer that cannot be decoded.
        """
        client = self._client(request.consumer_group, request.client_id)
        return (yield from _pass_on(client, RequestCode.GET_CONSUMER_RUNNING_INFO, fields))

    def consume(self, request: DirectRequest, fields: dict[str, str]) -> Steps[PeerAnswer]:
        """Let a consumer consume a message, whose record is sent along, and return its answer; `fields` is the header.

        Raises:
            RequestError, CodecError, OSError: As for `running`, or there is no such message, it cannot be read or decoded, or
                the consumer may not read its topic.
        """
        client = self._client(request.consumer_group, request.client_id or "")
        fields = {**fields, "brokerName": self._parts.settings.broker_name}
        topic = self._parts.topics.get(request.topic or "")
        if topic is not None:
            fields["topicSysFlag"] = str(topic.sys_flag)
        group = self._parts.groups.peek(request.consumer_group)
        if group is not None:
            fields["groupSysFlag"] = str(group.sys_flag)
        content, record = yield from self._record(request.msg_id or "")
        # The topic is that of the record, whatever the request names. A dead letter was a message of the group itself.
        name = record.topic
        is_dead_letter = name == dead_letter_topic(request.consumer_group)
        wanted = () if is_dead_letter else (topic_access(name, frozenset({Action.SUB})),)
        if not who_may([client], *wanted, membership(request.consumer_group)):
            raise _not_online(request.consumer_group, client.client_id)
        code = RequestCode.CONSUME_MESSAGE_DIRECTLY
        return (yield from _pass_on(client, code, fields, content))

    def _record(self, message_id: str) -> Steps[tuple[bytes, Record]]:
        try:
            _, physical_offset = decode_message_id(message_id)
        except CodecError as error:
            raise invalid_parameter(str(error)) from None
        named = yield from named_record(self._parts.store, physical_offset)
        if named is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"this broker has no message {message_id}"
            )
        return named

    def _client(self, group: str, client_id: str) -> Client:
        client = self._parts.members.consumer(group, client_id)
        if client is None or not who_may([client], membership(group)):
            raise _not_online(group, client_id)
        if client.version < _VERSION_MIN:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"The Consumer <{client_id}> Version <{client.version}> too low to finish, "
                "please upgrade it to V3_1_8_SNAPSHOT",
            )
        return client

    def statuses(
        self, request: ClientStatusRequest
    ) -> Steps[dict[str, dict[MessageQueue, int]]]:
        """Return a topic's offsets in the memory of a group's members (or only the requested one), by client id and queue.

        Members that do not return them or lack the rights are left out. Raises RequestError if the group has no members.
        """
        group = self._parts.members.consumer_group(request.group)
        if group is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"No Any Consumer online in the consumer group: [{request.group}]",
            )
        fields = {"topic": request.topic, "group": request.group}
        topic = topic_access(request.topic, frozenset({Action.SUB}))
        asked = [
            client
            for client in who_may(group.clients.values(), membership(group.name), topic)
            if request.client_addr in (None, "", client.client_id)
        ]
        steps = [self._status_of(client, fields) for client in asked]
        answers = yield from together(self._parts.world, steps)
        return {
            client.client_id: offsets
            for client, offsets in zip(asked, answers, strict=True)
            if offsets is not None
        }

    def _status_of(
        self, client: Client, fields: dict[str, str]
    ) -> Steps[dict[MessageQueue, int] | None]:
        """Return a client's offsets; None if it fails or answers with an error, so that those of others are still returned."""
        code = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
        try:
            answer = yield from _pass_on(client, code, dict(fields))
            if answer.code:
                return None
            # Java uses queues as keys, which is not strict JSON, and a client may answer anything.
            return (yield from elsewhere(partial(decode_client_offsets, answer.body)))
        except (RequestError, CodecError):
            return None


def _not_online(group: str, client_id: str) -> RequestError:
    """Return the error for a group that has no such member, or only one that lacks the rights."""
    return RequestError(
        ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online"
    )


def _pass_on(
    client: Client, code: int, fields: dict[str, str], body: bytes = b""
) -> Steps[PeerAnswer]:
    # With the administrator's signature, the client could send the same request to this broker.
    fields = {name: text for name, text in fields.items() if name not in _SIGNER_FIELDS}
    try:
        return (yield from client.peer.call(code, fields, body, timeout_ms=_TIMEOUT_MS))
    except RequestTimeout as error:
        raise RequestError(
            ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer <{client.client_id}> Timeout: {error}"
        ) from None
    except ConnectionLost as error:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR, f"invoke consumer <{client.client_id}>: {error}"
        ) from None
