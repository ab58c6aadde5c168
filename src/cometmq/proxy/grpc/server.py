"""A server of gRPC calls: its door, its services, the deadlines of its calls and the limits of its connections."""

from typing import cast

from cometmq.model.clock import Clock
from cometmq.model.frozen import dataclass
from cometmq.net.connections import Bounds
from cometmq.net.door import Door
from cometmq.net.tls import ServerTls
from cometmq.proxy.grpc.calls import Services
from cometmq.proxy.grpc.connection import GrpcConnection
from cometmq.proxy.grpc.deadlines import Deadlines
from cometmq.wire.h2.jh2_engine import Jh2Engine

# Bytes a second that an incomplete request must grow by, beyond its first seconds.
_REQUEST_PACE = 64 << 10
_DEFAULT_BOUNDS = Bounds()


@dataclass(frozen=True, slots=True)
class GrpcLimits:
    """The limits on what a client may make a server hold.

    Attributes:
        held_of_connection: Bytes of incomplete requests of a connection.
        held: The same for all connections.
        unsent_of_connection: Bytes of answers that wait on a connection; above it new calls are refused, and calls are
            paused (`GrpcCall.is_paused`).
        request_seconds_min: Seconds for a request to be complete; larger ones have more.
        stalled_seconds: Seconds in which a client with unread answers has to read some.
        ping_seconds: Seconds of silence after which a client with open calls is asked for a sign of life; the door closes
            the connection if none comes.
        idle_seconds: Seconds without a call after which a connection is closed (grpcClientIdleTimeMills).
        drain_seconds: Seconds for calls to end when the server closes (grpcShutdownTimeSeconds).
    """

    held_of_connection: int = 256 << 20
    held: int = 512 << 20
    unsent_of_connection: int = 64 << 20
    request_seconds_min: float = 30.0
    stalled_seconds: float = 30.0
    ping_seconds: float = 60.0
    idle_seconds: float = 120.0
    drain_seconds: float = 30.0

    def request_seconds(self, size: int) -> float:
        """Return the seconds that a request may take of which `size` bytes have come."""
        return self.request_seconds_min + size / _REQUEST_PACE


_DEFAULT_LIMITS = GrpcLimits()


class GrpcServer(Door):
    """A server of gRPC calls: listening addresses and the clients that connect to them.

    Attributes:
        services: The methods that it serves.
        limits: Limits of its connections.
        deadlines: Deadlines of the calls that wait.
        held: Bytes of incomplete requests, of all connections.
    """

    def __init__(
        self,
        services: Services,
        clock: Clock,
        *,
        bounds: Bounds = _DEFAULT_BOUNDS,
        limits: GrpcLimits = _DEFAULT_LIMITS,
        tls: ServerTls | None = None,
    ) -> None:
        """Set the limits; `start` listens. Without `tls` only cleartext is accepted."""
        super().__init__(
            lambda opened: GrpcConnection(self, opened, Jh2Engine()), clock, name="gRPC port",
            bounds=bounds, tls=tls,
        )  # fmt: skip
        self.services = services
        self.limits = limits
        self.deadlines = Deadlines(clock)
        self.held = 0

    @property
    def _clients(self) -> list[GrpcConnection]:
        return cast("list[GrpcConnection]", list(self.peers))

    async def close(self) -> None:
        """Stop listening, let calls end for up to `drain_seconds`, and close every connection."""
        await super().close()
        self.deadlines.close()

    def is_awaiting(self) -> bool:
        """Return True: each connection is checked every few seconds."""
        return True

    def close_silent(self) -> None:
        """Close connections that are silent for too long, and end what takes too long on the others."""
        super().close_silent()
        now = self.clock.monotonic()
        for each in self._clients:
            each.check(now)
