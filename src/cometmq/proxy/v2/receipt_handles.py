"""Receipt handles as the gRPC protocol has them: nine words, the last of which is the offset in the log.

The first eight are those of `codec.receipt`; RocketMQ's proxy adds the ninth for the dead-letter queue. It may be
missing.
"""

from cometmq.codec.receipt import Receipt, parse_receipt
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.numbers import whole_number
from cometmq.proxy.v2 import messaging_pb2 as pb
from cometmq.proxy.v2.statuses import ProxyRefusal

_LENGTH_MAX = 512
# Answers of a broker that mean that a handle is not that of a message which is hidden now.
OF_HANDLES = (
    ResponseCode.MESSAGE_ILLEGAL, ResponseCode.NO_MESSAGE, ResponseCode.INVALID_PARAMETER,
)  # fmt: skip


def encode_handle(receipt: Receipt, physical_offset: int) -> str:
    """Return the handle of a message at an offset of the log."""
    return f"{receipt} {physical_offset}"


def decode_handle(text: str) -> tuple[Receipt, int | None]:
    """Return the receipt in a handle, and the offset in the log (None without a valid one).

    Raises ProxyRefusal (INVALID_RECEIPT_HANDLE) if it is malformed.
    """
    words = text[: _LENGTH_MAX + 1].split(" ")
    try:
        if not 8 <= len(words) <= 9 or len(text) > _LENGTH_MAX:
            raise _invalid("receipt handle is invalid: it must have eight or nine words")
        receipt = parse_receipt(" ".join(words[:8]))
    except RequestError as error:
        raise _invalid(str(error)) from None
    if min(receipt.queue_id, receipt.queue_offset, receipt.start_offset) < 0:
        raise _invalid("receipt handle is invalid: an offset or the queue is negative")
    return receipt, whole_number(words[8]) if len(words) == 9 else None


def expired(text: str = "receipt handle is expired") -> ProxyRefusal:
    """Return the refusal (INVALID_RECEIPT_HANDLE) of a handle that is not valid any more."""
    return _invalid(text)


def of_other_broker(name: str) -> ProxyRefusal:
    """Return the refusal (INVALID_RECEIPT_HANDLE) of a handle of a broker that is not known."""
    return _invalid(f"cannot find broker {name}")


def _invalid(text: str) -> ProxyRefusal:
    return ProxyRefusal(pb.INVALID_RECEIPT_HANDLE, text)
