"""The outcome of a call (`Status`), made from refusals of the proxy and from errors of the broker.

Source: ResponseBuilder and the activities of RocketMQ's proxy 5.3.x; docs/grpc.md lists the codes.
"""

from collections.abc import Sequence
from typing import cast

from cometmq.model.codes import ResponseCode
from cometmq.model.errors import CometError, RequestTimeout
from cometmq.net.answer import answer_to_error
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.store.positions import Durability

_CODES = {
    ResponseCode.SYSTEM_BUSY: pb.TOO_MANY_REQUESTS,
    ResponseCode.FLOW_CONTROL: pb.TOO_MANY_REQUESTS,
    ResponseCode.POLLING_FULL: pb.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: pb.NOT_IMPLEMENTED,
    ResponseCode.FLUSH_DISK_TIMEOUT: pb.MASTER_PERSISTENCE_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: pb.SLAVE_PERSISTENCE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: pb.HA_NOT_AVAILABLE,
    ResponseCode.NO_PERMISSION: pb.FORBIDDEN,
    ResponseCode.TOPIC_NOT_EXIST: pb.TOPIC_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: pb.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: pb.ILLEGAL_FILTER_EXPRESSION,
    ResponseCode.QUERY_NOT_FOUND: pb.OFFSET_NOT_FOUND,
    # Differs: RocketMQ's proxy answers INTERNAL_SERVER_ERROR, and the client tries again in vain.
    ResponseCode.MESSAGE_ILLEGAL: pb.BAD_REQUEST,
    ResponseCode.INVALID_PARAMETER: pb.BAD_REQUEST,
}
_UNCONFIRMED = {
    Durability.DISK_LATE: (pb.MASTER_PERSISTENCE_TIMEOUT, "FLUSH_DISK_TIMEOUT"),
    Durability.REPLICA_LATE: (pb.SLAVE_PERSISTENCE_TIMEOUT, "FLUSH_SLAVE_TIMEOUT"),
    Durability.NO_REPLICA: (pb.HA_NOT_AVAILABLE, "SLAVE_NOT_AVAILABLE"),
    # As RocketMQ's proxy answers for a broker's SERVICE_NOT_AVAILABLE, which the remoting port gives; clients send again.
    Durability.NOT_COMMITTED: (pb.INTERNAL_SERVER_ERROR, "SERVICE_NOT_AVAILABLE"),
}

OK = pb.Status(code=pb.OK, message="OK")


class ProxyRefusal(CometError):
    """A call, or an entry of one, that the proxy refuses with a code of its protocol."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def status_of(error: BaseException, request_code: int) -> pb.Status:
    """Return the status for an error; log an unexpected one. `request_code` names the request in texts and in the log."""
    if isinstance(error, ProxyRefusal):
        return status(error.code, str(error))
    if isinstance(error, RequestTimeout):
        return status(pb.PROXY_TIMEOUT, str(error))
    code, remark, _, _ = answer_to_error(error, request_code)
    return status(_CODES.get(ResponseCode(code), pb.INTERNAL_SERVER_ERROR), remark or "")


def status(code: int, text: str) -> pb.Status:
    """Return a status with a code of the protocol and a text for people."""
    return pb.Status(code=cast("pb.Code", code), message=text)


def status_of_entries(entries: Sequence[pb.Status]) -> pb.Status:
    """Return the status of a call from those of its entries: the first, or MULTIPLE_RESULTS if codes differ."""
    if any(each.code != entries[0].code for each in entries):
        return status(pb.MULTIPLE_RESULTS, "MULTIPLE_RESULTS")
    return entries[0]


def status_of_durability(durability: Durability) -> pb.Status:
    """Return the status of a stored message: OK, or an error if it is not flushed, replicated or committed in time."""
    if durability is Durability.OK:
        return OK
    code, name = _UNCONFIRMED[durability]
    return status(code, f"send message failed, sendStatus={name}")
