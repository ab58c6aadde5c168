"""A server of gRPC calls: its port, its services, the deadlines of its calls and the limits of its connections."""

from collections.abc import Callable, Iterable
from typing import cast

from cometmq.model.clock import Clock
from cometmq.model.frozen import dataclass
from cometmq.net.connections import Bounds
from cometmq.net.door import Door
from cometmq.net.tls import ServerTls
from cometmq.proxy.grpc.calls import Services
from cometmq.proxy.grpc.connection import GrpcConnection
from cometmq.proxy.grpc.deadlines import Deadlines
from cometmq.proxy.grpc.health import GrpcHealth, ServingStatus
from cometmq.proxy.grpc.reflection import Reflection
from cometmq.proxy.grpc.standard_messages import STANDARD_FILES
from cometmq.wire.h2.choice import chosen_engine

# Makes the engine of a connection.
new_engine = chosen_engine()
# Bytes a second that an incomplete request must grow by, beyond its first seconds.
_REQUEST_PACE = 64 << 10
# Share of the limit of unread answers that is left when connections were closed for it.
_LEFT = 0.75
# Seconds between asking clients to make no more calls and refusing these.
LAST_CALLS_SECONDS = 0.5
_DEFAULT_BOUNDS = Bounds()


@dataclass(frozen=True, slots=True)
class GrpcLimits:
    """Limits on the memory, calls and times that clients of a server may use.

    Attributes:
        held_of_connection: Bytes of incomplete requests of a connection.
        held: The same for all connections.
        unsent_of_connection: Bytes of answers that wait on a connection; above it new calls are refused, and calls are
            paused (`GrpcCall.is_paused`).
        unsent: The same for all connections; above it those with most are closed.
        calls: Open calls, of all connections; each takes about 5 KiB.
        request_seconds_min: Seconds for a request to be complete; larger ones have more.
        stalled_seconds: Seconds in which a client with unread answers has to read some.
        ping_seconds: Seconds of silence after which a client with open calls is asked for a sign of life; without
            one, the connection is closed.
        idle_seconds: Seconds without a call after which a connection is closed (grpcClientIdleTimeMills).
        drain_seconds: Seconds for calls to end when the server closes (grpcShutdownTimeSeconds).
    """

    held_of_connection: int = 256 << 20
    held: int = 512 << 20
    unsent_of_connection: int = 64 << 20
    unsent: int = 512 << 20
    calls: int = 100_000
    request_seconds_min: float = 30.0
    stalled_seconds: float = 30.0
    ping_seconds: float = 60.0
    idle_seconds: float = 120.0
    drain_seconds: float = 30.0

    def request_seconds(self, size: int) -> float:
        """Return the seconds that a request may take to arrive, of which `size` bytes have come."""
        return self.request_seconds_min + size / _REQUEST_PACE


_DEFAULT_LIMITS = GrpcLimits()


class GrpcServer(Door):
    """A server of gRPC calls: listening addresses and the clients that connect to them.

    Attributes:
        services: The methods that it serves, those of health and reflection included.
        health: What it answers to health checks.
        on_drain: Callbacks without arguments, called when the server begins to close: they should end calls that wait.
        limits: Limits of its connections.
        deadlines: Deadlines of the open calls.
        held: Bytes of incomplete requests, of all connections.
        unsent: Bytes of answers not yet written to the sockets, of all connections.
        calls: Number of open calls.
    """

    def __init__(
        self,
        services: Services,
        clock: Clock,
        *,
        files: Iterable[bytes] = (),
        bounds: Bounds = _DEFAULT_BOUNDS,
        limits: GrpcLimits = _DEFAULT_LIMITS,
        tls: ServerTls | None = None,
        is_shared: bool = False,
    ) -> None:
        """Set the services and limits; `start` listens.

        `files` describe the services for tools, each an encoded FileDescriptorProto of `protoc`. Without `tls` only
        cleartext is accepted; its files should offer "h2" (`ServerFiles.protocols`). With `is_shared`, other processes may
        listen on the same port, too.
        """
        super().__init__(
            lambda opened: GrpcConnection(self, opened, new_engine()), clock, name="gRPC port",
            bounds=bounds, tls=tls, is_shared=is_shared,
        )  # fmt: skip
        names = {path.split("/")[1] for path in services}
        self.health = GrpcHealth(names)
        self.on_drain: list[Callable[[], None]] = []
        standard = {"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"}
        reflection = Reflection([*files, *STANDARD_FILES], names | standard)
        self.services: Services = {**services, **self.health.services, **reflection.services}
        self.limits = limits
        self.deadlines = Deadlines(clock)
        self.held = self.unsent = self.calls = 0

    @property
    def _clients(self) -> list[GrpcConnection]:
        return cast("list[GrpcConnection]", list(self.peers))

    def shed(self) -> None:
        """Close connections, those with most `unsent` first, until the total is at most 75 % of its limit."""
        for each in sorted(self._clients, key=lambda client: client.unsent, reverse=True):
            if self.unsent <= self.limits.unsent * _LEFT:
                return
            self.refuse(
                each.address, f"{each.unsent} bytes of answers wait that it has not read"
            )
            self.unsent -= each.unsent
            each.unsent = 0
            each.abort()

    async def close(self) -> None:
        """Stop listening, let calls end for up to `drain_seconds`, and close every connection.

        Clients are asked twice (GOAWAY) to make new calls elsewhere; calls up to the second time are still served.
        """
        self.stop_listening()
        self.health.set(ServingStatus.NOT_SERVING)
        for each in self._clients:
            each.leave(is_final=False)
        for callback in self.on_drain:
            callback()
        self.health.end_watches()
        await self.wait_gone(LAST_CALLS_SECONDS)
        for each in self._clients:
            each.leave(is_final=True)
        await self.wait_gone(self.limits.drain_seconds)
        await super().close()
        self.deadlines.close()

    def is_awaiting(self) -> bool:
        """Return True, so that `close_silent` is called every few seconds."""
        return True

    def close_silent(self) -> None:
        """Close connections that are silent for too long, and check the others (`GrpcConnection.check`)."""
        super().close_silent()
        now = self.clock.monotonic()
        for each in self._clients:
            each.check(now)
