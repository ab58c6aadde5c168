"""The straight way of a send: no check but those that a plain message needs.

A plain send names a queue whose lane is open, and nothing about its properties is special; that is
found by substring tests, once for all messages of the same shape (the properties without the unique
key, which hardly change from message to message). The loops are the kernel's. What is special in
any way goes through `admission`, which checks everything; the meaning is the same.
"""

from cometmq.broker.send.admission import Admission, AdmittedSend
from cometmq.broker.send.requests.answers import Pending
from cometmq.broker.tables.lanes import Lanes
from cometmq.codec.remoting import RawCommand
from cometmq.kernel import is_whole, plain_batch, plain_sends
from cometmq.model.codes import RequestCode
from cometmq.model.java_hash import java_hash
from cometmq.store.appender import Put

_SEND_BATCH = int(RequestCode.SEND_BATCH_MESSAGE)
_UNIQUE_KEY = "UNIQ_KEY\1"
_INT_BITS, _LONG_BITS = 31, 63  # Of a number in a record, beside its sign.
# Properties (or ends of their names) that only admission knows how to treat.
_SPECIAL_MARKS = ("DELAY\1", "TIMER_D", "TRAN_MSG\1", "WAIT\1f", "POP_CK\1", "INNER_MULTI")
# Bound what a sender can make us remember: 128 KB of text.
_SHAPES_MAX = 1024
_SHAPE_SIZE_MAX = 128


class PlainSends:
    """Makes puts of sends that have nothing special about them."""

    def __init__(self, lanes: Lanes, admission: Admission) -> None:
        self._straight = lanes.straight
        self._suffix = admission.property_suffix.encode()
        self._body_size_max = admission.body_size_max
        self._shapes: dict[str, int] = {}

    def gather(
        self,
        commands: list[RawCommand],
        first: int,
        host: bytes,
        puts: list[Put],
        pending: list[Pending],
    ) -> int:
        """Add plain sends, from the first on, to the puts.

        Returns:
            The index of the first command that is not plain.
        """
        return plain_sends(
            commands, first, self._straight, self._shapes, self._look, self._suffix, host,
            self._body_size_max, puts, pending,
        )  # fmt: skip

    def take_batch(self, command: RawCommand, host: bytes) -> AdmittedSend | None:
        """A plain batch; None when it is another request, or anything about it is special."""
        code, _, _, _, _, _, fields, body, _ = command
        if code != _SEND_BATCH:
            return None
        try:
            queue, topic_block, answer_start, _ = self._straight.find(fields["b"], fields["e"])
            shared = fields.get("i") or ""
            if shared[-1:] not in {"", "\2"} or "TAGS\1" in shared or _is_special(shared):
                return None
            if fields.get("m") not in {None, "true", "false"} or not is_whole(fields):
                return None
            key = _key_of(shared)
            _number_of(fields["h"], _INT_BITS)  # Stored is the flag of each message.
            born_ms = _number_of(fields["g"], _LONG_BITS)
            times = _number_of(fields.get("j", "0"), _INT_BITS)
            block = shared.encode() + self._suffix
        except (LookupError, ValueError, TypeError, AttributeError):
            return None
        is_plain = fields.get("f") == "0" and 0 < len(body) <= self._body_size_max
        puts: list[Put] = []
        if is_plain and plain_batch(
            body, block, queue, topic_block, born_ms, host, times, java_hash, puts
        ):
            return AdmittedSend(puts, answer_start, key, is_batch=True)
        return None

    def _look(self, shape: str) -> int | None:
        """The tags code of properties that are plain; None when they may be special.

        Args:
            shape: the properties behind the unique key, or those before it, a zero, and those
                behind it.
        """
        before, zero, behind = shape.rpartition("\0")
        if behind[:1] != "\2" or "\0" in before:
            return None
        if zero and (before[:1] in {"", "\2"} or before[-1] != "\2"):
            return None
        text = before + _UNIQUE_KEY + behind
        # Of a property that comes twice the last counts; the kernel found the first key.
        if text[-1] != "\2" or _UNIQUE_KEY in behind or _is_special(text):
            return None
        tags_at = text.find("TAGS\1")
        tags_code = 0
        if tags_at >= 0:
            if tags_at > 0 and text[tags_at - 1] != "\2":
                return None
            if text.find("TAGS\1", tags_at + 1) >= 0:
                return None
            tags_code = java_hash(text[tags_at + 5 : text.index("\2", tags_at)])
        if len(shape) <= _SHAPE_SIZE_MAX and len(self._shapes) < _SHAPES_MAX:
            self._shapes[shape] = tags_code
        return tags_code


def _is_special(properties: str) -> bool:
    return any(mark in properties for mark in _SPECIAL_MARKS)


def _key_of(properties: str) -> str:
    """The unique key among a batch's properties, "" without one.

    Raises:
        ValueError: it is not plain which one it is.
    """
    before, name, behind = properties.partition(_UNIQUE_KEY)
    key, _, others = behind.partition("\2")
    if name and (before[-1:] not in {"", "\2"} or not key or "\1" in key or name in others):
        raise ValueError("no key, or the end of another name, or one of several")
    return key


def _number_of(text: str, bits: int) -> int:
    """The number that a field's text is.

    Raises:
        ValueError: it is out of its range, or written as nobody does.
    """
    number = int(text)
    if not -(1 << bits) <= number < 1 << bits or str(number) != text:
        raise ValueError("out of its range, or written as nobody does")
    return number
