"""Answers of handlers, and the one place where errors become answers."""

import logging
import uuid
from typing import NamedTuple

from cometmq.codec.remoting import Command, RawCommand, encode_frame_head
from cometmq.model.codes import VERSION, Language, ResponseCode, request_name
from cometmq.model.errors import CodecError, RequestError, StoreError
from cometmq.model.flags import RESPONSE

_log = logging.getLogger(__name__)
_PYTHON = int(Language.PYTHON)


class Answer(NamedTuple):
    """An answer before it has an opaque.

    Attributes:
        code: `ResponseCode`; SUCCESS by default.
        remark: words for people, None when there is nothing to say.
        fields: the custom header.
        body: bytes, or pieces that are written one behind the other.
    """

    code: int = 0
    remark: str | None = None
    fields: dict[str, str] = {}  # noqa: RUF012  Nobody writes to it.
    body: bytes | list[bytes | memoryview] = b""


def answer_head(command: Command | RawCommand, answer: Answer, body_size: int) -> bytes:
    """Prefix and header of the answer's frame; JSON, as a Java server's answers are by default."""
    values = (
        int(answer.code), RESPONSE, command[2], _PYTHON, VERSION,
        answer.remark, answer.fields, b"", 0,
    )  # fmt: skip
    return encode_frame_head(values, body_size)


def instead_of(error: Exception, command: Command | RawCommand) -> Answer:
    """The answer in place of one that raised `error`, so that the asker always learns something."""
    if isinstance(error, CodecError):
        return Answer(
            ResponseCode.SYSTEM_ERROR,
            f"{request_name(command[0])}: its answer is {error}; ask for less",
        )
    return answer_to_error(error, command)


def answer_to_error(error: BaseException, command: Command | RawCommand) -> Answer:
    """The answer that tells a peer of a failure; bugs are logged under an id that it names."""
    if isinstance(error, RequestError):
        return Answer(error.code, error.remark, error.fields)
    if isinstance(error, StoreError):
        return Answer(error.code, str(error))
    if isinstance(error, CodecError):
        return Answer(ResponseCode.INVALID_PARAMETER, f"{request_name(command[0])}: {error}")
    # The peer learns nothing of our insides; whoever runs us finds them under the id.
    mark = uuid.uuid4().hex[:8]
    _log.error("%s failed, error id %s", request_name(command[0]), mark, exc_info=error)
    return Answer(
        ResponseCode.SYSTEM_ERROR,
        f"{request_name(command[0])} failed inside the server; its log has error id {mark}",
    )
