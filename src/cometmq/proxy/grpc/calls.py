"""The interface between the gRPC server and the services: statuses, the table of methods, and streams of messages.

A service gets a call with the bytes of its request or messages, and answers then or later, without a task. All of it
runs on the server's loop. An answer to a call that is closed is dropped, so a late one needs no check.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from cometmq.model.frozen import dataclass

if TYPE_CHECKING:
    from cometmq.proxy.grpc.server_call import GrpcCall


class GrpcStatus(IntEnum):
    """The status codes of gRPC (not RocketMQ's `Code`, which answers carry in their body)."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class CallRefused(Exception):
    """Ends one call with a status other than OK; a service may raise it while it handles a request or message.

    Attributes:
        status: Status for the client.
    """

    def __init__(self, status: GrpcStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class CallStream(Protocol):
    """The receiver of a call whose client sends several messages."""

    def received(self, message: bytes) -> None:
        """Handle the client's next message, encoded; the answer may follow later. CallRefused ends the call."""

    def half_closed(self) -> None:
        """Handle the end of the client's messages; the call goes on until `finish`."""

    def closed(self) -> None:
        """Release the resources of the call, because it is over, for any reason. The last method called, once."""


@dataclass(frozen=True, slots=True)
class Unary:
    """A method whose client sends one message; the response may have several.

    Attributes:
        handle: Gets the call and the encoded request, once that is complete.
    """

    handle: "Callable[[GrpcCall, bytes], None]"


@dataclass(frozen=True, slots=True)
class Streaming:
    """A method whose client sends any number of messages.

    Attributes:
        open: Gets the call when its headers have arrived, and returns the receiver of its messages.
    """

    open: "Callable[[GrpcCall], CallStream]"


# Methods by their path: "/apache.rocketmq.v2.MessagingService/SendMessage".
Services = Mapping[str, Unary | Streaming]
