"""Answers of request handlers, and the conversion of errors into answers to a peer."""

import logging
import uuid
from typing import NamedTuple

from cometmq.codec.remoting import Command, RawCommand, check_frame_size
from cometmq.kernel import encode_answer_head
from cometmq.model.codes import ResponseCode, request_name
from cometmq.model.errors import CodecError, RequestError, StoreError

_log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """An answer to a remoting request; the number (opaque) that links both is taken from the request.

    Attributes:
        code: Response code, mostly a `ResponseCode`; SUCCESS by default.
        remark: Explanation for people, or None.
        fields: Custom header fields.
        body: The body, or pieces of it that are written in this order.
    """

    code: int = 0
    remark: str | None = None
    fields: dict[str, str] = {}  # noqa: RUF012  Never modified.
    body: bytes | list[bytes | memoryview] = b""


def answer_head(command: Command | RawCommand, answer: Answer, body_size: int) -> bytes:
    """Return length prefix and JSON header of an answer's frame; raise CodecError if the frame is too large."""
    code, remark, fields, _ = answer
    head = encode_answer_head(code, command[2], remark, fields, body_size)
    check_frame_size(len(head) + body_size)
    return head


def instead_of(error: Exception, code: int) -> Answer:
    """Return the error answer to a request if encoding its answer raised `error`; `code` is that of the request."""
    if isinstance(error, CodecError):
        return Answer(
            ResponseCode.SYSTEM_ERROR,
            f"{request_name(code)}: its answer is {error}; ask for less",
        )
    return answer_to_error(error, code)


def answer_to_error(error: BaseException, code: int) -> Answer:
    """Return an error answer to a request of this code; log an unexpected error under the id in the remark."""
    if isinstance(error, RequestError):
        return Answer(error.code, error.remark, error.fields)
    if isinstance(error, StoreError):
        return Answer(error.code, str(error))
    if isinstance(error, CodecError):
        return Answer(ResponseCode.INVALID_PARAMETER, f"{request_name(code)}: {error}")
    # Internals are not shown to the peer. The operator finds the traceback in the log by this id.
    mark = uuid.uuid4().hex[:8]
    _log.error("%s failed, error id %s", request_name(code), mark, exc_info=error)
    return Answer(
        ResponseCode.SYSTEM_ERROR,
        f"{request_name(code)} failed because of an internal error; the server's log has the details under error id {mark}",
    )
