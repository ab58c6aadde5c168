"""The gRPC proxy: serves RocketMQ's MessagingService on a port, in front of the brokers of a `Backend`."""

from collections.abc import Callable

from cometmq.model.clock import Clock
from cometmq.model.codes import RequestCode
from cometmq.net.tls import ServerTls
from cometmq.proxy.backend import Backend
from cometmq.proxy.grpc.calls import Services, Streaming, Unary
from cometmq.proxy.grpc.server import GrpcServer
from cometmq.proxy.services.access import OpenGate
from cometmq.proxy.services.clients import EXPIRE_SECONDS, GrpcClients
from cometmq.proxy.services.commands import StreamCommands
from cometmq.proxy.services.methods import CallRunner, Method
from cometmq.proxy.services.pulling import Pulling, get_offset, query_offset, update_offset
from cometmq.proxy.services.receipts import acknowledge, change, forward
from cometmq.proxy.services.receiving import Receiving
from cometmq.proxy.services.renewals import Renewals
from cometmq.proxy.services.routes import Routes
from cometmq.proxy.services.sending import Sending
from cometmq.proxy.services.telemetry import ClientTelemetry
from cometmq.proxy.services.transactions import end_transaction, recall_message
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.steps.on_loop import LoopWorld, Machines

_SERVICE = "/apache.rocketmq.v2.MessagingService/"


class ProxyServer:
    """The gRPC port in front of brokers, from `start` to `close`.

    Attributes:
        port: The port, after `start`.
    """

    port = 0

    def __init__(
        self,
        backend: Callable[[], Backend],
        clock: Clock,
        world: LoopWorld,
        *,
        gate: OpenGate,
        idle_seconds: float,
        access_address: str = "",
        tls: ServerTls | None = None,
        is_shared: bool = False,
    ) -> None:
        """Create the proxy; `start` listens.

        Args:
            backend: Returns the brokers, or raises ProxyRefusal if none can serve calls now.
            clock: Clock for timeouts and the times of messages.
            world: Runs steps.
            gate: Checks the senders of calls.
            idle_seconds: Seconds of silence after which a client without an open call is forgotten.
            access_address: The "host:port" in the routes of clients; empty: the one that the client uses.
            tls: Certificate of the port; None: only cleartext is accepted.
            is_shared: Whether other processes may listen on the same port, and each gets a part of the connections.
        """
        self._commands = StreamCommands()
        self.clients = GrpcClients(clock, self._commands, idle_seconds=idle_seconds)
        self._runner = CallRunner(backend, self.clients, gate, world)
        self._renewals = Renewals(clock)
        self.clients.on_gone = self._renewals.release
        self._machines = Machines(world, "proxy")
        self._server = GrpcServer(
            self._services(clock, access_address),
            clock,
            files=[pb.DESCRIPTOR.serialized_pb],
            tls=tls,
            is_shared=is_shared,
        )
        self._server.on_drain += [self.clients.end_calls]

    async def start(self, host: str, port: int) -> int:
        """Start to serve gRPC clients on an address; return the port, a free one if it is 0; raise NetError if that fails."""
        self.port = await self._server.start(host, port)
        keeper = self._machines.keep("renewals", self._renewals.look, period_seconds=1.0)
        self._renewals.on_first = keeper.wake
        self._machines.keep("clients", self.clients.expire, first_seconds=EXPIRE_SECONDS)
        return self.port

    def _services(self, clock: Clock, access_address: str) -> Services:
        runner = self._runner
        telemetry = ClientTelemetry(runner, clock, self._commands)
        routes = Routes(access_address)
        code = RequestCode
        methods = {
            "QueryRoute": Method(code.GET_ROUTEINFO_BY_TOPIC, pb.QueryRouteRequest, pb.QueryRouteResponse, routes.query_route),
            "QueryAssignment": Method(code.QUERY_ASSIGNMENT, pb.QueryAssignmentRequest, pb.QueryAssignmentResponse, routes.query_assignment),
            "Heartbeat": Method(code.HEART_BEAT, pb.HeartbeatRequest, pb.HeartbeatResponse, telemetry.heartbeat),
            "NotifyClientTermination": Method(code.UNREGISTER_CLIENT, pb.NotifyClientTerminationRequest, pb.NotifyClientTerminationResponse, telemetry.terminate),
            "SendMessage": Method(code.SEND_MESSAGE_V2, pb.SendMessageRequest, pb.SendMessageResponse, Sending(telemetry, clock).send),
            "ReceiveMessage": Receiving(runner, self._renewals, clock).method,
            "AckMessage": Method(code.ACK_MESSAGE, pb.AckMessageRequest, pb.AckMessageResponse, acknowledge),
            "ChangeInvisibleDuration": Method(code.CHANGE_MESSAGE_INVISIBLETIME, pb.ChangeInvisibleDurationRequest, pb.ChangeInvisibleDurationResponse, change),
            "ForwardMessageToDeadLetterQueue": Method(code.CONSUMER_SEND_MSG_BACK, pb.ForwardMessageToDeadLetterQueueRequest, pb.ForwardMessageToDeadLetterQueueResponse, forward),
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
        self.clients.close()
