"""Requests 2001 to 2003: change and return the thresholds of cold data control."""

import orjson

from cometmq.broker.parts import Feature, Parts
from cometmq.codec.java_properties import decode_java_properties
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CodecError, RequestError
from cometmq.model.names import group_fault
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer

_BODY_MAX = 1 << 20
_THRESHOLD_MAX = (1 << 63) - 1  # A Java long.


class ColdReaderHandler(Feature):
    """Handles the requests of cold data control."""

    def __init__(self, parts: Parts) -> None:
        self._cold = parts.cold
        self.answers = {
            RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: self.change,
            RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: self.remove,
            RequestCode.GET_COLD_DATA_FLOW_CTR_INFO: self.tell,
        }

    def change(self, command: Command, _peer: Peer) -> Answer:
        """Set all cold read thresholds in the body, or refuse them all (UPDATE_COLD_DATA_FLOW_CTR_CONFIG 2001)."""
        if len(command.body) > _BODY_MAX:
            raise _invalid(
                f"the body has {len(command.body)} bytes; at most {_BODY_MAX} are allowed"
            )
        try:
            values = decode_java_properties(command.body)
        except CodecError as error:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"string2Properties error: {error}"
            ) from None
        thresholds = {group: _threshold(group, text) for group, text in values.items()}
        self._cold.change(thresholds)
        return Answer()

    def remove(self, command: Command, _peer: Peer) -> Answer:
        """Remove a group's threshold, if it has one (REMOVE_COLD_DATA_FLOW_CTR_CONFIG 2002)."""
        try:
            group = command.body.decode()
        except UnicodeDecodeError:
            raise _invalid("the body must be the name of a consumer group, in UTF-8") from None
        self._cold.remove(group)
        return Answer()

    def tell(self, _command: Command, _peer: Peer) -> Answer:
        """Answer with the cold read thresholds and the counted cold reads as JSON (GET_COLD_DATA_FLOW_CTR_INFO 2003)."""
        return Answer(body=orjson.dumps(self._cold.to_json()))


def _threshold(group: str, text: str) -> int:
    if (fault := group_fault(group)) is not None:
        raise _invalid(fault)
    text = text.strip()
    # More than 20 digits cannot be valid, and Python parses thousands of digits slowly.
    if (
        not text.isascii()
        or not text.isdecimal()
        or len(text) > 20
        or int(text) > _THRESHOLD_MAX
    ):
        raise _invalid(f"the threshold of group {group} must be a number of bytes, 0 or more")
    return int(text)


def _invalid(remark: str) -> RequestError:
    return RequestError(ResponseCode.INVALID_PARAMETER, remark)
