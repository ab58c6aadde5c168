"""Telemetry, Heartbeat and NotifyClientTermination: registers clients, and returns the settings that they must use.

Source: ClientActivity, GrpcClientSettingsManager and GrpcClientChannel of RocketMQ 5.3.x. Differs: a heartbeat registers
a client that has sent no settings yet, because clients do not send them again when a proxy has lost them.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from google.protobuf.message import DecodeError

from cometmq.codec.bodies.heartbeat import (
    CONSUME_ACTIVELY,
    CONSUME_PASSIVELY,
    ConsumerPart,
    Heartbeat,
    ProducerPart,
)
from cometmq.model.clock import Clock
from cometmq.model.codes import RequestCode
from cometmq.model.errors import CometError, SubscriptionError
from cometmq.model.group import GroupConfig
from cometmq.model.rights import Action, Right
from cometmq.model.subscription import SQL92, Subscription, parse_subscription
from cometmq.proxy.grpc.calls import CallStream, GrpcStatus, Streaming
from cometmq.proxy.grpc.server_call import GrpcCall
from cometmq.proxy.services.access import group_access, topic_accesses
from cometmq.proxy.services.clients import GrpcClient
from cometmq.proxy.services.commands import StreamCommands
from cometmq.proxy.services.methods import CallContext, CallRunner
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.checks import group_name, topic_name
from cometmq.proxy.v2.statuses import OK, ProxyRefusal, status_of
from cometmq.steps.steps import Steps

_log = logging.getLogger(__name__)

BATCH_MAX = 32
POLL_SECONDS = 20
# Topics and groups of one client, which are kept.
TOPICS_MAX = 1_000
GROUPS_MAX = 100
# Filter expressions in the settings of a client, all together, bytes.
EXPRESSIONS_SIZE_MAX = 65_536
PRODUCER_ATTEMPTS = 3
_PRODUCER_BACKOFF_MS = (10, 1_000, 2.0)  # First, longest, factor.
# The pauses of a group without a policy of its own (CustomizedRetryPolicy of RocketMQ), seconds.
_PAUSES_SECONDS = (
    1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200,
)  # fmt: skip
_CONSUMERS = {
    pb.PUSH_CONSUMER: CONSUME_PASSIVELY,
    pb.SIMPLE_CONSUMER: CONSUME_ACTIVELY,
    pb.PULL_CONSUMER: CONSUME_ACTIVELY,
}
_CLIENT_FAULTS = range(40_000, 50_000)


class ClientTelemetry:
    """Registers clients in their groups, by their settings and heartbeats."""

    def __init__(self, runner: CallRunner, clock: Clock, commands: StreamCommands) -> None:
        """`commands` gets the answers of clients to commands."""
        self.commands = commands
        self._runner = runner
        self._clock = clock

    def streaming(self) -> Streaming:
        """Return the handler of the method Telemetry for the gRPC server."""
        return Streaming(lambda call: TelemetryStream(self, call))

    def opened(self, client: GrpcClient, call: GrpcCall) -> None:
        """Count a stream as an open call of its client."""
        self._runner.clients.opened(client, call, call.finish)

    # --- settings

    def settle(
        self,
        call: GrpcCall,
        settings: pb.Settings,
        ended: Callable[[GrpcClient | None, BaseException | None], None],
    ) -> None:
        """Register a client by its settings, and answer with those that it must use; end an earlier stream of it.

        `ended` gets the client, or the error, such as ProxyRefusal for a topic without rights.
        """
        self._runner.run(self._settle(call, settings), ended)

    def _settle(self, call: GrpcCall, settings: pb.Settings) -> Steps[GrpcClient]:
        context = self._runner.context(call)
        client = context.client
        answer = pb.Settings()
        answer.CopyFrom(settings)
        client.type = settings.client_type
        if settings.HasField("publishing"):
            self._settle_producer(context, settings.publishing, answer)
        else:
            yield from self._settle_consumer(context, settings, answer)
        if call.is_closed:
            return client
        answer.metric.on = False
        if client.stream is not None and client.stream is not call:
            client.stream.finish()
        client.stream = call
        command = pb.TelemetryCommand(status=OK, settings=answer)
        call.answer(command.SerializeToString())
        return client

    def _settle_producer(
        self, context: CallContext, publishing: pb.Publishing, answer: pb.Settings
    ) -> None:
        names = _topics(publishing.topics)
        for name in names:
            context.check(Right.WRITER, topic_accesses(name, Action.PUB))
        context.client.topics = set(names)
        first_ms, longest_ms, factor = _PRODUCER_BACKOFF_MS
        answer.backoff_policy.max_attempts = PRODUCER_ATTEMPTS
        backoff = answer.backoff_policy.exponential_backoff
        backoff.initial.FromMilliseconds(first_ms)
        backoff.max.FromMilliseconds(longest_ms)
        backoff.multiplier = factor
        answer.publishing.validate_message_type = True
        answer.publishing.max_body_size = context.backend.limits.body_size_max
        self._register(context)

    def _settle_consumer(
        self, context: CallContext, settings: pb.Settings, answer: pb.Settings
    ) -> Steps[None]:
        group = group_name(settings.subscription.group)
        context.check(Right.READER, group_access(group))
        entries = settings.subscription.subscriptions
        names = _topics([entry.topic for entry in entries])
        for name in names:
            context.check(Right.READER, topic_accesses(name, Action.SUB))
        _check_room(context.client, group)
        _check_expressions(entries)
        context.client.subscriptions[group] = tuple(
            _subscription(name, entry.expression, self._clock.now_ms())
            for name, entry in zip(names, entries, strict=True)
        )
        self._register(context)
        config = yield from context.backend.group(group)
        answer.subscription.fifo = config.orderly
        answer.subscription.receive_batch_size = BATCH_MAX
        answer.subscription.long_polling_timeout.seconds = POLL_SECONDS
        answer.backoff_policy.CopyFrom(backoff_of(config))

    # --- groups

    def heartbeat(
        self, context: CallContext, request: pb.HeartbeatRequest
    ) -> pb.HeartbeatResponse:
        """Register a client again in its groups, and a consumer also in the group of the heartbeat."""
        client = context.client
        client.type = request.client_type or client.type
        if client.type == pb.CLIENT_TYPE_UNSPECIFIED:
            raise ProxyRefusal(pb.UNRECOGNIZED_CLIENT_TYPE, "the heartbeat has no client type")
        if request.HasField("group") and client.type != pb.PRODUCER:
            group = group_name(request.group)
            context.check(Right.READER, group_access(group))
            _check_room(client, group)
            client.subscriptions.setdefault(group, ())
        self._register(context)
        return pb.HeartbeatResponse(status=OK)

    def terminate(
        self, context: CallContext, request: pb.NotifyClientTerminationRequest
    ) -> pb.NotifyClientTerminationResponse:
        """Remove a client that stops from its groups; its auto-renewed messages are delivered to others."""
        if request.HasField("group"):
            group_name(request.group)
        self._runner.clients.terminate(context.client)
        return pb.NotifyClientTerminationResponse(status=OK)

    def note_producer(self, context: CallContext, topic: str) -> None:
        """Register a client as a producer of a topic (1,000 at most); the broker may then ask it about transactions."""
        client = context.client
        if topic not in client.topics and len(client.topics) < TOPICS_MAX:
            client.topics.add(topic)
            self._register(context)

    def _register(self, context: CallContext) -> None:
        """Register a client in its groups, as a remoting heartbeat does; do not wait for nameservers or other brokers."""
        client = context.client
        style = _CONSUMERS.get(client.type, CONSUME_PASSIVELY)
        heartbeat = Heartbeat(
            client.client_id,
            tuple(ProducerPart(topic) for topic in client.topics),
            tuple(
                ConsumerPart(group, subscriptions, style)
                for group, subscriptions in client.subscriptions.items()
            ),
            is_without_subscriptions=not any(client.subscriptions.values()),
        )
        rest = context.backend.register(heartbeat, client, context.asker)
        if rest is not None:
            self._runner.run(rest, _log_failure)


class TelemetryStream(CallStream):
    """The stream of telemetry of one client."""

    def __init__(self, telemetry: ClientTelemetry, call: GrpcCall) -> None:
        self._telemetry = telemetry
        self._call = call
        self._client: GrpcClient | None = None

    def received(self, message: bytes) -> None:
        """Register the client by its settings, or pass on its answer to a command; a fault ends the stream."""
        try:
            command = pb.TelemetryCommand.FromString(message)
        except DecodeError:
            self._call.finish(
                GrpcStatus.INVALID_ARGUMENT,
                "the message is no TelemetryCommand: it cannot be decoded",
            )
            return
        if command.WhichOneof("command") != "settings":
            if self._client is not None:
                self._telemetry.commands.answered(self._client, command)
            return
        if command.settings.WhichOneof("pub_sub") is None:
            self._call.finish(
                GrpcStatus.INVALID_ARGUMENT,
                "there is no publishing or subscription data in settings",
            )
            return
        try:
            self._telemetry.settle(self._call, command.settings, self._settled)
        except ProxyRefusal as error:
            self._refuse(error)

    def _settled(self, client: GrpcClient | None, error: BaseException | None) -> None:
        if client is None:
            assert error is not None
            self._refuse(error)
        elif self._client is None:
            self._client = client
            self._telemetry.opened(client, self._call)

    def _refuse(self, error: BaseException) -> None:
        found = status_of(error, RequestCode.HEART_BEAT)
        is_of_client = found.code in _CLIENT_FAULTS
        self._call.finish(
            GrpcStatus.INVALID_ARGUMENT if is_of_client else GrpcStatus.INTERNAL,
            f"process client telemetryCommand failed. {found.message}",
        )

    def half_closed(self) -> None:
        """End the stream, because the client sends nothing more on it."""
        self._call.finish()

    def closed(self) -> None:
        """Forget the stream; its client stays known until it has been silent for long."""
        client = self._client
        if client is not None and client.stream is self._call:
            client.stream = None


def backoff_of(group: GroupConfig) -> pb.RetryPolicy:
    """Return the retry policy that consumers of a group get: number of attempts and pauses, with defaults if unset."""
    policy = pb.RetryPolicy(max_attempts=group.retry_max_times + 1)
    wanted = group.retry_policy
    exponential: Any = wanted.get("exponentialRetryPolicy")
    if wanted.get("type") == "EXPONENTIAL":
        numbers = exponential if isinstance(exponential, Mapping) else {}
        backoff = policy.exponential_backoff
        backoff.initial.FromMilliseconds(_number(numbers.get("initial"), 5_000))
        backoff.max.FromMilliseconds(_number(numbers.get("max"), 7_200_000))
        backoff.multiplier = float(_number(numbers.get("multiplier"), 2))
        return policy
    customized: Any = wanted.get("customizedRetryPolicy")
    pauses = customized.get("next") if isinstance(customized, Mapping) else None
    if not isinstance(pauses, list) or not pauses:
        pauses = [seconds * 1_000 for seconds in _PAUSES_SECONDS]
    for pause_ms in pauses[: len(_PAUSES_SECONDS) * 4]:
        policy.customized_backoff.next.add().FromMilliseconds(_number(pause_ms, 1_000))
    return policy


def _number(value: object, default: int) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 < value < 1 << 40 else default  # type: ignore[operator,return-value]


def _check_room(client: GrpcClient, group: str) -> None:
    if len(client.subscriptions) >= GROUPS_MAX and group not in client.subscriptions:
        raise ProxyRefusal(
            pb.BAD_REQUEST, f"a client can be in at most {GROUPS_MAX} consumer groups"
        )


def _check_expressions(entries: Iterable[pb.SubscriptionEntry]) -> None:
    size = sum(len(entry.expression.expression.encode()) for entry in entries)
    if size > EXPRESSIONS_SIZE_MAX:
        raise ProxyRefusal(
            pb.ILLEGAL_FILTER_EXPRESSION,
            f"the filter expressions of the settings have {size} bytes; at most {EXPRESSIONS_SIZE_MAX} are allowed",
        )


def _topics(resources: Sequence[pb.Resource]) -> list[str]:
    if len(resources) > TOPICS_MAX:
        raise ProxyRefusal(
            pb.BAD_REQUEST,
            f"settings name {len(resources)} topics; at most {TOPICS_MAX} are allowed",
        )
    return [topic_name(each) for each in resources]


def _subscription(topic: str, expression: pb.FilterExpression, version: int) -> Subscription:
    if expression.type == pb.SQL:
        return Subscription(topic, expression.expression, SQL92, version=version)
    try:
        return parse_subscription(topic, expression.expression, version=version)
    except SubscriptionError as error:
        raise ProxyRefusal(pb.ILLEGAL_FILTER_EXPRESSION, str(error)) from None


def _log_failure(_result: object, error: BaseException | None) -> None:
    if error is not None:
        trace = None if isinstance(error, CometError) else error
        _log.warning("a client's heartbeat failed: %s", error, exc_info=trace)
