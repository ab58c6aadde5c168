"""The common exceptions of CometMQ for failures of peers, disks and users; others derive from them elsewhere.

No class of this tree is meant for bugs. `net.answer` turns errors into answers to a peer.
"""

from typing import Any

from cometmq.model.codes import ResponseCode, response_name
from cometmq.model.text import cut, printable


class CometError(Exception):
    """Base class of the exceptions for failures that CometMQ expects, which are not bugs."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(
    kind: type[CometError], args: tuple[Any, ...], state: dict[str, Any]
) -> CometError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class RequestError(CometError):
    """A refused request: a server answers with this code and remark; a client raises it for one that it does not send.

    Attributes:
        code: Response code of the protocol (`ResponseCode`, or a raw number from a peer).
        remark: Text for people: the problem, the object, and what to do.
        fields: Header fields of the answer, for example the offsets of a pull.
    """

    def __init__(self, code: int, remark: str, fields: dict[str, str] | None = None) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.fields = fields or {}


def invalid_parameter(remark: str) -> RequestError:
    """Return the error for a value that cannot be used (INVALID_PARAMETER); the remark says which, and what to write."""
    return RequestError(ResponseCode.INVALID_PARAMETER, remark)


class CodecError(CometError):
    """Bytes or text that cannot be decoded in the expected format, or a value that cannot be encoded in it."""


class FrameTooLarge(CodecError):
    """A frame longer than allowed, or another protocol such as TLS; the connection's next frames cannot be found."""


class BombError(CodecError):
    """Compressed bytes that would decompress beyond a limit, or need a larger Zstandard window than allowed."""


class LinkError(CometError):
    """The connection between a master and a slave cannot continue; a new one may work."""


class CopyingStopped(LinkError):
    """Copying cannot continue, mostly as a slave's log does not match its master's; usually an operator must act.

    Attributes:
        advice: What to do, as a sentence; None means to compare the two logs.
    """

    def __init__(self, why: str, advice: str | None = None) -> None:
        super().__init__(why)
        self.advice = advice


class StoreError(CometError):
    """A refusal by the store; `code` is the response code for peers, by default SERVICE_NOT_AVAILABLE."""

    code = ResponseCode.SERVICE_NOT_AVAILABLE


class StoreFull(StoreError):
    """No message is accepted, mostly for lack of disk space or another resource, or as the disk is above a limit."""


class StoreBusy(StoreError):
    """A temporary refusal, for example as messages wait too long or the log is being truncated; try again."""

    code = ResponseCode.SYSTEM_BUSY


class StoreReadOnly(StoreError):
    """The store was opened read-only, is that of a slave, or is damaged and must be repaired."""


class StoreClosed(StoreError):
    """A store was called after it was closed."""


class StorePoisoned(StoreError):
    """A write, flush or truncation of the log failed or did not end; a restart must check the store before new messages."""


class StoreLocked(StoreError):
    """A directory is already open: in another program (a broker of CometMQ or RocketMQ, a tool), or in this process."""


class StoreDamaged(StoreError):
    """Files of a store or archive that are damaged, missing or not supported, or do not match settings or a position."""


class RecordIllegal(StoreError):
    """A record that cannot be stored, mostly because it exceeds a file or limit, or a place where no record begins."""

    code = ResponseCode.MESSAGE_ILLEGAL


class SettingsError(CometError):
    """A setting, argument or configuration file that cannot be used; the message says what is wrong."""


class NetError(CometError):
    """A failure, mostly of the network: for example an unreachable or silent peer, or a server that cannot listen."""


class ConnectError(NetError):
    """A connection that could not be made, or that was accepted and lacks the required TLS."""


class ConnectionLost(NetError):
    """The connection is closed, or was closed while a request waited for its answer."""


class RequestTimeout(NetError):
    """No answer arrived within the allowed time, no time is left to ask, or a gRPC client cannot be asked."""


class ClientError(CometError):
    """Base class of errors of the client library, sometimes raised itself; the library also raises others such as NetError."""


class ListenerError(ClientError):
    """A listener returned an invalid result, so its consumer stops consuming; raised by `wait()` of the consumer."""


class ClientClosed(ClientError):
    """A client was used before its start or after its close, or was closed during the call."""


class MessageError(ClientError):
    """A message, batch, reply or transaction that cannot be sent as asked, for example because of its topic or size."""


class TopicNotFound(ClientError):
    """The nameserver that answered has no route of the topic, or no broker has it or can be used for it."""


class GroupNotFound(ClientError):
    """No broker knows the consumer group (never created, without members), or has its settings or dead letters."""


class BrokerNotFound(ClientError):
    """A broker, or any suitable one, is not registered, has no known address, lacks the topic, or does not answer."""


class BrokerRefused(ClientError):
    """A broker or nameserver answered with an error code, or otherwise not as asked.

    Attributes:
        code: Response code, usually as sent by the peer.
        remark: Remark, usually as sent by the peer.
        address: "host:port" of the peer, or a broker's name.
    """

    def __init__(self, code: int, remark: str, address: str) -> None:
        # A peer's remark may have any length and line breaks, but this text is written to logs.
        said = printable(cut(remark, _REMARK_SHOWN_MAX)) or "no remark"
        super().__init__(f"{address} answered {code} {response_name(code)}: {said}")
        self.code = code
        self.remark = remark
        self.address = address


class BodyError(ClientError):
    """A message body that the codec of its typed topic (`Topic`) cannot decode."""


class SendFailed(ClientError):
    """A message could not be sent or was not acknowledged as asked, or some of many sends failed; the text says why."""


class SubscriptionError(ClientError):
    """A subscription is missing or invalid, or its filter is invalid or not supported."""


class ExpressionError(SubscriptionError):
    """An SQL92 expression that cannot be used.

    Attributes:
        column: Column of the error, from 1.
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
_AROUND = 60  # Characters shown on each side of the error.
_ONE_LINE = {ord(sign): " " for sign in "\t\n\r\f"}
