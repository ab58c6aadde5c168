"""The error tree: every failure of the world that CometMQ reports, typed and with what to do now.

Bugs are `assert`s; what stands here are the failures that a peer, a disk or a user causes. An error
that can be answered to a peer carries the protocol's response code (`codes.ResponseCode`) and a
remark that says what, which and what now. `net.dispatcher` is the one place that makes answers of
them.
"""

from typing import Any

from cometmq.model.codes import ResponseCode, response_name
from cometmq.model.text import cut, printable


class CometError(Exception):
    """Root of everything CometMQ raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickle and copy whatever arguments a constructor takes."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(
    kind: type[CometError], args: tuple[Any, ...], state: dict[str, Any]
) -> CometError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class RequestError(CometError):
    """A request that is refused: becomes an answer with this code and remark.

    Attributes:
        code: the protocol's response code (`ResponseCode`, or a raw number from a peer).
        remark: what, which and what now, for the person who reads it.
        fields: header fields that go with the refusal (a pull's offsets, say).
    """

    def __init__(self, code: int, remark: str, fields: dict[str, str] | None = None) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.fields = fields or {}


class CodecError(CometError):
    """Bytes that mean nothing in the layout they were read as."""


class FrameTooLarge(CodecError):
    """A frame announces more bytes than allowed; its connection cannot be kept in step."""


class BombError(CodecError):
    """Compressed bytes that would unpack beyond the bound that the caller set."""


class LinkError(CometError):
    """The connection of a master and a slave cannot go on; another one may."""


class CopyingStopped(LinkError):
    """A slave's log does not fit its master's: no connection helps, somebody must look.

    Attributes:
        advice: What helps, as a sentence; None: to compare the two logs.
    """

    def __init__(self, why: str, advice: str | None = None) -> None:
        super().__init__(why)
        self.advice = advice


class StoreError(CometError):
    """The store refuses: the base of its reasons. `code` is what a sender is answered."""

    code = ResponseCode.SERVICE_NOT_AVAILABLE


class StoreFull(StoreError):
    """No room: a file cannot be made, or the disk is above its warning level."""


class StoreBusy(StoreError):
    """A message that waited too long is not taken; another broker may."""

    code = ResponseCode.SYSTEM_BUSY


class StoreReadOnly(StoreError):
    """The store was opened for reading only, or was found damaged and waits for repair."""


class StoreClosed(StoreError):
    """The store is closed, or not open yet."""


class StorePoisoned(StoreError):
    """A flush failed. Nothing written since can be called durable until a restart has scanned it."""


class StoreLocked(StoreError):
    """Raised where another broker, Java's or ours, has the directory open."""


class StoreDamaged(StoreError):
    """Files that do not fit each other or the settings; the message names file and setting."""


class RecordIllegal(StoreError):
    """A record that cannot be stored: longer than a file or than the size limit."""

    code = ResponseCode.MESSAGE_ILLEGAL


class SettingsError(CometError):
    """A setting that cannot be used; the message names key, value and what is allowed."""


class NetError(CometError):
    """A peer cannot be reached or went away."""


class ConnectError(NetError):
    """No connection could be made to an address."""


class ConnectionLost(NetError):
    """The connection closed while a request on it waited for its answer."""


class RequestTimeout(NetError):
    """No answer came within the time allowed."""


class ClientError(CometError):
    """Root of what the client reports to its user."""


class ListenerError(ClientError):
    """A listener breaks its contract, so that nothing more can be consumed; `wait()` of the consumer raises it."""


class ClientClosed(ClientError):
    """The producer or consumer was used before start or after close."""


class MessageError(ClientError):
    """A message that cannot be sent as it is: topic, size or property name."""


class TopicNotFound(ClientError):
    """No nameserver knows a route of this topic."""


class GroupNotFound(ClientError):
    """No broker knows the consumer group: nobody has made it, and no member of it has come."""


class BrokerNotFound(ClientError):
    """The route names a broker, but no address of it is known."""


class BrokerRefused(ClientError):
    """A broker or nameserver answered with an error code.

    Attributes:
        code: the response code as the peer sent it.
        remark: the peer's own words, as they came.
        address: who answered, "host:port".
    """

    def __init__(self, code: int, remark: str, address: str) -> None:
        # A remark has whatever length and line breaks its peer likes, and this text ends in logs.
        said = printable(cut(remark, _REMARK_SHOWN_MAX)) or "no remark"
        super().__init__(f"{address} answered {code} {response_name(code)}: {said}")
        self.code = code
        self.remark = remark
        self.address = address


class BodyError(ClientError):
    """A message's body that is no value of its typed topic."""


class SendFailed(ClientError):
    """All attempts to send a message failed; the message lists each attempt."""


class SubscriptionError(ClientError):
    """A subscription expression that cannot be parsed or is not supported."""


class ExpressionError(SubscriptionError):
    """An SQL92 expression that cannot be used.

    Attributes:
        column: where it is wrong, from 1.
    """

    def __init__(self, reason: str, expression: str, column: int) -> None:
        start = max(column - _AROUND, 1)
        around = expression[start - 1 : column - 1 + _AROUND]
        super().__init__(
            f"SQL92, column {column}: {reason}\n  {around.translate(_ONE_LINE)}\n"
            f"  {' ' * (column - start)}^"
        )
        self.column = column


_REMARK_SHOWN_MAX = 2_000
_AROUND = 60  # Characters of an expression that are shown at each side of the fault.
_ONE_LINE = {ord(sign): " " for sign in "\t\n\r\f"}
