"""The service `grpc.health.v1.Health`, by which load balancers and Kubernetes check whether a server accepts calls."""

from collections.abc import Iterable
from enum import IntEnum

from google.protobuf.message import DecodeError

from cometmq.proxy.grpc.calls import CallRefused, GrpcStatus, Services, Unary
from cometmq.proxy.grpc.server_call import GrpcCall
from cometmq.proxy.grpc.standard_messages import HealthCheckRequest, HealthCheckResponse

# Calls of Watch that may be open; each waits until the server closes.
WATCHERS_MAX = 1000


class ServingStatus(IntEnum):
    """The answers of the health service."""

    UNKNOWN = 0
    SERVING = 1
    NOT_SERVING = 2
    SERVICE_UNKNOWN = 3


class GrpcHealth:
    """The health of a server: one status for the server and all of its services."""

    def __init__(self, names: Iterable[str]) -> None:
        """Begin with SERVING; `names` are the full names of the services: "apache.rocketmq.v2.MessagingService"."""
        self._names = frozenset(names) | {""}
        self._status = ServingStatus.SERVING
        self._watchers: dict[GrpcCall, str] = {}

    @property
    def services(self) -> Services:
        """The handlers of the methods Check and Watch, by path."""
        return {
            "/grpc.health.v1.Health/Check": Unary(self._check),
            "/grpc.health.v1.Health/Watch": Unary(self._watch),
        }

    def set(self, status: ServingStatus) -> None:
        """Change the status, and send it to all open Watch calls if it differs."""
        if status != self._status:
            self._status = status
            for call, name in list(self._watchers.items()):
                call.answer(self._answer(name))

    def end_watches(self) -> None:
        """End all Watch calls with UNAVAILABLE, because the server closes."""
        for call in list(self._watchers):
            call.finish(GrpcStatus.UNAVAILABLE, "the server is closing")

    def _answer(self, name: str) -> bytes:
        status = self._status if name in self._names else ServingStatus.SERVICE_UNKNOWN
        encoded: bytes = HealthCheckResponse(status=status).SerializeToString()
        return encoded

    def _check(self, call: GrpcCall, request: bytes) -> None:
        name = _asked(request)
        if name not in self._names:
            raise CallRefused(GrpcStatus.NOT_FOUND, f"there is no service {name[:200]}")
        call.answer(self._answer(name))
        call.finish()

    def _watch(self, call: GrpcCall, request: bytes) -> None:
        name = _asked(request)
        if len(self._watchers) >= WATCHERS_MAX:
            raise CallRefused(
                GrpcStatus.RESOURCE_EXHAUSTED, f"{WATCHERS_MAX} calls watch the health already"
            )
        self._watchers[call] = name
        call.on_close.append(lambda: self._watchers.pop(call, None))
        call.answer(self._answer(name))


def _asked(request: bytes) -> str:
    try:
        name: str = HealthCheckRequest.FromString(request).service
    except DecodeError:
        raise CallRefused(
            GrpcStatus.INVALID_ARGUMENT, "the request is no HealthCheckRequest"
        ) from None
    return name
