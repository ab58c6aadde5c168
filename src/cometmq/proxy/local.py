"""The gRPC proxy of one broker, in the broker's process: serves RocketMQ's MessagingService on a port of its own.

proxy = LocalProxy(broker, port=8081)       # the broker has been started
await proxy.start()
...
await proxy.close()                         # before the broker is closed
"""

import logging

from cometmq.broker.server import Broker
from cometmq.model.clock import Clock
from cometmq.model.codes import RequestCode
from cometmq.proxy.grpc.calls import Services, Streaming, Unary
from cometmq.proxy.grpc.server import GrpcServer
from cometmq.proxy.services.access import OpenGate, SignedCallGate
from cometmq.proxy.services.clients import EXPIRE_SECONDS, GrpcClients
from cometmq.proxy.services.commands import StreamCommands
from cometmq.proxy.services.methods import CallRunner, Method
from cometmq.proxy.services.pulling import Pulling, get_offset, query_offset, update_offset
from cometmq.proxy.services.receipts import Receipts
from cometmq.proxy.services.receiving import Receiving
from cometmq.proxy.services.renewals import Renewals
from cometmq.proxy.services.routes import Routes
from cometmq.proxy.services.sending import Sending
from cometmq.proxy.services.telemetry import ClientTelemetry
from cometmq.proxy.services.transactions import end_transaction, recall_message
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.steps.on_loop import LoopWorld, Machines

_log = logging.getLogger(__name__)

_SERVICE = "/apache.rocketmq.v2.MessagingService/"


class LocalProxy:
    """The gRPC port of a broker, from `start` to `close`.

    Attributes:
        port: The port to listen on; after `start` the actual one, if it was 0.
    """

    def __init__(self, broker: Broker, *, port: int, access_address: str = "") -> None:
        """Set the broker and the port; `start` listens.

        Args:
            broker: The broker, which has been started.
            port: The port to listen on, at the broker's address; 0 for any free one.
            access_address: The "host:port" in the routes of clients; empty: the one that the client uses.
        """
        self.port = port
        self._broker = broker
        self._access_address = access_address

    async def start(self) -> None:
        """Start to serve gRPC clients; raise NetError if the port cannot be bound."""
        parts = self._broker.role.parts
        clock, world = parts.clock, LoopWorld(parts.pool, parts.store)
        self._commands = StreamCommands()
        self._clients = GrpcClients(
            clock, self._commands, idle_seconds=parts.settings.client_timeout_ms / 1_000
        )
        self._runner = CallRunner(self._broker, self._clients, self._gate(), world)
        self._renewals = Renewals(clock)
        self._clients.on_gone = self._renewals.release
        self._machines = Machines(world, "proxy")
        keeper = self._machines.keep("renewals", self._renewals.look, period_seconds=1.0)
        self._renewals.on_first = keeper.wake
        self._machines.keep("clients", self._clients.expire, first_seconds=EXPIRE_SECONDS)
        self._server = GrpcServer(
            self._services(clock),
            clock,
            files=[pb.DESCRIPTOR.serialized_pb],
            tls=parts.settings.server_tls(("h2",)),
        )
        self._server.on_drain += [self._clients.end_calls]
        self.port = await self._server.start(self._broker.listen_host, self.port)
        _log.info("gRPC clients are served on %s:%d", self._broker.listen_host, self.port)

    def _gate(self) -> OpenGate:
        gate = self._broker.role.parts.guard.gate
        if gate is None:
            return OpenGate()
        return SignedCallGate(gate, is_own_machine_trusted=self._broker.is_own_machine_trusted)

    def _services(self, clock: Clock) -> Services:
        runner = self._runner
        telemetry = ClientTelemetry(runner, clock, self._commands)
        settings = self._broker.settings
        routes, receipts = Routes(self._access_address), Receipts(clock)
        sending = Sending(telemetry, clock, broker_name=settings.broker_name)
        code = RequestCode
        methods = {
            "QueryRoute": Method(code.GET_ROUTEINFO_BY_TOPIC, pb.QueryRouteRequest, pb.QueryRouteResponse, routes.query_route),
            "QueryAssignment": Method(code.QUERY_ASSIGNMENT, pb.QueryAssignmentRequest, pb.QueryAssignmentResponse, routes.query_assignment),
            "Heartbeat": Method(code.HEART_BEAT, pb.HeartbeatRequest, pb.HeartbeatResponse, telemetry.heartbeat),
            "NotifyClientTermination": Method(code.UNREGISTER_CLIENT, pb.NotifyClientTerminationRequest, pb.NotifyClientTerminationResponse, telemetry.terminate),
            "SendMessage": Method(code.SEND_MESSAGE_V2, pb.SendMessageRequest, pb.SendMessageResponse, sending.send),
            "ReceiveMessage": Receiving(runner, self._renewals, clock).method,
            "AckMessage": Method(code.ACK_MESSAGE, pb.AckMessageRequest, pb.AckMessageResponse, receipts.acknowledge),
            "ChangeInvisibleDuration": Method(code.CHANGE_MESSAGE_INVISIBLETIME, pb.ChangeInvisibleDurationRequest, pb.ChangeInvisibleDurationResponse, receipts.change),
            "ForwardMessageToDeadLetterQueue": Method(code.CONSUMER_SEND_MSG_BACK, pb.ForwardMessageToDeadLetterQueueRequest, pb.ForwardMessageToDeadLetterQueueResponse, receipts.forward),
            "EndTransaction": Method(code.END_TRANSACTION, pb.EndTransactionRequest, pb.EndTransactionResponse, end_transaction),
            "RecallMessage": Method(code.RECALL_MESSAGE, pb.RecallMessageRequest, pb.RecallMessageResponse, recall_message),
            "PullMessage": Pulling(runner).method,
            "UpdateOffset": Method(code.UPDATE_CONSUMER_OFFSET, pb.UpdateOffsetRequest, pb.UpdateOffsetResponse, update_offset),
            "GetOffset": Method(code.QUERY_CONSUMER_OFFSET, pb.GetOffsetRequest, pb.GetOffsetResponse, get_offset),
            "QueryOffset": Method(code.SEARCH_OFFSET_BY_TIMESTAMP, pb.QueryOffsetRequest, pb.QueryOffsetResponse, query_offset),
        }  # fmt: skip
        services: dict[str, Unary | Streaming] = {
            f"{_SERVICE}{name}": runner.handler(method) for name, method in methods.items()
        }
        services[f"{_SERVICE}Telemetry"] = telemetry.streaming()
        return services

    async def close(self) -> None:
        """Stop listening, end calls that wait for messages, give others time to end, and forget the clients."""
        await self._server.close()
        self._runner.close()
        await self._machines.close()
        self._clients.close()
