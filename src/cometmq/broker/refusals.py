"""Refuses requests for some parts of RocketMQ that this broker does not have, each with the reason.

902 and 903 are for a BrokerContainer, 513 for static topics, 354 and 355 for queues and settings in RocksDB, 1007 for controller mode.
"""

from cometmq.broker.parts import Parts
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode as Code
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.requests import Answers, Handler

_CONTAINER = "this is a broker, not a BrokerContainer; start each broker as a separate process"
_NOT_SUPPORTED = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
_REASONS = {
    Code.ADD_BROKER: (_NOT_SUPPORTED, _CONTAINER),
    Code.REMOVE_BROKER: (_NOT_SUPPORTED, _CONTAINER),
    Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: (
        ResponseCode.SYSTEM_ERROR,
        "this broker stores its queues in files, not in RocksDB, so there is no progress to check",
    ),
    Code.EXPORT_ROCKSDB_CONFIG_TO_JSON: (
        ResponseCode.SYSTEM_ERROR,
        "this broker already stores topics, groups and offsets as JSON: see the folder config of its store",
    ),
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: (
        _NOT_SUPPORTED,
        "this broker does not support static topics; create an ordinary topic",
    ),
    # Text of AdminBrokerProcessor.getBrokerEpochCache of RocketMQ 5.3.3, with its blank.
    Code.GET_BROKER_EPOCH_CACHE: (
        ResponseCode.SYSTEM_ERROR,
        "this request only for controllerMode ",
    ),
}


def refusals(_parts: Parts) -> Answers:
    """Return the handlers that refuse requests for some parts of RocketMQ that this broker does not have."""
    return {code: refusing(*reason) for code, reason in _REASONS.items()}


def refusing(code: int, remark: str) -> Handler:
    """Return a handler that refuses all requests with this code and remark."""

    def refuse(_command: Command, _peer: Peer) -> Answer:
        raise RequestError(code, remark)

    return refuse
